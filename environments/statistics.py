"""Running statistics of wrappers, Gymnasium's and axonrl's: saved, restored, frozen, and merged over processes.

Replaying the current episodes does not restore them.
"""

from __future__ import annotations

import contextlib
import copy
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium import wrappers
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from ..core.errors import ArgumentError
from ..core.protocols import State
from .normalization import BY_NAME, Wrapped, are_copies, wrappers_of
from .wrapping import Imported

_KINDS = (
    wrappers.NormalizeObservation,
    wrappers.NormalizeReward,
    wrappers.vector.NormalizeObservation,
    wrappers.vector.NormalizeReward,
)
_SETTINGS = ("epsilon", "clip", "discount", "gamma")
"""Settings saved with the statistics; Gymnasium calls the discount factor of rewards gamma."""
STATISTICS: Final = ("obs_rms", "return_rms")
"""Attributes that wrappers learn: moments of observations, and of discounted returns."""
_MOMENTS = ("mean", "var", "count")
_PARTS: Final = "parts"
"""Attribute with the parts of a Dict or a Tuple that its moments concatenate, in the order of their names."""
_REWARDS: Final = "NormalizeReward"
_NAMES: Final = {"NormalizeObservation": "normalize_observation", _REWARDS: "normalize_reward"}
"""Kinds of axonrl's wrappers to their names in lists of wrappers. Gymnasium's kinds have the same names."""
_SUMS = ("discounted_reward", "accumulated_reward", "_prev_dones")
"""Attributes of reward wrappers that belong to the current episodes."""
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
    Imported,
)
"""Wrappers that do not change observations."""


def statistics_of(env: Any) -> State:
    """Running statistics of the wrappers of ``env``, and of the environments in a SyncVectorEnv, by position.

    Statistics shared by copies made with wrappers by name appear once. ``is_last`` marks the NormalizeObservation whose
    output is the observation of ``env``.
    """
    last = _last_to_observe(env)
    return {
        str(position): {**_read(wrapper), "is_last": wrapper is last} for position, wrapper in enumerate(_learning(env))
    }


def take_moments(env: Any, statistics: State) -> None:
    """Set the moments of the wrappers of ``env``; their state of the current episodes is unchanged."""
    for wrapper, state in zip(_learning(env), statistics.values(), strict=True):
        _put_moments(wrapper, state)


@contextlib.contextmanager
def frozen(env: Any, statistics: State, *, evaluating: bool = False) -> Iterator[None]:
    """Give ``env`` these ``statistics`` and freeze them in this context.

    Observations are normalised as they were when the statistics were saved. Afterwards ``env`` continues to learn from
    them; an environment that only reads another's statistics gets those back.

    Args:
        env: the environment.
        statistics: result of :func:`statistics_of` for a run's wrappers.
        evaluating: whether ``env`` may lack the normalisation of rewards, which matters for training only.

    Raises:
        ArgumentError: as for :func:`refuse_others`.
    """
    learning = _learning(env)
    states = _fitting(env, learning, statistics, evaluating)
    updating = [wrapper.update_running_mean for wrapper in learning]
    watches = any(isinstance(wrapper, Wrapped) and wrapper.row is None for wrapper in wrappers_of(env))
    afterwards = list(statistics_of(env).values()) if watches else states
    _load(learning, states, [False] * len(learning))
    try:
        yield
    finally:
        _load(learning, afterwards, updating)


def refuse_others(env: Any, statistics: State, *, evaluating: bool = False) -> None:
    """Refuse an environment whose normalisation differs from the run's; arguments as for :func:`frozen`.

    Raises:
        ArgumentError: ``env`` lacks a wrapper of the run's environment, has an additional one, or one with other
            settings; names the wrapper.
    """
    _fitting(env, _learning(env), statistics, evaluating)


def refuse_hidden(env: AsyncVectorEnv) -> None:
    """Refuse copies that normalise in their own processes, where statistics can be neither saved nor restored.

    Raises:
        ArgumentError: the copies normalise.
    """
    normalises = any(any(env.call("has_wrapper_attr", name)) for name in STATISTICS)
    if all(env.call("has_wrapper_attr", "normalizers")):
        normalises = normalises or any(map(any, env.get_attr("normalizers")))
    if normalises:
        message = (
            f"the copies in {env} normalise in their own processes, where statistics cannot be saved: use"
            " axonrl.environments.make(id, num_envs, wrappers=[...]), or wrap the vector environment with those of"
            " gymnasium.wrappers.vector"
        )
        raise ArgumentError(message, "env", env)


def names_of(statistics: State) -> list[str]:
    """Names of the statistics' wrappers: ``normalize_observation``, ``Gymnasium's NormalizeObservation``, ..."""
    return [_name(state) for state in statistics.values()]


def taken_over(env: Any, statistics: State) -> State | None:
    """The statistics of ``env`` with the moments of another environment.

    Returns:
        None if the other environment had other wrappers, or observations of other shapes.
    """
    mine = statistics_of(env)
    if [state["kind"] for state in mine.values()] != [state["kind"] for state in statistics.values()]:
        return None
    for own, other in zip(mine.values(), statistics.values(), strict=True):
        if own.get(_PARTS) != other.get(_PARTS):
            return None
        for name in STATISTICS:
            if name in own and np.shape(own[name]["mean"]) != np.shape(other[name]["mean"]):
                return None
            if name in own:
                own[name] = {moment: copy.copy(other[name][moment]) for moment in _MOMENTS}
    return mine


def _learning(env: Any) -> list[Any]:
    """The wrappers that learn, or their shared normalisers, each once."""
    found: list[Any] = []
    for wrapper in wrappers_of(env):
        if isinstance(wrapper, BY_NAME):
            found += [one for one in wrapper.normalizers if one is not None]
        elif isinstance(wrapper, _KINDS):
            found.append(wrapper)
    return list({id(one): one for one in found}.values())


def _last_to_observe(env: Any) -> Any:
    """The outermost wrapper that may change observations, else the innermost environment."""
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
    state |= {name: float(held[name]) for name in _SETTINGS if name in held}
    for name in STATISTICS:
        if name in held:
            state[name] = {moment: copy.copy(getattr(held[name], moment)) for moment in _MOMENTS}
    if held.get(_PARTS) is not None:
        state[_PARTS] = {name: list(shape) for name, shape in held[_PARTS].items()}
    return {"kind": type(wrapper).__name__, **state}


def _name(state: Mapping[str, Any]) -> str:
    """Name of a wrapper for users; Gymnasium's do not clip."""
    kind = str(state["kind"])
    return _NAMES.get(kind, kind) if "clip" in state else f"Gymnasium's {kind}"


def _fitting(env: Any, learning: Sequence[Any], statistics: State, evaluating: bool) -> list[Any]:
    """The state of each wrapper; ``ArgumentError`` if the states belong to other wrappers."""
    mine, saved = [_read(wrapper) for wrapper in learning], list(statistics.values())
    if evaluating and all(state["kind"] != _REWARDS for state in mine):
        saved = [state for state in saved if state["kind"] != _REWARDS]
    here, had = list(map(_name, mine)), list(map(_name, saved))
    if here != had:
        raise ArgumentError(_differing(here, had), "env", env)
    for name, own, state in zip(here, mine, saved, strict=True):
        for setting in [setting for setting in _SETTINGS if setting in own]:
            if state[setting] != own[setting]:
                both = f"{setting}={state[setting]:g}, this one's has {setting}={own[setting]:g}"
                raise ArgumentError(f"{name} of the run's environment has {both}", "env", env)
    return saved


def _differing(here: list[str], had: list[str]) -> str:
    """Explain the difference between an environment's wrappers and the run's."""
    if here and had and {*here} == {*had} and len(here) != len(had):
        return (
            f"the run was trained with {_tally(Counter(had))}, this environment has {_tally(Counter(here))}: each copy"
            " has its own statistics. Use as many copies; with axonrl's wrappers by name all copies share them"
        )
    missing, surplus = Counter(had) - Counter(here), Counter(here) - Counter(had)
    problems = []
    if missing:
        problems.append(
            f"the run was trained in an environment with {_tally(missing)}, which this one lacks: {_advice(missing)}"
        )
    if surplus:
        problems.append(f"this environment has {_tally(surplus)}, which the run was trained without: leave it out")
    return (
        "; ".join(problems) or f"the run's environment has {', '.join(had)} in this order, this one {', '.join(here)}"
    )


def _tally(names: Counter[str]) -> str:
    return " and ".join(name if number == 1 else f"{name} ({number} times)" for name, number in names.items())


def _advice(names: Counter[str]) -> str:
    ours = [name for name in names if name in _NAMES.values()]
    if ours:
        return f"add {' and '.join(ours)} to its wrappers, as axonrl.environments.make and files have them"
    if max(names.values()) > 1:
        return "each copy had its own statistics; with axonrl's wrappers by name all copies share them"
    return "put it around this one; its statistics come from the run"


def _load(learning: Sequence[Any], states: Sequence[Any], updating: Sequence[bool]) -> None:
    for wrapper, state, updates in zip(learning, states, updating, strict=True):
        for name, value in state.items():
            if name in _SUMS and np.shape(value) == np.shape(getattr(wrapper, name)):  # else the sums of other lanes
                setattr(wrapper, name, copy.copy(value))
        _put_moments(wrapper, state)
        wrapper.update_running_mean = updates


def _put_moments(wrapper: Any, state: Mapping[str, Any]) -> None:
    for name in STATISTICS:
        for moment, value in state.get(name, {}).items():
            setattr(getattr(wrapper, name), moment, copy.copy(value))


# -- statistics of several processes -----------------------------------------------------------------------------------


def learnt(before: State, after: State) -> State:
    """Moments of the rows added between two states of the same wrappers.

    Moments combine by Chan, Golub and LeVeque 1983, equation 1.5.
    """
    return {key: _of_each(_without, after[key], before[key]) for key in after}


def merge(total: State, part: State) -> State:
    """The state after adding the rows of :func:`learnt`."""
    return {key: {**state, **_of_each(_with, state, part[key])} for key, state in total.items()}


def _of_each(combine: Any, one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return {name: combine(one[name], other[name]) for name in STATISTICS if name in one}


def _without(all_rows: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    """Moments of the rows that are not in ``first``."""
    count = all_rows["count"] - first["count"]
    if not count:
        return {"mean": np.zeros_like(all_rows["mean"]), "var": np.zeros_like(all_rows["var"]), "count": 0}
    share = first["count"] / count
    mean = all_rows["mean"] + share * (all_rows["mean"] - first["mean"])
    delta = mean - first["mean"]
    squares = all_rows["var"] * all_rows["count"] - first["var"] * first["count"]
    squares = squares - delta * delta * (first["count"] * count / all_rows["count"])
    return {"mean": mean, "var": np.maximum(squares / count, 0.0), "count": count}


def _with(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Moments of the rows of both."""
    count = one["count"] + other["count"]
    if not other["count"]:
        return dict(one)
    delta = other["mean"] - one["mean"]
    squares = one["var"] * one["count"] + other["var"] * other["count"]
    squares = squares + delta * delta * (one["count"] * other["count"] / count)
    return {"mean": one["mean"] + delta * (other["count"] / count), "var": squares / count, "count": count}
