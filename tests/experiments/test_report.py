"""The table of results."""

import io
import re
from pathlib import Path

from rich.console import Console

from axonrl.experiments.running.report import Result, table
from axonrl.runs.history import EPISODES

EVALUATION = {"episode_return_mean": 487.25, "episode_return_std": 12.5, "episode_length_mean": 487.25, "episodes": 100}


def rows(folder: Path, evaluation: dict[str, float] | None = None) -> dict[str, str]:
    """What is printed: labels and values, which two or more spaces part."""
    result = Result("my_run", folder, 1234, 50_000, 24_501, 61.25, 816.4, evaluation)
    console = Console(width=100, file=io.StringIO())
    console.print(table(result))
    title, *lines = console.file.getvalue().split("\n")  # type: ignore[attr-defined]  # it is the StringIO
    assert title.strip() == result.name
    return dict(re.split(r" {2,}", line.strip()) for line in lines if line.strip())


def test_the_table(tmp_path: Path) -> None:
    returns = [0.0] * 50 + [10.0] * 50 + [20.0] * 50
    (tmp_path / EPISODES).write_text("header\n" + "".join(f"1,10,{value},10,0.1\n" for value in returns))
    assert rows(tmp_path, EVALUATION) == {
        "episodes": "1,234",
        "timesteps": "50,000",
        "updates": "24,501",
        "seconds": "61.2",
        "timesteps/s": "816",
        "training return, last 100 episodes": "15.00",
        "evaluation return, 100 episodes": "487.25 ± 12.50",
    }


def test_the_table_of_a_run_without_episodes(tmp_path: Path) -> None:
    found = rows(tmp_path)
    assert found["training return, last 0 episodes"] == "-"
    assert not any(label.startswith("evaluation") for label in found)
