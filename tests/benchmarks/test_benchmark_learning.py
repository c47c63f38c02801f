"""Seeds, intervals, rows and the table in a page, of the script that measures learning. Nothing is trained."""

import argparse
import json
from pathlib import Path

import pytest

from axonrl.benchmarks import learning


@pytest.mark.parametrize(("text", "seeds"), [("11", [11]), ("0-2", [0, 1, 2]), ("100-102,7", [100, 101, 102, 7])])
def test_seeds(text: str, seeds: list[int]) -> None:
    assert learning.seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "-3", "5-", "1-2-3", "1,,2", "9-7", "1-3,2"])
def test_invalid_seeds(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        learning.seeds(text)


@pytest.mark.parametrize(
    ("count", "point"),
    [(2, 12.706), (3, 4.303), (4, 3.182), (5, 2.776), (10, 2.262), (11, 2.228), (31, 2.042), (121, 1.980)],
)
def test_student_t_is_that_of_the_printed_tables(count: int, point: float) -> None:
    assert learning.student_t(count) == pytest.approx(point, abs=5e-4)


def test_interval() -> None:
    # The standard deviation of 1, 2, 3 is 1, so the half width is 4.303 / sqrt(3).
    assert learning.interval([1.0, 2.0, 3.0]) == "2.0 ± 2.5"
    assert learning.interval([171.5]) == "171.5"


def test_rows_are_those_of_finished_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "RUNS", tmp_path)
    settings = (learning.ROOT / "experiments" / "dqn_cartpole.yml").read_text(encoding="utf-8")
    for seed, best, last in [(3, 500.0, 480.0), (7, 498.0, 490.0)]:
        evaluations = {
            name: {"episode_return_mean": value, "episodes": 100} for name, value in [("best", best), ("last", last)]
        }
        (tmp_path / f"dqn_cartpole-{seed}").mkdir()
        found = {"settings": settings, "timesteps": 50000, **evaluations}
        (tmp_path / f"dqn_cartpole-{seed}" / "learning.json").write_text(json.dumps(found), encoding="utf-8")
    assert learning.rows("dqn_cartpole", [3, 7], "3,7") == [
        "| `dqn_cartpole` | best | 499.0 ± 12.7 | 500.0, 498.0 | 3,7 | 100 | 50,000 |",
        "| `dqn_cartpole` | last | 485.0 ± 63.5 | 480.0, 490.0 | 3,7 | 100 | 50,000 |",
    ]


def test_a_run_with_other_settings_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "RUNS", tmp_path)
    (tmp_path / "dqn_cartpole-3").mkdir()
    (tmp_path / "dqn_cartpole-3" / "learning.json").write_text('{"settings": "seed: 1"}', encoding="utf-8")
    with pytest.raises(SystemExit, match="other settings"):
        learning.result("dqn_cartpole", 3)


PAGE = """\
| a | table above |

learning.py dqn_cartpole --seeds 3

| old |
|---|

The end.
"""


def test_insert_replaces_the_table_below_the_command() -> None:
    page = learning.insert(PAGE, "learning.py dqn_cartpole --seeds 3", "| new |\n|---|\n| 1 |")
    assert page == PAGE.replace("| old |\n|---|", "| new |\n|---|\n| 1 |")


@pytest.mark.parametrize(("page", "missing"), [("text", "line"), ("command\n\ntext", "table")])
def test_insert_needs_the_command_and_a_table(page: str, missing: str) -> None:
    with pytest.raises(ValueError, match=f"no .*{missing}|no {missing}"):
        learning.insert(page, "command", "| new |")


def test_the_commands_in_the_documentation_are_valid() -> None:
    pages = [learning.ROOT / "README.md", *(learning.ROOT / "docs").rglob("*.md"), Path(learning.__file__)]
    lines = [line.split() for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    commands = [words[2:] for words in lines if words[:2] == ["python", "benchmarks/learning.py"]]
    assert len(commands) > 5
    for command in commands:
        learning.arguments_of(command)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["nosuch"], "invalid choice: 'nosuch' (choose from "),
        (["dqn_cartpole", "--seeds", "x"], "argument --seeds: 'x' is not a seed"),
        (["dqn_cartpole", "--picture", "curve.jpg"], "argument --picture: must end in .png or .svg, got curve.jpg"),
    ],
)
def test_a_wrong_command_says_what_is_wrong(
    command: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        learning.arguments_of(command)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
