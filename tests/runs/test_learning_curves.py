"""The picture of several runs: what is drawn from their CSV files."""

from pathlib import Path

import numpy as np
import pytest

from axonrl.runs.history import Episode, read_columns
from axonrl.runs.learning_curve import Caption
from axonrl.runs.learning_curves import connected, learning_curves, window_means

HEADER = "episode,global_timestep,episode_return,length,seconds\n"
EVALUATED = "global_timestep,episode_return_mean,episode_return_std,episode_length_mean,episodes\n"


def test_means_within_a_window_bridge_gaps() -> None:
    rows = [Episode(1, 10, 1.0, 10, 0.1), Episode(2, 20, 3.0, 10, 0.1), Episode(3, 60, 8.0, 40, 0.1)]
    found = window_means(rows, np.array([0.0, 10.0, 15.0, 20.0, 40.0, 60.0]), 20)
    np.testing.assert_array_equal(found, [1.0, 2.0, 2.0, 2.0, np.nan, 8.0])
    assert np.isnan(window_means([], np.array([0.0, 5.0]), 2)).all()
    grid, curve = np.array([0.0, 10.0, 20.0, 40.0, 50.0]), np.array([np.nan, 1.0, np.nan, 4.0, np.nan])
    np.testing.assert_array_equal(connected(grid, curve), [np.nan, 1.0, 2.0, 4.0, np.nan])
    np.testing.assert_array_equal(connected(grid, np.full(5, np.nan)), np.full(5, np.nan))


def test_curves_mean_and_evaluations_are_drawn(tmp_path: Path) -> None:
    for seed in range(3):
        folder = tmp_path / f"seed-{seed}"
        folder.mkdir()
        rows = "".join(f"{n},{n * 20},{n + seed},20,0.1\n" for n in range(1, 40))
        (folder / "episodes.csv").write_text(HEADER + rows)
        (folder / "evaluations.csv").write_text(EVALUATED + f"400,{seed},0,20,5\n" + "800,9,0,20,5\n" * (seed != 1))
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
