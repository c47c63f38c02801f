"""What wrappers have learnt, Gymnasium's and ours: statistics, which no replay of the running episodes brings back."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import wrappers
from gymnasium.vector import SyncVectorEnv

from ..contracts import State
from .normalization import BY_NAME, Wrapped, are_copies, wrappers_of

_KINDS = (
    wrappers.NormalizeObservation,
    wrappers.NormalizeReward,
    wrappers.vector.NormalizeObservation,
    wrappers.vector.NormalizeReward,
)
_SETTINGS = ("epsilon", "clip", "discount", "gamma")
"""What statistics are used with; Gymnasium calls the discount of rewards gamma."""
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

    What copies that were made with wrappers by name have in common is there once, however many they are. ``is_last``
    tells of the one NormalizeObservation whose observations are those that come out of ``env``.
    """
    last = _last_to_observe(env)
    return {
        str(position): {**_read(wrapper), "is_last": wrapper is last} for position, wrapper in enumerate(_learning(env))
    }


@contextlib.contextmanager
def frozen(env: Any, statistics: State) -> Iterator[None]:
    """``env`` has these ``statistics``; what is done inside does not change them.

    So an observation that is normalised inside comes out as it did when the statistics were saved. Afterwards ``env``
    learns on from them; one that only watches another is as it was before, because these are the other's statistics.

    Raises:
        ValueError: ``env`` has other wrappers that learn than the environment that was saved, or the same ones with
            other settings.
    """
    learning = _learning(env)
    _refuse_others(learning, statistics)
    updating = [wrapper.update_running_mean for wrapper in learning]
    watches = any(isinstance(wrapper, Wrapped) and wrapper.row is None for wrapper in wrappers_of(env))
    afterwards = statistics_of(env) if watches else statistics
    _load(learning, statistics, [False] * len(learning))
    try:
        yield
    finally:
        _load(learning, afterwards, updating)


def as_in_training(env: Any, statistics: State) -> contextlib.AbstractContextManager[None]:
    """For an evaluation during training: ``env`` is :func:`frozen` with what the training's wrappers have learnt.

    Only wrappers by name are; Gymnasium's own, which users put around an environment of theirs, are left to them.

    Raises:
        ValueError: as for :func:`frozen`.
    """
    by_name = any(isinstance(wrapper, BY_NAME) and any(wrapper.normalizers) for wrapper in wrappers_of(env))
    return frozen(env, statistics) if by_name else contextlib.nullcontext()


def taken_over(env: Any, statistics: State) -> State | None:
    """The statistics of ``env``, had its wrappers learnt what those of another environment did.

    Returns:
        None where the other environment had other wrappers, or observations of another shape.
    """
    mine = statistics_of(env)
    if [state["kind"] for state in mine.values()] != [state["kind"] for state in statistics.values()]:
        return None
    for own, other in zip(mine.values(), statistics.values(), strict=True):
        for name in _STATISTICS:
            if name in own and np.shape(own[name]["mean"]) != np.shape(other[name]["mean"]):
                return None
            if name in own:
                own[name] = {moment: copy.copy(other[name][moment]) for moment in _MOMENTS}
    return mine


def _learning(env: Any) -> list[Any]:
    """The wrappers that learn, or what they have in common, each of them once."""
    found: list[Any] = []
    for wrapper in wrappers_of(env):
        if isinstance(wrapper, BY_NAME):
            found += [one for one in wrapper.normalizers if one is not None]
        elif isinstance(wrapper, _KINDS):
            found.append(wrapper)
    return list({id(one): one for one in found}.values())


def _last_to_observe(env: Any) -> Any:
    """The outermost wrapper that may change observations, or what is inside of all wrappers."""
    while True:
        if isinstance(env, _BLIND) or (isinstance(env, BY_NAME) and env.normalizers.observation is None):
            env = env.env
        elif isinstance(env, SyncVectorEnv) and (env.num_envs == 1 or are_copies(env.envs)):
            env = env.envs[0]
        else:
            return env.normalizers.observation if isinstance(env, BY_NAME) else env


def _read(wrapper: Any) -> State:
    held = vars(wrapper)
    state: dict[str, Any] = {name: copy.copy(held[name]) for name in _SUMS if name in held}
    state |= _settings_of(wrapper)
    for name in _STATISTICS:
        if name in held:
            state[name] = {moment: copy.copy(getattr(held[name], moment)) for moment in _MOMENTS}
    return {"kind": type(wrapper).__name__, **state}


def _settings_of(wrapper: Any) -> dict[str, float]:
    held = vars(wrapper)
    return {name: float(held[name]) for name in _SETTINGS if name in held}


def _refuse_others(learning: list[Any], statistics: State) -> None:
    kinds = [type(wrapper).__name__ for wrapper in learning]
    saved = [str(state["kind"]) for state in statistics.values()]
    if kinds != saved:
        raise ValueError(f"the run's environment has the statistics of {saved or 'no wrappers'}, this one {kinds}")
    for kind, wrapper, state in zip(kinds, learning, statistics.values(), strict=True):
        for name, mine in _settings_of(wrapper).items():
            before = state.get(name, mine)  # states were saved before discounts were
            if before != mine:
                raise ValueError(
                    f"{kind} of the run's environment has {name}={before:g}, this one's has {name}={mine:g}"
                )


def _load(learning: list[Any], statistics: State, updating: list[bool]) -> None:
    for wrapper, state, updates in zip(learning, statistics.values(), updating, strict=True):
        for name, value in state.items():
            if name in _SUMS and np.shape(value) == np.shape(getattr(wrapper, name)):  # else other environments' sums
                setattr(wrapper, name, copy.copy(value))
            elif name in _STATISTICS:
                for moment in _MOMENTS:
                    setattr(getattr(wrapper, name), moment, copy.copy(value[moment]))
        wrapper.update_running_mean = updates
