"""What is refused leaves no run behind; a run folder that is removed in the middle is named."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from axonrl import Agent
from axonrl.errors import ArgumentError, CheckpointError
from axonrl.hooks import EvaluationHook, FinalValuesHook, Hook, VideoHook
from axonrl.tests.estimators.fakes import At, Counting, Notes, agent, linear_model, saved


class Refusing(Hook):
    """Refuses in ``prepare``."""

    def prepare(self, session: Any) -> None:
        raise ValueError(f"not at timestep {session.global_timestep}")


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        ("no hook", "str is not a hook"),
        (Refusing(), "not at timestep 0"),
        (EvaluationHook(10, env=Counting(action_space=None), eval_batches=1), "mode 'eval' assigns variables"),
        (VideoHook(10, env=Counting()), "render"),
        (FinalValuesHook(["weights/nothing"]), "the model has no 'weights/nothing'"),
    ],
)
@pytest.mark.parametrize("method", ["train", "check"])
def test_a_refused_hook_leaves_no_run_behind(hook: Any, message: str, method: str, tmp_path: Path) -> None:
    notes = Notes()
    with pytest.raises(ValueError, match=message):
        getattr(agent(tmp_path, runtime="tensorflow"), method)(Counting(), hooks=[notes, hook])
    assert notes.events == []
    assert not (tmp_path / "run.json").exists()
    # So the corrected call may have other params and another number of environments.
    agent(tmp_path, params={"epsilon": 0.1}, runtime="tensorflow").check("CartPole-v1")


def test_two_hooks_that_keep_the_same_policy(tmp_path: Path) -> None:
    hooks = [EvaluationHook(10, env=Counting()), EvaluationHook(20, env=Counting(), keep_best=False)]
    with pytest.raises(ValueError, match="two EvaluationHooks keep a policy 'best'"):
        agent(tmp_path, runtime="tensorflow").check(Counting(), hooks=[*hooks, EvaluationHook(30, env=Counting())])
    agent(tmp_path, runtime="tensorflow").check(Counting(), hooks=hooks)
    assert saved(tmp_path) == [(0, 0, 0)]


def test_the_keys_of_params_are_strings(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"the keys of params must be strings, got \('a', 1\)") as error:
        Agent(linear_model, model_dir=tmp_path, params={"epsilon": 0.1, ("a", 1): 2})
    assert (error.value.argument, error.value.value) == ("params", ("a", 1))


def test_a_folder_that_is_removed_in_the_middle_of_a_run(tmp_path: Path) -> None:
    remove = At("after_timestep", 3, lambda session: shutil.rmtree(tmp_path))
    with pytest.raises(CheckpointError, match=f"{tmp_path} was removed while in use"):
        agent(tmp_path, runtime="tensorflow").train(Counting(), timesteps=6, hooks=[remove])
    assert not (tmp_path / "checkpoints").exists()
