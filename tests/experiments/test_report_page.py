"""The page of ``axonrl report``: what is in it, and how a browser takes it."""

import errno
import re
from pathlib import Path
from typing import Any

import pytest

from axonrl.experiments.commands.cli import main
from axonrl.experiments.comparison import page, run_digest
from axonrl.tests.experiments.made_runs import make_run
from axonrl.tests.serving.browser import browsing

LOOK = """(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  return {
    width: document.documentElement.scrollWidth, wide: all(".chart.wide").filter(one => one.checkVisibility()).length,
    charts: all(".chart").filter(one => one.checkVisibility()).length,
    loaded: performance.getEntriesByType("resource").map(one => one.name),
    wider: all("body *").filter(one => !one.closest(".scroll, .scrolled")
      && one.getBoundingClientRect().right > 360).map(one => one.outerHTML.slice(0, 80)),
    scrolling: all(".scroll").filter(one => one.scrollWidth > one.clientWidth).length,
    labels: all('.narrow svg[aria-label$="final returns"] text').map(one => one.textContent),
    names: all("tbody th").filter(one => one.checkVisibility()).map(one =>
      [one.clientWidth, Math.round(one.querySelector("span, a")?.getBoundingClientRect().height ?? 0)])};
})()"""
"""What is asked about the page as a phone shows it."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two groups, with a name that would do harm unescaped, and of runs that cannot be used."""
    tmp_path = tmp_path_factory.mktemp("report")
    for seed in range(2):
        make_run(tmp_path / "runs" / f"a-{seed}", seed, [11.0, 12.0, 13.0] * 20, note="<script>alert(1)</script>@$x{$")
        make_run(tmp_path / "runs" / f"b-{seed}", seed, [12.0 + seed] * 60, note="a name as long as it takes " * 5)
    for index in range(10):
        note = 0.0123456789 * (index + 1)
        make_run(tmp_path / "runs" / f"c-{index}", 0, [float(index)] * 60, note=note, size=300)
    (make_run(tmp_path / "runs" / "bad", 1, [1.0]) / "run.json").write_text("{")
    (tmp_path / "runs" / "empty").mkdir()
    made = tmp_path / "new" / "report.html"
    assert main(["report", str(tmp_path / "runs"), "-o", str(made), "--reach", "2.5"]) == 0
    return made


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
    assert "0.0123456789" not in page  # which is 0.01235
    assert {"../runs/a-0", "../runs/bad", "../runs/empty", "report-CartPole-v1-curves.png"} <= set(addresses)
    assert "runs/empty is empty" in page
    assert "<summary>All 16 runs</summary>" in page
    assert "4 others are grey" in page
    assert 'class="few">Intervals of 12 of 12 groups are too narrow: they have only 1 to 2 runs.' in page
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    pictures = [report.with_name(f"report-CartPole-v1-{name}.png") for name in ("curves", "finals", "search")]
    assert sorted(report.parent.iterdir()) == [*pictures, report]
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)


def test_each_environment_has_its_own_pictures(tmp_path: Path) -> None:
    environments = ("my:Env", "my-Env", "my/env")
    for index, environment in enumerate(environments):
        make_run(tmp_path / "runs" / str(index), 0, [11.0, 12.0] * 60, environment=environment)
    assert main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "r.html")]) == 0
    curves = {f"r-{name}-curves.png" for name in ("my-Env", "my-Env-2", "my-env-3")}
    assert {path.name for path in tmp_path.glob("*-curves.png")} == curves
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert curves <= set(re.findall(r'href="([^"#][^"]*)"', page))
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))


def test_nothing_is_loaded_from_elsewhere_and_no_script_is_run(report: Path) -> None:
    page = report.read_text(encoding="utf-8").replace("http://www.w3.org/", "")
    assert not [text for text in ("<script", "src=", "@import", "http://", "https://") if text in page]
    assert set(re.findall(r"url\((.)", page)) <= {"#"}


@pytest.mark.browser
def test_a_phone_need_not_scroll_sideways_and_is_dark_where_the_reader_wants_that(report: Path, tmp_path: Path) -> None:
    with browsing(tmp_path) as browser:
        browser.look(360, 700)
        browser.go(report.as_uri())
        facts = browser.run(LOOK)
        browser.look(360, 700, dark=True)
        style = "getComputedStyle(document.body)"
        colours = [browser.run(f"{style}.{name}") for name in ("backgroundColor", "color")]
        complaints = browser.errors
    assert (facts["width"], facts["wider"], facts["loaded"], complaints) == (360, [], [], [])
    assert facts["scrolling"] > 2
    labels = [label for label in facts["labels"] if "=" in label]
    assert len(labels) == len(set(labels)) == 8
    assert "note=0.1235 size=300" in labels
    widths, heights = zip(*facts["names"], strict=True)
    assert min(widths) >= 200  # of 360
    assert max(heights) < 110  # four lines, of the name that is as long as it takes
    assert (facts["charts"], facts["wide"]) == (3, 0)
    assert colours == ["rgb(20, 23, 28)", "rgb(230, 232, 236)"]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("out", "out: is a folder; give the file to write, such as {0}/out/report.html"),
        ("file/rep.html", "file/rep.html: the report cannot be written here: {0}/file is not a folder; choose another"),
        ("full/new/rep.html", "the report cannot be written here: {0}/full/new cannot be created: No space left on"),
    ],
)
def test_where_a_report_cannot_be_written(
    output: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path / "runs" / "a", 0, [1.0])
    (tmp_path / "out").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "file").write_text("")
    before, make = sorted(tmp_path.rglob("*")), Path.mkdir

    def full(self: Path, *arguments: Any, **options: Any) -> None:
        if self.parent.name == "full":
            raise OSError(errno.ENOSPC, "No space left on device", str(self))
        make(self, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", full)
    monkeypatch.setattr(run_digest, "read_run", None)  # it is refused before any work
    assert main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / output)]) == 2
    assert message.format(tmp_path) in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_report_that_fails_leaves_nothing_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rep-old.png").write_bytes(b"old")
    written: list[str] = []

    def write(path: Path, content: bytes) -> None:
        if path.suffix == ".html":
            raise OSError("full")
        path.write_bytes(content)
        written.append(path.name)

    monkeypatch.setattr(page, "write_atomically", write)
    files = {tmp_path / name: b"new" for name in ("rep-old.png", "rep-new.png", "rep.html")}
    with pytest.raises(OSError, match="full"):
        page.write_all(files)
    assert written == ["rep-old.png", "rep-new.png"]
    assert [path.name for path in tmp_path.iterdir()] == ["rep-old.png"]
