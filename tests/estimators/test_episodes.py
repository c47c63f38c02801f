"""Episodes: what is kept of them, and their replay."""

import time
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from axonrl.core.protocols import ArraySpec
from axonrl.environments import open_environment
from axonrl.estimators.episodes import Episodes
from axonrl.run_dir.arrays import join_state, split_state
from axonrl.run_dir.generators import episode_seed

DISCRETE = ArraySpec((), np.int32)
RUN_SEED = 3


class Remembering(gymnasium.Env[Any, Any]):
    """Observes its seed, how many actions it took, and a number that all of them and their order made.

    An episode takes 2 to 12 actions, as its seed says. It writes down its calls, and refuses to go on after an end.
    """

    observation_space = Box(-(2**31), 2**31 - 1, (3,), np.int32)
    action_space = Discrete(7)

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.ended = True

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        assert seed is not None
        self.calls.append(("reset", seed))
        self.seed, self.count, self.mix, self.ended = seed, 0, 0, False
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert not self.ended
        self.calls.append(int(action))
        self.count, self.mix = self.count + 1, (self.mix * 31 + int(action) + 1) % 1_000_003
        self.ended = self.count == 2 + self.seed % 11
        return self._observe(), 0.1 * action, self.ended, False, {}

    def _observe(self) -> Any:
        return np.array([self.seed, self.count, self.mix], np.int32)


def several(count: int) -> tuple[list[Remembering], Any]:
    envs = [Remembering() for _ in range(count)]
    functions = [lambda env=env: env for env in envs]
    return envs, open_environment(SyncVectorEnv(functions, autoreset_mode=AutoresetMode.DISABLED))


def stored(state: Any) -> Any:
    return join_state(*split_state(state))


def resumed(episodes: Episodes) -> Episodes:
    other = Episodes(episodes.num_envs, DISCRETE, RUN_SEED)
    other.load_state_dict(stored(episodes.state_dict()))
    return other


def test_the_seconds_are_those_of_all_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    episodes = Episodes(1, DISCRETE, RUN_SEED)
    episodes.begin(np.array([True]))
    now = 101.5
    state = stored(episodes.state_dict())
    now = 5.0  # another process, another clock
    episodes = Episodes(1, DISCRETE, RUN_SEED)
    episodes.load_state_dict(state)
    now = 5.25
    assert episodes.finish(0, True, False, 0.0).seconds == 1.75


def test_all_episodes_of_a_replay_end_together() -> None:
    episodes = Episodes(3, DISCRETE, RUN_SEED)
    for mask, actions in [([1, 1, 1], (1, 4, 2)), ([0, 0, 0], (2, 5, 0)), ([0, 1, 0], (3, 6, 1))]:
        episodes.begin(np.array(mask, bool))
        episodes.record(np.array(actions, np.int32), np.ones(3), None)
    episodes.running[2] = False
    seeds = [22, 11, 33]  # of episodes of 2, 2 and 2 timesteps: the replay must cope with those that end too early
    episodes.seeds = seeds
    envs, env = several(3)
    replayed: Any = episodes.replay(env)
    observation, returns = replayed
    # Environment 0 diverges: it ends after two actions instead of going on, and begins again. Environment 1 plays
    # its episode of one action until all end together. Environment 2 has no episode: what it does means nothing.
    assert envs[0].calls == [("reset", 22), 1, 2, ("reset", 22), 3]
    assert envs[1].calls == [("reset", 11), 6, ("reset", 11), 6, ("reset", 11), 6]
    assert observation[:2].tolist() == [[22, 1, 4], [11, 1, 7]]
    assert returns[:2].tolist() == [0.1 * 3, 0.1 * 6]


def test_only_the_actions_of_the_last_episodes_are_kept_however_long_they_are() -> None:
    episodes = Episodes(2, DISCRETE, RUN_SEED)
    episodes.begin(np.array([True, True]))
    log = np.random.default_rng(0).integers(0, 7, (5000, 2)).astype(np.int32)
    for t, actions in enumerate(log, start=1):
        episodes.record(actions, np.zeros(2), None)
        if t == 1000:  # environment 1 goes on from the beginning to timestep 4500
            episodes.finish(0, True, False, 0.0)
            episodes.begin(np.array([True, False]))
        if t == 4500:
            episodes.finish(1, True, False, 0.0)
            np.testing.assert_array_equal(episodes.state_dict()["actions"], log[:4500])  # until the next one begins
            episodes.begin(np.array([False, True]))
            np.testing.assert_array_equal(episodes.state_dict()["actions"], log[1000:4500])
        if t == 3000:
            np.testing.assert_array_equal(episodes.state_dict()["actions"], log[:3000])
            episodes = resumed(episodes)
    state = episodes.state_dict()
    np.testing.assert_array_equal(state["actions"], log[1000:])
    assert (state["actions"].dtype, state["lengths"].tolist()) == (np.int32, [4000, 500])


def test_a_state_is_a_copy() -> None:
    episodes = Episodes(1, DISCRETE, RUN_SEED)
    episodes.begin(np.array([True]))
    episodes.record(np.array([5], np.int32), np.array([1.0]), None)
    state = episodes.state_dict()
    before = split_state(state)[0] | {name: np.copy(value) for name, value in split_state(state)[0].items()}
    episodes.load_state_dict(state)
    for _ in range(2):
        episodes.record(np.array([6], np.int32), np.array([1.0]), None)
        episodes.add_loss(1.0)
        episodes.finish(0, True, False, 0.0)
        episodes.begin(np.array([True]))
    episodes.record(np.array([6], np.int32), np.array([1.0]), None)
    episodes.add_loss(1.0)
    after = split_state(state)[0]
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert state["seeds"] == [episode_seed(RUN_SEED, 0, 0)]
