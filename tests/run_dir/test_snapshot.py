from pathlib import Path

import numpy as np

from axonrl.run_dir.snapshot import Counters, PolicySnapshot, load_snapshot, snapshot_of

WEIGHTS = {"0000.kernel": np.arange(6, dtype=np.float32).reshape(2, 3)}
STATISTICS = {"0": {"kind": "NormalizeObservation", "obs_rms": {"mean": np.array([1.5, -2.0]), "count": 7}}}


def test_it_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    PolicySnapshot("best", WEIGHTS, STATISTICS, Counters(1, 22, 3)).save(tmp_path / "best.safetensors", {"mean": 4.5})
    loaded = load_snapshot("best", tmp_path / "best.safetensors")
    assert (loaded.name, loaded.counters) == ("best", Counters(1, 22, 3))
    np.testing.assert_array_equal(loaded.weights["0000.kernel"], WEIGHTS["0000.kernel"])
    assert list(loaded.weights) == ["0000.kernel"]
    assert loaded.statistics is not None
    assert loaded.statistics["0"]["obs_rms"]["mean"].tolist() == [1.5, -2.0]
    assert loaded.statistics["0"]["obs_rms"]["count"] == 7


def test_without_wrappers_there_are_no_statistics(tmp_path: Path) -> None:
    PolicySnapshot("best", WEIGHTS, {}, Counters()).save(tmp_path / "best.safetensors", {})
    assert load_snapshot("best", tmp_path / "best.safetensors").statistics == {}


def test_the_policy_of_a_checkpoint() -> None:
    counters = {"global_step": 4, "global_timestep": 5, "global_episode": 6}
    made = snapshot_of("last", {"weights": WEIGHTS, "statistics": {}, "counters": counters, "memory": {}})
    assert made == PolicySnapshot("last", WEIGHTS, {}, Counters(4, 5, 6))
