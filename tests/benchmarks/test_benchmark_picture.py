"""The arithmetic of bands, and that a picture is drawn of finished runs. Nothing is trained."""

import json
from pathlib import Path
from typing import Any

import pytest

from axonrl.benchmarks import picture

EXPERIMENT = """
name: {name}
seed: {seed}
environment: {{id: {env}}}
agent: {{model_fn: {model}, memory: {{kind: replay, size: 100, batch_size: 4}}}}
train: {{max_timesteps: 400}}
"""


def test_a_band_is_mean_and_range_of_the_runs() -> None:
    """Each run is a line from one episode to the next; between 1000 and 3000 all of them have one."""
    runs = [([0, 4000], [0.0, 40.0]), ([1000, 3000], [30.0, 50.0]), ([1000, 3000], [10.0, 0.0])]
    found = picture.band(runs, window=1)
    assert found.timesteps[[0, 100, 200]].tolist() == [1000.0, 2000.0, 3000.0]
    # At 2000: 20, 40 and 5.
    assert found.mean[[0, 100, 200]] == pytest.approx([50 / 3, 65 / 3, 80 / 3])
    assert found.low[[0, 100, 200]] == pytest.approx([10.0, 5.0, 0.0])
    assert found.high[[0, 100, 200]] == pytest.approx([30.0, 40.0, 50.0])


def test_returns_are_averaged_within_the_window() -> None:
    found = picture.band([([10, 12, 30], [0.0, 10.0, 30.0])], window=4)
    assert found.mean[[0, 200]].tolist() == [5.0, 30.0]  # 10 and 12 are both within 2 of 10


@pytest.mark.parametrize("runs", [[], [([], [])], [([1], [1.0]), ([], [])]])
def test_a_band_of_nothing_is_refused(runs: Any) -> None:
    with pytest.raises(ValueError, match="at least one"):
        picture.band(runs, 10)


def folder(path: Path, name: str, seed: int, env: str = "CartPole-v1", model: str = "dqn") -> Path:
    path = path / f"{name}-{seed}"
    path.mkdir()
    (path / "experiment.yml").write_text(EXPERIMENT.format(name=name, seed=seed, env=env, model=model))
    started = {"started": f"2026-01-0{seed}T10:00:00Z", "made_with": {"axonrl": "0.1.0", "tensorflow": "2.21.0"}}
    (path / "record.json").write_text(json.dumps([started]))
    rows = [f"{i},{10 * i},{float(i + seed)},10,0.1" for i in range(1, 41)]
    (path / "episodes.csv").write_text("\n".join(["episode,global_timestep,episode_return,length,seconds", *rows, ""]))
    return path


def test_a_picture_of_two_algorithms(tmp_path: Path) -> None:
    folders = {
        "one": [folder(tmp_path, "one", seed) for seed in (1, 2)],
        "two": [folder(tmp_path, "two", seed, model="ppo") for seed in (1, 2)],
    }
    png, svg = picture.draw(tmp_path / "images" / "curve.png", folders, "1-2")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert (png.name, svg.name) == ("curve.png", "curve.svg")
    before = svg.read_bytes()
    picture.draw(svg, folders, "1-2")
    assert svg.read_bytes() == before
    written = before.decode()
    assert "<!-- CartPole-v1: DQN and PPO -->" in written
    assert "<!-- seeds 1 to 2 | axonrl 0.1.0 | tensorflow 2.21.0 | 2026-01-02 -->" in written


def test_environments_are_not_mixed(tmp_path: Path) -> None:
    folders = {"a": [folder(tmp_path, "a", 1)], "b": [folder(tmp_path, "b", 1, env="Acrobot-v1")]}
    with pytest.raises(ValueError, match="of Acrobot-v1, CartPole-v1"):
        picture.draw(tmp_path / "curve.png", folders, "1")
