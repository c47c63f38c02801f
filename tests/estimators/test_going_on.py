"""A run goes on with what it was begun with, or says why it cannot."""

import functools
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from axonrl import Agent, EstimatorSpec, RunConfig
from axonrl.errors import CheckpointError
from axonrl.memories import ReplayMemory
from axonrl.tests.estimators.fakes import Counting, agent, record

pytestmark = pytest.mark.usefixtures("traced_once")

PARAMS = {"hidden": (4,), "epsilon": 0.5}


def test_other_params_are_refused_by_name(tmp_path: Path) -> None:
    agent(tmp_path, params=PARAMS).train(Counting(), 8, timesteps=8)
    changed = {"hidden": (4,), "epsilon": 0.25, "activation": "tanh"}
    with pytest.raises(
        ValueError, match=r"was started with other params: activation \(None -> 'tanh'\), epsilon \(0\.5 -> 0\.25\)"
    ):
        agent(tmp_path, params=changed)
    with pytest.raises(ValueError, match=r"was started with other params: hidden \(\[4\] -> \[4\.0\]\);"):
        agent(tmp_path, params={"epsilon": 0.5, "hidden": [4.0]})
    assert agent(tmp_path, params={"epsilon": 0.5, "hidden": [4]}).global_timestep == 8  # JSON knows no tuples


def test_params_are_those_of_the_moment_when_they_were_given(tmp_path: Path) -> None:
    """A loop over settings may write each into the same lists."""
    params: dict[str, Any] = {"epsilon": 0.5, "hidden": [4]}
    first = agent(tmp_path, params=params)
    params["hidden"][0], params["epsilon"] = 8, 0.25
    first.train(Counting(), 8, timesteps=8)
    assert first.params == record(tmp_path)["params"] == {"epsilon": 0.5, "hidden": [4]}


def test_another_memory_is_refused_by_setting(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"size": 200, "batch_size": 8}
    agent(tmp_path, ReplayMemory(**settings)).train(Counting(), 20, timesteps=8)
    with pytest.raises(ValueError, match=r"the saved memory has n_step=1, this one has n_step=3"):
        agent(tmp_path, ReplayMemory(**settings, n_step=3)).train(Counting(), 20, timesteps=8)


def test_checkpoints_without_their_record_are_an_error(tmp_path: Path) -> None:
    agent(tmp_path).train(Counting(), timesteps=4)
    (tmp_path / "run.json").unlink()
    with pytest.raises(CheckpointError, match=r"holds checkpoints, but run\.json is missing"):
        agent(tmp_path).train(Counting(), timesteps=4)


class Legal(gymnasium.Env[Any, Any]):
    """Only one action is allowed at each step of an episode, another one in every episode; five steps long."""

    observation_space = Box(-np.inf, np.inf, (1,), np.float32)
    action_space = Discrete(1000)

    def __init__(self, length: int) -> None:
        self.length = length

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.only, self.steps = int(self.np_random.integers(1000)), 0
        return np.array([self.only], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if action != self.only:
            raise ValueError(f"illegal move {action}")
        self.steps += 1
        self.only = (self.only * 7 + 1) % 1000
        return np.array([self.only], np.float32), 1.0, self.steps == self.length, False, {}


def test_a_replay_takes_only_actions_where_they_were_taken(tmp_path: Path) -> None:
    """Environments whose episodes differ in length: while one waits for its turn, no illegal move is made."""

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        weight = tf.Variable(0.0)
        action = tf.cast(features[:, 0], tf.int32)
        if mode == "predict":
            return EstimatorSpec(mode, {"action": action, "w": tf.zeros_like(features) + weight})
        weight.assign_add(1.0)
        return EstimatorSpec(mode, loss=weight)

    def envs() -> SyncVectorEnv:
        makers = [functools.partial(Legal, length) for length in (7, 5)]
        return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.DISABLED)

    def one(folder: Path) -> Agent:
        return Agent(model_fn, ReplayMemory(200, 8), folder, RunConfig(seed=1))

    whole = one(tmp_path / "whole").train(envs(), 8, 10, max_timesteps=60)
    for total in range(4, 62, 4):
        parts = one(tmp_path / "parts").train(envs(), 8, 10, max_timesteps=total)
    assert (parts.global_timestep, parts.global_episode) == (whole.global_timestep, whole.global_episode)
    assert 'not_exact": []' in (tmp_path / "parts" / "run.json").read_text()
