"""The page of ``axonrl report``: what is in it, and how a browser takes it."""

import json
import re
from pathlib import Path

import pytest

from axonrl.experiments.commands.cli import main
from axonrl.tests.experiments.browser import browse
from axonrl.tests.experiments.made_runs import make_run

FRAME = """\
<iframe id="page" src="report.html" width="360" height="700"></iframe><p id="found"></p>
<script>onload = () => {
  const page = document.getElementById("page").contentDocument, style = page.defaultView.getComputedStyle;
  const shown = [...page.querySelectorAll(".chart")].filter(one => style(one).display != "none");
  document.getElementById("found").textContent = JSON.stringify({
    width: page.documentElement.scrollWidth, charts: shown.map(one => one.className),
    loaded: page.defaultView.performance.getEntriesByType("resource").map(one => one.name),
    dark: page.defaultView.matchMedia("(prefers-color-scheme: dark)").matches,
    colours: [style(page.body).backgroundColor, style(page.body).color]});
}</script>
"""
"""The page as a phone shows it, and what is asked about it."""


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """Of two groups, with a name that would do harm if it were not escaped, and of runs that cannot be used."""
    for seed in range(2):
        make_run(tmp_path / "runs" / f"a-{seed}", seed, [11.0, 12.0, 13.0] * 20, note="<script>alert(1)</script>@$x$")
        make_run(tmp_path / "runs" / f"b-{seed}", seed, [12.0 + seed] * 60, note="a name as long as it takes " * 5)
    for index in range(10):
        make_run(tmp_path / "runs" / f"c-{index}", 0, [float(index)] * 60, note=index)
    (make_run(tmp_path / "runs" / "bad", 1, [1.0]) / "run.json").write_text("{")
    (tmp_path / "runs" / "empty").mkdir()
    assert main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "report.html"), "--reach", "2.5"]) == 0
    return tmp_path / "report.html"


def test_the_page_is_whole_and_links_to_runs_and_pictures(report: Path) -> None:
    page = report.read_text(encoding="utf-8")
    for heading in (
        *("Learning curves", "Final performance", "Probability of improvement", "Sample efficiency", "The search"),
        *("Settings that differ", "Runs that could not be used", "Runs"),
    ):
        assert f">{heading}" in page
    addresses = re.findall(r'href="([^"#][^"]*)"', page)
    for address in set(addresses) - {"data:,"}:
        assert (report.parent / address).exists(), address
    assert {"runs/a-0", "runs/bad", "runs/empty", "report-CartPole-v1-curves.png"} <= set(addresses)
    assert "runs/empty is empty" in page
    assert "<summary>All 16 runs</summary>" in page
    assert "4 others are grey" in page
    assert 'class="few">Intervals of 12 of 12 groups are too narrow: they have only 1 to 2 runs.' in page
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    for name in ("curves", "finals", "search"):
        assert (report.parent / f"report-CartPole-v1-{name}.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_is_loaded_from_elsewhere_and_no_script_is_run(report: Path) -> None:
    page = report.read_text(encoding="utf-8")
    assert "<script" not in page
    assert "src=" not in page
    assert "@import" not in page
    assert set(re.findall(r"url\((.)", page)) <= {"#"}
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert "https://" not in page


def test_a_browser_has_no_complaint_and_a_phone_no_need_to_scroll_sideways(report: Path, tmp_path: Path) -> None:
    (tmp_path / "frame.html").write_text(FRAME)
    log = ("--enable-logging=stderr", "--allow-file-access-from-files")
    done = browse((tmp_path / "frame.html").as_uri(), tmp_path, *log)
    found = re.search(r'id="found">([^<]*)<', done.stdout)
    assert found is not None
    facts = json.loads(found[1].replace("&quot;", '"'))
    assert facts["width"] <= 360
    assert facts["loaded"] == []
    assert [name for name in facts["charts"] if "wide" in name.split()] == []
    assert len(facts["charts"]) == 3
    assert "CONSOLE" not in done.stderr, done.stderr


def test_it_is_dark_where_the_reader_wants_that(report: Path, tmp_path: Path) -> None:
    (tmp_path / "frame.html").write_text(FRAME)
    options = ("--allow-file-access-from-files", "--blink-settings=preferredColorScheme=0")
    done = browse((tmp_path / "frame.html").as_uri(), tmp_path, *options)
    found = re.search(r'id="found">([^<]*)<', done.stdout)
    assert found is not None
    facts = json.loads(found[1].replace("&quot;", '"'))
    assert facts["dark"]
    assert facts["colours"] == ["rgb(20, 23, 28)", "rgb(230, 232, 236)"]


def test_no_run_that_can_be_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["report", str(tmp_path), "-o", str(tmp_path / "report.html")]) == 2
    assert str(tmp_path) in capsys.readouterr().err
    assert not (tmp_path / "report.html").exists()
