"""What Gymnasium's wrappers have learnt: running statistics, which no replay of the running episodes brings back."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import gymnasium
from gymnasium import wrappers
from gymnasium.vector import SyncVectorEnv, VectorWrapper

from ..contracts import State

_KINDS = (
    wrappers.NormalizeObservation,
    wrappers.NormalizeReward,
    wrappers.vector.NormalizeObservation,
    wrappers.vector.NormalizeReward,
)
_STATISTICS = ("obs_rms", "return_rms")
_MOMENTS = ("mean", "var", "count")
_SUMS = ("discounted_reward", "accumulated_reward", "_prev_dones")
"""What the reward wrappers keep of the running episodes."""
_BLIND = (
    gymnasium.ActionWrapper,
    gymnasium.RewardWrapper,
    gymnasium.vector.VectorActionWrapper,
    gymnasium.vector.VectorRewardWrapper,
    wrappers.Autoreset,
    wrappers.NormalizeReward,
    wrappers.OrderEnforcing,
    wrappers.PassiveEnvChecker,
    wrappers.RecordEpisodeStatistics,
    wrappers.RecordVideo,
    wrappers.TimeLimit,
    wrappers.vector.NormalizeReward,
    wrappers.vector.RecordEpisodeStatistics,
)
"""They pass observations on as they are."""


def statistics_of(env: Any) -> State:
    """The running statistics of the wrappers of ``env``, and of the environments in a SyncVectorEnv; by position.

    ``is_last`` tells of the one NormalizeObservation whose observations are those that come out of ``env``.
    """
    last = _last_to_observe(env)
    return {
        str(position): {**_read(wrapper), "is_last": wrapper is last} for position, wrapper in enumerate(_learning(env))
    }


@contextlib.contextmanager
def frozen(env: Any, statistics: State) -> Iterator[None]:
    """``env`` has these ``statistics``; what is done inside does not change them.

    So an observation that is normalised inside comes out as it did when the statistics were saved.

    Raises:
        ValueError: ``env`` has other wrappers that learn than the environment that was saved.
    """
    learning = _learning(env)
    kinds = [type(wrapper).__name__ for wrapper in learning]
    saved = [str(state["kind"]) for state in statistics.values()]
    if kinds != saved:
        raise ValueError(f"the saved environment has the statistics of {saved or 'no wrappers'}, this one {kinds}")
    updating = [wrapper.update_running_mean for wrapper in learning]
    _load(learning, statistics, [False] * len(learning))
    try:
        yield
    finally:
        _load(learning, statistics, updating)


def _learning(env: Any) -> list[Any]:
    found = []
    while isinstance(env, gymnasium.Wrapper | VectorWrapper):
        found += [env] if isinstance(env, _KINDS) else []
        env = env.env
    if isinstance(env, SyncVectorEnv):
        found += [wrapper for one in env.envs for wrapper in _learning(one)]
    return found


def _last_to_observe(env: Any) -> Any:
    """The outermost wrapper that may change observations, or what is inside of all wrappers."""
    while True:
        if isinstance(env, _BLIND):
            env = env.env
        elif isinstance(env, SyncVectorEnv) and env.num_envs == 1:
            env = env.envs[0]
        else:
            return env


def _read(wrapper: Any) -> State:
    held = vars(wrapper)
    state: dict[str, Any] = {name: copy.copy(held[name]) for name in _SUMS if name in held}
    if "epsilon" in held:
        state["epsilon"] = float(held["epsilon"])
    for name in _STATISTICS:
        if name in held:
            state[name] = {moment: copy.copy(getattr(held[name], moment)) for moment in _MOMENTS}
    return {"kind": type(wrapper).__name__, **state}


def _load(learning: list[Any], statistics: State, updating: list[bool]) -> None:
    for wrapper, state, updates in zip(learning, statistics.values(), updating, strict=True):
        for name, value in state.items():
            if name in _SUMS:
                setattr(wrapper, name, copy.copy(value))
            elif name in _STATISTICS:
                for moment in _MOMENTS:
                    setattr(getattr(wrapper, name), moment, copy.copy(value[moment]))
        wrapper.update_running_mean = updates
