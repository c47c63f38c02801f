"""A time limit around an environment, and checks of what goes in and comes out."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import Any, Final, NoReturn

import numpy as np

from ....core.checks import all_finite, shortened
from ....core.protocols import Array
from ...common.value_specs import ValueSpec
from ..spaces.errors import integer, refuse
from ..spaces.specs import MASK, Nest, Values, check_together, read_values
from .environment import Environment

_KINDS: Final = {"bool": "b", "int": "iuf", "float": "fiu"}
"""Type of a spec to the kinds of NumPy's dtypes that are taken for it; floats for ints only if they are whole."""


class LimitedEnvironment(Environment):
    """An environment whose episodes end after a number of timesteps.

    What it returns is compared with its specifications; its other attributes are those of ``environment``.

    Args:
        environment: the one inside.
        limit: timesteps; None: only the environment's own limit.

    Raises:
        TensorforceError: its states, actions or limit are invalid, or ``limit`` is above its own.
    """

    def __init__(self, environment: Environment, limit: int | None = None) -> None:
        super().__init__()
        self.environment = environment
        self._name = name = str(environment)
        self._of_reset, self._of_execute = f"{name}.reset: states", f"{name}.execute: states"
        self._of_actions = f"{name}.execute: actions"
        self._states_spec, self._actions_spec = environment.states(), environment.actions()
        states = read_values(name, self._states_spec, "states")
        actions = read_values(name, self._actions_spec, "actions")
        check_together(name, states, actions)
        self._states, self._actions = states, actions
        self._limit = _limit(name, environment.max_episode_timesteps(), limit)
        self._last = math.inf if self._limit is None else self._limit
        self._timestep = 0
        self._running = False
        self._begun = False

    def states(self) -> dict[str, Any]:
        """Those of the environment."""
        return self._states_spec

    def actions(self) -> dict[str, Any]:
        """Those of the environment."""
        return self._actions_spec

    def max_episode_timesteps(self) -> int | None:
        """The limit; None: there is none."""
        return self._limit

    def reset(self) -> Any:
        """Begin an episode; one that still runs is left."""
        self._running, self._begun = False, True
        states = self.environment.reset()
        _check_states(self._of_reset, self._states, states)
        self._timestep, self._running = 0, True
        return states

    def execute(self, actions: Any) -> tuple[Any, int, float]:
        """Act; terminal is always 0, 1 or 2.

        Raises:
            TensorforceError: no episode runs, the actions are invalid, or what the environment returned.
        """
        if not self._running:
            why = "the episode has ended" if self._begun else "no episode has begun"
            refuse(f"{self._name}.execute", f"was called although {why}: call reset first", None)
        _check(self._of_actions, self._actions.nest, actions, masks=False)
        self._running = False  # also if the environment raises
        returned = self.environment.execute(actions)
        if not isinstance(returned, tuple | list) or len(returned) != 3:
            refuse(
                f"{self._name}.execute", f"must return states, terminal, reward; got {shortened(returned)}", returned
            )
        states, terminal, reward = returned
        _check_states(self._of_execute, self._states, states)
        ended, reward = _terminal(self._name, terminal), _reward(self._name, reward)
        self._timestep += 1
        if ended == 0 and self._timestep >= self._last:
            ended = 2
        self._running = ended == 0
        return states, ended, reward

    def close(self) -> None:
        """Close the environment."""
        self._running = False
        self.environment.close()

    def __str__(self) -> str:
        return self._name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "environment" not in self.__dict__:  # while it is unpickled or copied
            raise AttributeError(name)
        return getattr(self.environment, name)


def _limit(name: str, own: Any, wanted: int | None) -> int | None:
    if own is not None:
        own = integer(f"{name}.max_episode_timesteps()", own, at_least=1)
    if wanted is None:
        return own  # type: ignore[no-any-return]
    wanted = integer("Environment.create: max_episode_timesteps", wanted, at_least=1)
    if own is not None and wanted > own:
        refuse(
            "Environment.create: max_episode_timesteps",
            f"must be at most {own}, the limit of {name} itself; got {wanted}",
            wanted,
        )
    return wanted


def _check_states(where: str, values: Values, given: Any) -> None:
    if values.single and isinstance(given, Mapping):
        if "state" not in given:
            refuse(where, f"must be a value, or have it under 'state'; got {shortened(given)}", given)
        _refuse_others(where, given, {"state"}, masks=True)
        given = given["state"]
    _check(where, values.nest, given, masks=True)


def _check(where: str, nest: Nest, given: Any, *, masks: bool) -> None:
    if isinstance(nest, ValueSpec):
        _check_value(where, nest, given)
        return
    if not isinstance(given, Mapping):
        refuse(where, f"must be a dictionary of {', '.join(nest)}; got {shortened(given)}", given)
    for key, part in nest.items():
        if key not in given:
            refuse(where, f"lacks {key!r}", key)
        _check(where, part, given[key], masks=masks)
    if len(given) > len(nest):
        _refuse_others(where, given, nest, masks=masks)


def _refuse_others(where: str, given: Mapping[Any, Any], known: Container[str], *, masks: bool) -> None:
    """Masks are compared with the actions by the agent, which is the one that uses them."""
    for key in given:
        if key not in known and not (masks and isinstance(key, str) and key.endswith(MASK)):
            refuse(where, f"has an unknown entry {key!r}", key)


def _check_value(where: str, spec: ValueSpec, value: Any) -> None:
    try:
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
    except ValueError:  # lists of different lengths
        _refuse_value(where, spec, f"must have the shape {spec.shape}", value)
    kind = array.dtype.kind
    if kind not in _KINDS[spec.type]:
        _refuse_value(where, spec, f"must be of type {spec.type}", value)
    if array.shape != spec.shape:
        _refuse_value(where, spec, f"must have the shape {spec.shape}", value)
    if kind == "f" and not all_finite(array):
        _refuse_value(where, spec, "must be finite", value)
    if spec.num_values is not None and not _whole_within(array, spec.num_values):
        _refuse_value(where, spec, f"must be whole numbers in 0 .. {spec.num_values - 1}", value)


def _refuse_value(where: str, spec: ValueSpec, problem: str, value: Any) -> NoReturn:
    place = where if spec.name in ("state", "action") else f"{where}[{spec.name!r}]"
    refuse(place, f"{problem}, got {shortened(value)}", value)


def _whole_within(array: Array, count: int) -> bool:
    if array.ndim == 0:
        number = array.item()
        return bool(0 <= number < count and number == int(number))
    return bool(array.min() >= 0 and array.max() < count and (array.dtype.kind != "f" or (array % 1 == 0).all()))


def _terminal(name: str, terminal: Any) -> int:
    if isinstance(terminal, bool | np.bool_):
        return int(terminal)
    if not isinstance(terminal, int | np.integer) or not 0 <= terminal <= 2:
        refuse(f"{name}.execute: terminal", f"must be False, True, 0, 1 or 2; got {terminal!r}", terminal)
    return int(terminal)


def _reward(name: str, reward: Any) -> float:
    try:
        number = math.nan if isinstance(reward, str) else float(reward)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        refuse(f"{name}.execute: reward", f"must be a finite number, got {shortened(reward)}", reward)
    return number
