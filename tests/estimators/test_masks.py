"""Masks through the life of an agent: rows without a legal action, lanes, exported policies."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from axonrl import Agent, RunConfig
from axonrl.core.protocols import NO_LEGAL_ACTION
from axonrl.errors import ArgumentError, BrokenEnvironmentError
from axonrl.memories import BatchMemory, ReplayMemory
from axonrl.models import dqn, ppo
from axonrl.policies import Policy
from axonrl.tests.estimators.fakes import SelfResetting
from axonrl.tests.raising import raised

pytestmark = pytest.mark.usefixtures("traced_once")

SMALL = {"hidden": (4,), "epsilon": 0.5, "optimizer": "sgd"}
PPO = {"hidden": (4,), "minibatch_size": 10, "epochs": 1, "optimizer": "sgd"}
QUIET = RunConfig(seed=3, progress=False, runtime="litert")


class Clock(gymnasium.Env[Any, Any]):
    """Observes the time; of three actions two are legal, which two changes; from ``end`` on none is."""

    observation_space = Dict({"time": Box(0, 100, (1,)), "legal": MultiBinary(3)})
    action_space = Discrete(3, start=5)

    def __init__(self, end: int = 1000, length: int = 9) -> None:
        self.end, self.length, self.taken = end, length, True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self.observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.observation()["legal"][action - 5]
        self.time += 1
        ended = self.time == self.length
        return self.observation(terminal=ended), float(action == 5), ended, False, {}

    def observation(self, terminal: bool = False) -> Any:
        legal = np.array([1, 1, 1], np.int8)
        legal[self.time % 3] = 0
        if terminal or self.time >= self.end:
            legal[:] = 0
        return {"time": np.array([self.time], np.float32), "legal": legal}


def agent(model_dir: Path, **params: Any) -> Agent:
    return Agent(dqn.model_fn, ReplayMemory(60, 8), model_dir, QUIET, {**SMALL, "action_mask": "legal", **params})


def test_all_actions_are_legal_from_the_first_to_the_last(tmp_path: Path) -> None:
    """Clock checks that; its terminal observations have no legal action, and nothing becomes NaN."""
    made = agent(tmp_path).train(Clock(), timesteps=200)
    assert made.evaluate(Clock(), episodes=2)["episode_length_mean"] == 9
    policy = Policy.load(made.export(tmp_path / "policy"), seed=0)
    nothing: Any = {"time": np.zeros((2, 1), np.float32), "legal": np.array([[0, 0, 1], [0, 0, 0]], np.int8)}
    assert policy.act({name: value[0] for name, value in nothing.items()}) == 7
    assert policy.act({name: value[0] for name, value in nothing.items()}, explore=True) == 7
    assert made.predict(nothing)["action"].tolist() == [7, NO_LEGAL_ACTION]
    raised(ValueError, policy.act, nothing, match="observation 1 has a mask without a legal action")


def test_a_row_without_a_legal_action_is_named(tmp_path: Path) -> None:
    message = r"environment {0} has a mask without a legal action \(environment {0}: .* timestep 4; "
    with pytest.raises(BrokenEnvironmentError, match=message.format(0)):
        agent(tmp_path / "one").train(Clock(4), timesteps=50)
    copies = SyncVectorEnv([Clock, lambda: Clock(4), Clock], autoreset_mode=AutoresetMode.DISABLED)
    several = agent(tmp_path / "several")
    raised(BrokenEnvironmentError, several.train, copies, timesteps=50, match=message.format(1))
    with pytest.raises(BrokenEnvironmentError, match=message.format(0)):
        agent(tmp_path / "three").train(Clock(), timesteps=20).evaluate(Clock(4))


@pytest.mark.parametrize(
    ("model_fn", "memory", "params"), [(dqn.model_fn, ReplayMemory(60, 8), SMALL), (ppo.model_fn, BatchMemory(20), PPO)]
)
def test_no_action_needs_to_be_legal_where_a_reset_ignores_it(
    model_fn: Any, memory: Any, params: Any, tmp_path: Path
) -> None:
    """Nothing is legal in the last observation of an episode, and the reset is the next step."""
    copies = SelfResetting([lambda: Clock(length=4), Clock], autoreset_mode=AutoresetMode.NEXT_STEP)
    made = Agent(model_fn, memory, tmp_path, QUIET, {**params, "action_mask": "legal"})
    made.train(copies, timesteps=100)
    assert made.global_episode == 16  # 3 in 17 timesteps, which 10 steps are with 3 resets
    assert made.evaluate(copies, episodes=4)["episode_length_mean"] == (3 * 4 + 9) / 4
    failing = SelfResetting([lambda: Clock(length=4), lambda: Clock(3)], autoreset_mode=AutoresetMode.NEXT_STEP)
    with pytest.raises(BrokenEnvironmentError, match="environment 1 has a mask without a legal action"):
        made.evaluate(failing, episodes=4)


def test_a_caller_is_told_the_lane(tmp_path: Path) -> None:
    made, clock = agent(tmp_path), Clock()
    observation, _ = clock.reset()
    nothing = {**observation, "legal": np.zeros(3, np.int8)}

    def call() -> None:
        with made.interact(clock.observation_space, clock.action_space, lanes=2) as interaction:
            interaction.observe(1.0, False, False, clock.step(interaction.act(observation, lane=1))[0], lane=1)
            interaction.act(nothing, lane=1)

    raised(ArgumentError, call, match="whose mask allows no action: lane 1, timestep 1")
