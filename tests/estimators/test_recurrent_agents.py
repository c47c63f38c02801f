"""Recurrent models through the life of an agent: what must be remembered, exact resume, masks, copies, exports."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from axonrl import Agent, RunConfig
from axonrl.core.protocols import ACTION_MASK
from axonrl.errors import ArgumentError
from axonrl.hooks import Hook
from axonrl.memories import BatchMemory, ReplayMemory, SequenceMemory
from axonrl.models import dqn, impala, ppo, r2d2
from axonrl.policies import Policy
from axonrl.tests.estimators.fakes import differences, snapshot

pytestmark = pytest.mark.usefixtures("traced_once")

SMALL = {"hidden": (8,), "lstm": 8}
QUIET = RunConfig(seed=3, progress=False)


class Cue(gymnasium.Env[Any, Any]):
    """Shows 1 or -1 at first and then 0; the fourth action pays 1 if it is the side that was shown.

    With masks, which are where ``masked``, a third action is never legal, and nothing is at the end.
    """

    def __init__(self, masked: bool = False) -> None:
        shown = Box(-1, 1, (1,))
        self.observation_space = Dict({"cue": shown, ACTION_MASK: MultiBinary(3)}) if masked else shown
        self.action_space = Discrete(3 if masked else 2)
        self.masked = masked

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.time, self.side = 0, int(self.np_random.integers(2))
        return self.observation(2 * self.side - 1), {}

    def step(self, action: Any) -> Any:
        assert action < 2
        self.time += 1
        ended = self.time == 4
        return self.observation(0, ended), float(ended and action == self.side), ended, False, {}

    def observation(self, shown: int, ended: bool = False) -> Any:
        cue = np.array([shown], np.float32)
        mask = np.array([not ended, not ended, False], np.int8)
        return {"cue": cue, ACTION_MASK: mask} if self.masked else cue


def memory(**changes: Any) -> SequenceMemory:
    return SequenceMemory(**{"size": 600, "batch_size": 16, "length": 4, "burn_in": 2, "overlap": 2, **changes})


def copies(masked: bool) -> Any:
    return SyncVectorEnv([lambda: Cue(masked)] * 2, autoreset_mode=AutoresetMode.DISABLED)


def chosen(policy: Policy, side: int) -> int:
    """The last action of an episode with masks."""
    env = Cue(True)
    return [int(policy.act(env.observation(shown))) for shown in (2 * side - 1, 0, 0, 0)][-1]


# What learns and what is resumed is one program, which is converted once.
R2D2 = {**SMALL, "lstm": 16, "learning_rate": 1e-2, "epsilon": 0.3, "target_update_period": 20}


@pytest.mark.learning
def test_it_remembers_what_it_saw(tmp_path: Path) -> None:
    agent = Agent(r2d2.model_fn, memory(size=2000, sampler="prioritized"), tmp_path, QUIET, R2D2)
    agent.train(Cue(True), first_update=200, update_frequency=4, timesteps=2400)
    assert agent.evaluate(Cue(True), episodes=20)["episode_return_mean"] == 1.0
    policy = Policy.load(agent.export(tmp_path / "policy"))
    for side in (0, 1, 1, 0):
        policy.reset()
        assert chosen(policy, side) == side


def test_a_run_that_is_resumed_ends_the_same(tmp_path: Path) -> None:
    def trained(name: str, timesteps: int) -> Agent:
        made = Agent(r2d2.model_fn, memory(size=120, sampler="prioritized"), tmp_path / name, QUIET, R2D2)
        return made.train(copies(True), first_update=60, update_frequency=4, max_timesteps=timesteps)

    trained("whole", 230)
    for timesteps in (57, 125, 230):  # before the first update, in the middle of episodes, after the memory wrapped
        trained("resumed", timesteps)
    assert differences(snapshot(tmp_path / "whole"), snapshot(tmp_path / "resumed")) == []


ON_POLICY: dict[str, Any] = {**SMALL, "lstm": 16, "learning_rate": 1e-2, "entropy_coefficient": 0.02}
SEQUENCES = {**ON_POLICY, "sequence_length": 8, "minibatch_size": 32, "epochs": 4}
CASES = {
    "ppo": (ppo, SEQUENCES, 128),
    "impala": (impala, {**ON_POLICY, "shared": True, "epochs": 2}, 32),
}


@pytest.mark.learning
@pytest.mark.parametrize("name", CASES)
def test_on_policy_algorithms_remember_too(name: str, tmp_path: Path) -> None:
    """Episodes of 4 timesteps, so every sequence has the ends of some."""
    algorithm, params, size = CASES[name]
    agent = Agent(algorithm.model_fn, BatchMemory(size), tmp_path, QUIET, params)
    agent.train(copies(True), timesteps=5120)
    assert agent.evaluate(Cue(True), episodes=20)["episode_return_mean"] == 1.0
    policy = Policy.load(agent.export(tmp_path / "policy"))
    first = chosen(policy, 1)
    policy.reset()
    assert (first, chosen(policy, 0)) == (1, 0)


def test_the_first_step_of_ppo_finds_the_policy_that_acted(tmp_path: Path) -> None:
    """Unrolled from the stored state, with an end of an episode in the middle, no probability has changed."""
    params = {
        "hidden": (4,),
        "lstm": 4,
        "shared": True,
        "sequence_length": 6,
        "minibatch_size": None,
        "epochs": 1,
        "optimizer": "sgd",
    }
    agent = Agent(ppo.model_fn, BatchMemory(36), tmp_path, QUIET, params)
    found: list[Any] = []

    class Watch(Hook):
        def after_update(self, session: Any, facts: Any) -> None:
            found.append(facts.metrics)

    agent.train(copies(True), timesteps=36 * 4, hooks=[Watch()])
    assert len(found) == 4
    assert max(metrics["kl"] for metrics in found) < 1e-9
    assert max(metrics["clip_fraction"] for metrics in found) == 0


def test_a_recurrent_rollout_that_is_resumed_ends_the_same(tmp_path: Path) -> None:
    """In the middle of a sequence, and between two rollouts."""
    params, size = {**SMALL, "shared": True, "optimizer": "sgd"}, 32

    def trained(name: str, rollouts: float) -> None:
        agent = Agent(impala.model_fn, BatchMemory(size), tmp_path / name, QUIET, params)
        agent.train(copies(True), max_timesteps=int(rollouts * size))

    trained("whole", 3.5)
    for rollouts in (0.65, 2, 2.7, 3.5):
        trained("resumed", rollouts)
    assert differences(snapshot(tmp_path / "whole"), snapshot(tmp_path / "resumed")) == []


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="burn_in=2") as error:
        Agent(dqn.model_fn, memory(), tmp_path / "a", QUIET, {"hidden": (8,)}).train(Cue(), timesteps=100)
    assert error.value.argument == "burn_in"
    with pytest.raises(ArgumentError, match="SequenceMemory"):
        Agent(r2d2.model_fn, ReplayMemory(100, 8), tmp_path / "b", QUIET, SMALL).train(Cue(), timesteps=100)
    with pytest.raises(ValueError, match=r"20 timesteps \(first_update\) cannot fill a batch of 64"):
        Agent(r2d2.model_fn, memory(batch_size=64), tmp_path / "c", QUIET, SMALL).train(Cue(), 20, timesteps=100)
    for index, (params, argument) in enumerate(
        [
            ({"sequence_length": 5}, "sequence_length"),  # 16 timesteps of each environment
            ({"sequence_length": 8, "minibatch_size": 12}, "minibatch_size"),  # no multiple of 8
        ]
    ):
        agent = Agent(ppo.model_fn, BatchMemory(32), tmp_path / str(index), QUIET, {**SMALL, "shared": True, **params})
        with pytest.raises(ArgumentError) as error:
            agent.train(copies(False), timesteps=64)
        assert error.value.argument == argument
    with pytest.raises(ArgumentError, match="from a BatchMemory") as error:  # whose sequences others acted in
        Agent(ppo.model_fn, memory(), tmp_path / "d", QUIET, SMALL).train(Cue(), 100, timesteps=200)
    assert error.value.argument == "memory"
