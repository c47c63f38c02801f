"""What is refused leaves no run behind; a run folder that is removed in the middle is named."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from axonrl.errors import ArgumentError, CheckpointError
from axonrl.hooks import EvaluationHook, FinalValuesHook, Hook
from axonrl.memories import BatchMemory
from axonrl.tests.estimators.fakes import At, Counting, ListMemory, Notes, agent, vector
from axonrl.tests.raising import raised

pytestmark = pytest.mark.usefixtures("traced_once")


class Refusing(Hook):
    def prepare(self, session: Any) -> None:
        raise ValueError(f"not at timestep {session.global_timestep}")


@pytest.mark.parametrize(
    ("method", "hook", "message"),
    [
        ("train", Refusing(), "not at timestep 0"),
        ("train", EvaluationHook(10, env=Counting(), eval_batches=1), "mode 'eval' assigns variables"),
        ("train", FinalValuesHook(["weights/nothing"]), "the model has no 'weights/nothing'"),
        ("check", EvaluationHook(10), "cannot make another environment"),
    ],
)
def test_a_refused_hook_leaves_no_run_behind(method: str, hook: Any, message: str, tmp_path: Path) -> None:
    notes = Notes()
    with pytest.raises(ValueError, match=message):
        getattr(agent(tmp_path), method)(Counting(), hooks=[notes, hook])
    assert notes.events == []
    assert not (tmp_path / "run.json").exists()
    # So the corrected call may have other params and another number of environments.
    agent(tmp_path, params={"epsilon": 0.1}).check("CartPole-v1")


def test_a_folder_that_is_removed_in_the_middle_of_a_run(tmp_path: Path) -> None:
    remove = At("after_timestep", 3, lambda session: shutil.rmtree(tmp_path))
    with pytest.raises(CheckpointError, match=f"{tmp_path} was removed while in use"):
        agent(tmp_path).train(Counting(), timesteps=6, hooks=[remove])
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        (lambda batch: None, "must return a mapping of names to arrays, got None"),
        (lambda batch: {**batch, "reward": [0.0, 0.0]}, r"must return arrays; \['reward'\] is \[0\.0, 0\.0\]"),
    ],
)
def test_a_memory_whose_batch_is_none_is_refused(batch: Any, told: str, tmp_path: Path) -> None:
    class Mine(ListMemory):
        def sample(self) -> Any:
            return batch(super().sample())

    raised(ValueError, agent(tmp_path, Mine(2)).check, Counting(), match=rf"Mine\.sample {told}")


def test_a_rollout_that_never_gets_full_is_refused(tmp_path: Path) -> None:
    memory = BatchMemory(2_000_002)
    error = raised(ArgumentError, agent(tmp_path, memory).check, vector(Counting(), Counting()))
    assert (error.argument, error.value) == ("size", 2_000_002)
