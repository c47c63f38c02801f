"""The table and the learning curve."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from axonrl.experiments.language.schema import load
from axonrl.experiments.language.shipped import shipped
from axonrl.experiments.running.history import EPISODES, EVALUATIONS
from axonrl.experiments.running.report import (
    Caption,
    Result,
    caption,
    evaluation_rows,
    learning_curve,
    smoothed,
    smoothing_window,
    table,
)

EVALUATION = {"episode_return_mean": 487.25, "episode_return_std": 12.5, "episode_length_mean": 487.25, "episodes": 100}


def write(folder: Path, returns: list[float]) -> None:
    rows = [f"{i},{10 * i},{value},10,0.1\n" for i, value in enumerate(returns, start=1)]
    (folder / EPISODES).write_text("header\n" + "".join(rows))


def rows(result: Result) -> dict[str, str]:
    """What is printed: labels and values, which two or more spaces part."""
    console = Console(width=100, file=io.StringIO())
    console.print(table(result))
    title, *lines = console.file.getvalue().split("\n")  # type: ignore[attr-defined]  # it is the StringIO
    assert title.strip() == result.name
    cells = [re.split(r" {2,}", line.strip()) for line in lines if line.strip()]
    return dict(cells)


def result(folder: Path, evaluation: dict[str, float] | None = None) -> Result:
    return Result("my_run", folder, 1234, 50_000, 24_501, 61.25, 816.4, evaluation)


def test_the_table(tmp_path: Path) -> None:
    write(tmp_path, [0.0] * 50 + [10.0] * 50 + [20.0] * 50)
    assert rows(result(tmp_path, EVALUATION)) == {
        "episodes": "1,234",
        "timesteps": "50,000",
        "updates": "24,501",
        "seconds": "61.2",
        "timesteps/s": "816",
        "training return, last 100 episodes": "15.00",
        "evaluation return, 100 episodes": "487.25 ± 12.50",
    }


def test_the_table_of_a_run_without_episodes(tmp_path: Path) -> None:
    found = rows(result(tmp_path))
    assert found["training return, last 0 episodes"] == "-"
    assert not any(label.startswith("evaluation") for label in found)


def test_an_evaluation_as_a_row() -> None:
    assert evaluation_rows(EVALUATION) == {"evaluation return, 100 episodes": "487.25 ± 12.50"}


@pytest.mark.parametrize(
    ("timesteps", "window"),
    [(1, 1), (40, 1), (50, 2), (48_000, 2_000), (50_000, 2_000), (119_999, 2_000), (120_000, 5_000)],
)
def test_the_window_is_about_a_25th_of_the_run(timesteps: int, window: int) -> None:
    assert smoothing_window(timesteps) == window


def test_smoothing_takes_the_episodes_around() -> None:
    """At 0, 1, ..., 200, of episodes that ended at 0, 100, 101 and 200, with a window of 2."""
    at, mean, low, high = smoothed(np.array([0, 100, 101, 200]), np.array([1.0, 2.0, 4.0, 8.0]), 2)
    assert at.tolist() == [0, 1, 99, 100, 101, 102, 199, 200]
    assert mean.tolist() == [1, 1, 2, 3, 3, 4, 8, 8]
    np.testing.assert_allclose(low[3], 2.2)
    np.testing.assert_allclose(high[3], 3.8)


@pytest.mark.parametrize("episodes", [0, 1, 300])
@pytest.mark.parametrize("evaluation", [None, EVALUATION])
def test_the_picture(tmp_path: Path, episodes: int, evaluation: dict[str, float] | None) -> None:
    import matplotlib as mpl
    from matplotlib.image import imread

    write(tmp_path, [float(i) for i in range(episodes)])
    (tmp_path / EVALUATIONS).write_text("header\n500,100.0,10.0,5,3\n")
    before = dict(mpl.rcParams)
    picture = learning_curve(tmp_path, Caption("a title with $ and _", "and $ below"), evaluation)
    assert picture == tmp_path / "learning_curve.png"
    assert imread(picture).shape == (675, 1200, 4)  # 8 x 4.5 inches at 150 dots per inch
    assert (tmp_path / "learning_curve.svg").read_text().startswith("<?xml")
    assert dict(mpl.rcParams) == before
    assert not list(tmp_path.glob(".*"))


def test_what_is_drawn(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    from axonrl.experiments.running.report import _draw

    write(tmp_path, [float(i % 2) for i in range(200)])
    (tmp_path / EVALUATIONS).write_text("header\n500,100.0,10.0,5,3\n900,120.0,9.0,5,3,60.0,125.0\n")
    axes = Figure().add_subplot()
    _draw(axes, tmp_path, EVALUATION, "best")
    lines = {str(line.get_label()): line for line in axes.get_lines()}
    np.testing.assert_array_equal(lines["episode"].get_xdata(), np.arange(10, 2001, 10))
    mean = lines["mean within 50 timesteps"]
    assert 0.3 < np.min(mean.get_ydata()) < np.max(mean.get_ydata()) < 0.7
    np.testing.assert_array_equal(lines["best policy, 100 episodes: 487.2"].get_ydata(), [487.25, 487.25])
    (points,) = axes.containers
    np.testing.assert_array_equal(points[0].get_xdata(), [500, 900])
    np.testing.assert_array_equal(points[0].get_ydata(), [100, 120])
    segments = points[2][0].get_segments()
    assert [segment[:, 1].tolist() for segment in segments] == [[90.0, 110.0], [111.0, 125.0]]  # no return was higher


def test_the_caption(tmp_path: Path) -> None:
    start = {"started": "2026-01-02T03:04:05+00:00", "made_with": {"axonrl": "1.2", "tensorflow": "2.21.0"}}
    (tmp_path / "record.json").write_text(json.dumps([start, {}]))
    experiment = load(shipped()["dqn_cartpole"])[0]
    found = caption(experiment, tmp_path)
    assert found.title == "CartPole-v1, dqn"
    assert found.subtitle == "dqn_cartpole | seed 0 | axonrl 1.2 | tensorflow 2.21.0 | 2026-01-02"
    assert found.policy == "best"
