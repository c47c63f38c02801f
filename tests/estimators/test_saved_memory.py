"""What a run's memory leaves in its folder: parts of checkpoints, and files that are mapped."""

import json
from pathlib import Path
from typing import Any

import pytest

from axonrl import Agent
from axonrl.memories import ReplayMemory
from axonrl.run_dir import checkpoint_folder
from axonrl.tests.estimators.fakes import Counting, agent, differences, linear_model, snapshot

pytestmark = pytest.mark.usefixtures("traced_once")


@pytest.fixture(autouse=True)
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small memories are saved as large ones are."""
    monkeypatch.setattr(checkpoint_folder, "_INLINE_BYTES", 0)


def trained(folder: Path, timesteps: int, path: str | None = None) -> Agent:
    memory = ReplayMemory(40, 4, path=path)
    one = agent(folder, memory, save_checkpoints_steps=3)
    return one.train(Counting(), 8, 2, timesteps=timesteps)


def test_a_run_with_parts_and_files_resumes_exactly(tmp_path: Path) -> None:
    trained(tmp_path / "whole", 120)
    for timesteps in (30, 50, 40):  # another memory each time: in RAM, in files, in files again
        trained(tmp_path / "run", timesteps, None if timesteps == 30 else "memory")
    assert differences(snapshot(tmp_path / "whole"), snapshot(tmp_path / "run")) == []
    newest = max((tmp_path / "run" / "checkpoints").iterdir())
    assert len(list(newest.glob("part-*"))) > 1
    assert list((tmp_path / "run" / "memory").iterdir()) == []


def test_a_memory_in_files_is_recorded_and_loaded(tmp_path: Path) -> None:
    run = tmp_path / "run"
    trained(run, 30, "memory")
    assert json.loads((run / "run.json").read_text())["memory"]["path"] == "memory"
    run.rename(tmp_path / "moved")  # a relative path moves along
    loaded = Agent.load(tmp_path / "moved", model_fn=linear_model)
    loaded.train(Counting(), 8, 2, timesteps=30)
    assert (tmp_path / "moved" / "memory").is_dir()
    assert loaded.global_timestep == 60


def test_weights_are_set_without_reading_the_memory(tmp_path: Path, monkeypatch: Any) -> None:
    one = trained(tmp_path, 30)
    before = one.get_weights()
    del one
    newest = max((tmp_path / "checkpoints").iterdir())
    agent(tmp_path).set_weights({name: array + 1 for name, array in before.items()})
    after = max((tmp_path / "checkpoints").iterdir())
    assert after != newest
    for part in newest.glob("part-*"):
        assert part.samefile(after / part.name)
    trained(tmp_path, 10)
