"""Comparing a run that was killed with one that was not, without any of the libraries."""

from pathlib import Path

import numpy as np
import pytest

from axonrl.benchmarks import resume
from axonrl.benchmarks.resume import Found, Killed
from axonrl.benchmarks.resuming import child

STATE: child.Parts = {
    "weights": {"kernel": np.array([[0.5, -1.0]], np.float32), "optimizer": {"step": 3}},
    "memory": {"rewards": np.ones(4, np.float32), "full": False},
    "generators": {"python": (3, (1, 2), None), "bits": {"state": 2**100}},
    "curve": [9.0, 21.0],
}


def saved(tmp_path: Path, name: str, state: child.Parts) -> resume.State:
    child.write(tmp_path / name, state)
    return resume.read(tmp_path / name)


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("weights", {"kernel": np.array([[0.5, -1.25]], np.float32), "optimizer": {"step": 3}}),
        ("weights", {"kernel": np.array([[0.5, -1.0]], np.float32), "optimizer": {"step": 4}}),
        ("weights", {"kernel": np.array([0.5, -1.0], np.float32), "optimizer": {"step": 3}}),
        ("memory", {"rewards": np.ones(4, np.float64), "full": False}),
        ("memory", {"rewards": np.ones(4, np.float32)}),
        ("generators", {"python": (3, (1, 2), None), "bits": {"state": 2**100 + 1}}),
        ("curve", [9.0, 21.0, 10.0]),
    ],
)
def test_one_part_differs(tmp_path: Path, part: str, other: object) -> None:
    undisturbed = saved(tmp_path, "a.npz", STATE)
    assert resume.differing(undisturbed, saved(tmp_path, "b.npz", STATE)) == set()
    assert resume.differing(undisturbed, saved(tmp_path, "c.npz", {**STATE, part: other})) == {part}


def test_the_farthest_weight(tmp_path: Path) -> None:
    other = {"kernel": np.array([[0.75, -1.0]], np.float32), "optimizer": {"step": 7}}
    states = [saved(tmp_path, name, {**STATE, "weights": w}) for name, w in (("a", STATE["weights"]), ("b", other))]
    assert resume.farthest(*states) == 0.25


def test_kills_are_spread_over_timesteps_and_over_the_files_of_checkpoints() -> None:
    points = resume.points(20, writes=100)
    timesteps = [number for kind, number in points if kind == "timestep"]
    assert len(points) == len(set(points)) == 25
    assert len(timesteps) == 20
    assert timesteps[0] > child.EVERY
    assert timesteps[-1] < child.TIMESTEPS
    assert [number for kind, number in points if kind == "write"] == [30, 46, 62, 78, 95]


def test_the_table_counts_runs() -> None:
    exact = Killed("timestep", 700, 500, 0, set(), set(), 0.0)
    lost = Killed("write", 7, 500, 1, {"environment"}, {"weights", "curve"}, 0.5)
    anew = Killed("write", 2, 0, 0, None, set(), 0.0)
    found = {"axonrl": Found("1.2", set(), [exact]), "sb3": Found("3.4", {"memory"}, [exact, lost, anew])}
    lines = resume.markdown(found).splitlines()
    assert lines[0] == "|  | axonrl | Stable-Baselines3 |"
    assert "| an undisturbed run, repeated, gives the same bits | yes | no |" in lines
    assert "| killed by SIGKILL in a timestep, and resumed | 1 | 1 |" in lines
    assert "| killed while writing a checkpoint, and resumed | 0 | 2 |" in lines
    assert "| newest checkpoint unreadable after the kill | 0 | 1 |" in lines
    assert "| equal after loading: environment | 1 of 1 | 1 of 2 |" in lines
    assert "| equal at the end: weights, target network and optimizer | 1 of 1 | 2 of 3 |" in lines
    assert "| equal at the end: memory | 1 of 1 | 3 of 3 |" in lines
    assert "| largest difference of a weight at the end | 0 | 0.5 |" in lines


def test_a_resumed_run_keeps_the_episodes_before_its_checkpoint(tmp_path: Path) -> None:
    (tmp_path / child.CURVE).write_text("20,20.0\n45,25.0\n71,26.0\n", encoding="utf-8")
    child.environment(tmp_path, 50, None).close()
    assert child.curve_in(tmp_path) == [(20, 20), (45, 25)]
