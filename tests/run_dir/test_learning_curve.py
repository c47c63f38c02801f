import json
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from axonrl.errors import CheckpointError
from axonrl.run_dir.history import EPISODES, EVALUATIONS, Episode, Evaluation, line_of, read_columns
from axonrl.run_dir.learning_curve import Caption, algorithm_of, caption, learning_curve, smooth, smoothing_window
from axonrl.run_dir.learning_curves import close_gaps, learning_curves, window_means
from axonrl.run_dir.record import RunRecord
from axonrl.tests.made_start import made_start
from axonrl.tests.raising import raised

REST = "," * 8
"""Empty columns of an evaluation."""
EVALUATION = {"episode_return_mean": 487.25, "episode_return_std": 12.5, "episode_length_mean": 487.25, "episodes": 100}


def write(folder: Path, returns: list[float]) -> None:
    rows = [f"{i},{10 * i},{value},10,0.1\n" for i, value in enumerate(returns, start=1)]
    (folder / EPISODES).write_text("header\n" + "".join(rows))


@pytest.mark.parametrize(("timesteps", "window"), [(1, 1), (50, 2), (119_999, 2_000), (120_000, 5_000)])
def test_the_window_is_about_a_25th_of_the_run(timesteps: int, window: int) -> None:
    assert smoothing_window(timesteps) == window


def test_smoothing_takes_the_episodes_around() -> None:
    """At 0, 1, ..., 200, of episodes that ended at 0, 100, 101 and 200, with a window of 2."""
    at, mean, low, high = smooth(np.array([0, 100, 101, 200]), np.array([1.0, 2.0, 4.0, 8.0]), 2)
    assert at.tolist() == [0, 1, 99, 100, 101, 102, 199, 200]
    assert mean.tolist() == [1, 1, 2, 3, 3, 4, 8, 8]
    np.testing.assert_allclose(low[3], 2.2)
    np.testing.assert_allclose(high[3], 3.8)


@pytest.mark.parametrize(("episodes", "evaluation"), [(0, None), (300, EVALUATION)])
def test_the_picture(tmp_path: Path, episodes: int, evaluation: dict[str, float] | None) -> None:
    import matplotlib as mpl
    from matplotlib.image import imread

    folder = tmp_path / "a $ and _"
    folder.mkdir()
    write(folder, [float(i) for i in range(episodes)])
    (folder / EVALUATIONS).write_text(f"header\n500,100.0,10.0,5,3{REST}\n")
    before = dict(mpl.rcParams)
    picture = learning_curve(folder, evaluation, "best")
    assert picture == folder / "learning_curve.png"
    assert imread(picture).shape == (675, 1200, 4)  # 8 x 4.5 inches at 150 dots per inch
    assert (folder / "learning_curve.svg").read_text().startswith("<?xml")
    assert dict(mpl.rcParams) == before
    assert not list(folder.glob(".*"))


def test_a_picture_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    write(tmp_path, [1.0])
    (tmp_path / ".learning_curve.png.tmp").mkdir()  # whoever is root may write into any other folder
    error = raised(CheckpointError, learning_curve, tmp_path, match=r"Use a writable copy of")
    assert f"{tmp_path / 'learning_curve.png'} cannot be written: Is a directory" in str(error)


def test_what_is_drawn(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    from axonrl.run_dir.learning_curve import _draw

    write(tmp_path, [float(i % 2) for i in range(200)])
    (tmp_path / EVALUATIONS).write_text(f"header\n500,100.0,10.0,5,3{REST}\n900,120.0,9.0,5,3,60.0,125.0,,,,,,\n")
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


def test_equal_returns_whose_mean_is_rounded_upwards(tmp_path: Path) -> None:
    mean = float(np.mean([0.1] * 3))
    assert mean > 0.1
    (tmp_path / EVALUATIONS).write_text(f"header\n10,{mean},{np.std([0.1] * 3)},5,3,0.1,0.1,,,,,,\n")
    assert learning_curve(tmp_path).is_file()


def test_the_caption(tmp_path: Path) -> None:
    space = gymnasium.spaces.Discrete(2)
    record = RunRecord(
        *(7, "dqn", {}, (), space, space, 1, {"actor": "litert", "learner": "litert"}, {}, {}),
        environment={"id": "CartPole-v1", "kwargs": {}, "wrappers": []},
    )
    folder = tmp_path / "dqn_cartpole-2"
    folder.mkdir()
    assert caption(folder) == ("", "dqn_cartpole-2")
    record.write(folder)
    versions = {"axonrl": "1.2", "tensorflow": "2.21.0"}
    start = made_start(started="2026-01-02T03:04:05+00:00", made_with=versions)
    (folder / "starts.json").write_text(json.dumps([start, made_start()]))
    title, subtitle = caption(folder)
    assert title == "CartPole-v1, dqn"
    assert subtitle == "dqn_cartpole-2 | seed 7 | axonrl 1.2 | tensorflow 2.21.0 | 2026-01-02"


@pytest.mark.parametrize(
    ("model_fn", "algorithm"), [(None, ""), ("dqn", "dqn"), ("axonrl.models.dqn:model_fn", "dqn"), ("a.b:fast", "fast")]
)
def test_the_algorithm(model_fn: str | None, algorithm: str) -> None:
    assert algorithm_of(model_fn) == algorithm


HEADER = "episode,global_timestep,episode_return,length,seconds\n"
EVALUATED = line_of(Evaluation._fields)


def test_means_within_a_window_bridge_gaps() -> None:
    rows = [Episode(1, 10, 1.0, 10, 0.1), Episode(2, 20, 3.0, 10, 0.1), Episode(3, 60, 8.0, 40, 0.1)]
    found = window_means(rows, np.array([0.0, 10.0, 15.0, 20.0, 40.0, 60.0]), 20)
    np.testing.assert_array_equal(found, [1.0, 2.0, 2.0, 2.0, np.nan, 8.0])
    assert np.isnan(window_means([], np.array([0.0, 5.0]), 2)).all()
    grid, curve = np.array([0.0, 10.0, 20.0, 40.0, 50.0]), np.array([np.nan, 1.0, np.nan, 4.0, np.nan])
    np.testing.assert_array_equal(close_gaps(grid, curve), [np.nan, 1.0, 2.0, 4.0, np.nan])
    np.testing.assert_array_equal(close_gaps(grid, np.full(5, np.nan)), np.full(5, np.nan))


def test_curves_mean_and_evaluations_are_drawn(tmp_path: Path) -> None:
    for seed in range(3):
        folder = tmp_path / f"seed-{seed}"
        folder.mkdir()
        rows = "".join(f"{n},{n * 20},{n + seed},20,0.1\n" for n in range(1, 40))
        (folder / "episodes.csv").write_text(HEADER + rows)
        (folder / "evaluations.csv").write_text(
            EVALUATED + f"400,{seed},0,20,5{REST}\n" + f"800,9,0,20,5{REST}\n" * (seed != 1)
        )
    folders = [tmp_path / f"seed-{seed}" for seed in range(3)]
    learning_curves(folders, tmp_path / "curves.png", Caption("CartPole-v1, dqn", "pole"))
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    svg = (tmp_path / "curves.svg").read_text()
    for text in ("one seed, mean within 20 timesteps", "mean of 3 seeds", "95 % interval of the mean", "evaluation"):
        assert f"<!-- {text}" in svg


def test_a_run_without_episodes_has_no_mean_and_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    learning_curves([tmp_path / "empty"], tmp_path / "curves.png", Caption("CartPole-v1, dqn", "pole"))
    assert "mean of" not in (tmp_path / "curves.svg").read_text()


def test_columns_are_the_rows(tmp_path: Path) -> None:
    (tmp_path / "episodes.csv").write_text(HEADER + "1,10,2.5,10,0.5\n2,30,-1e3,20,0.25\n3,4")  # killed in the third
    assert [column.tolist() for column in read_columns(tmp_path)] == [[10, 30], [2.5, -1000], [10, 20], [0.5, 0.25]]
    (tmp_path / "episodes.csv").write_text(HEADER + "1,10,2.5,10,0.5\n")
    assert [column.tolist() for column in read_columns(tmp_path)] == [[10], [2.5], [10], [0.5]]
    for nothing in (HEADER, ""):
        (tmp_path / "episodes.csv").write_text(nothing)
        assert [column.shape for column in read_columns(tmp_path)] == [(0,)] * 4


@pytest.mark.parametrize("line", ["2,x,1,1,1", "2,3,4", "2,30,1,20,1,5"])
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "episodes.csv").write_text(f"{HEADER}1,10,2.5,10,0.5\n{line}\n3,40,1,10,1\n")
    with pytest.raises(ValueError, match=r"episodes\.csv:3 is damaged"):
        read_columns(tmp_path)
