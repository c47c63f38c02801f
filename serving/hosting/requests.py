"""Request bodies as arrays: read and checked before anything changes."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic_core import from_json

from ...core.checks import shortened
from ...core.protocols import Array, ArrayTree
from ...environments import spaces
from ...environments.spaces import AnySpace
from ..catalogue import sizes
from ..refusals import RefusedError, invalid
from .values import Actions, Reader, Where, boolean, fields, number, place, reward

MOST_AT_ONCE: Final = 1_000
"""Maximum number of steps, or observations, of one request."""
DEFAULT_ENVIRONMENT: Final = "default"
_STATES: Final = ("state", "obs")
_NEXT_STATES: Final = ("next_state", "next_obs")
_COLUMNS: Final = ("observation", "next_observation")
_LONGEST_NAME: Final = 128
_OF_STEP: Final = 32
"""Bound on a step's fields, objects, and commas or brackets in its environment's name."""


class Step(NamedTuple):
    """A step reported by a client."""

    environment: str
    observation: ArrayTree
    action: Array
    reward: float
    terminated: bool
    truncated: bool
    next_observation: ArrayTree
    where: Where


class ActRequest(NamedTuple):
    """Arguments of an act. ``single``: the answer is one action."""

    observations: list[ArrayTree]
    environments: list[str]
    explore: bool | None
    single: bool


def parsed(body: bytes) -> Any:
    """Parse a body as JSON; RefusedError if it is not JSON, has NaN or infinity, or is nested too deeply."""
    try:
        return from_json(body, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        what = f"is not valid JSON: {error}"
        raise RefusedError("invalid_json", f"the body {what}", [("body", what)]) from None


class RequestReader:
    """Reads the bodies of requests to one agent.

    Args:
        observation: the space of its observations.
        action: the space of its actions.
    """

    def __init__(self, observation: AnySpace, action: AnySpace) -> None:
        self.actions = Actions(action)
        self._reader = Reader(observation)

    def integer_limits(self) -> dict[str, tuple[Any, Any]]:
        """Lowest and highest values of a transition's integer columns."""
        found = self._reader.limits()
        limits = {f"{key}:{name}" if name else key: pair for key in _COLUMNS for name, pair in found.items()}
        if self.actions.discrete:
            limits["action"] = self.actions.first, self.actions.last
        return limits

    def act(self, body: bytes) -> ActRequest:
        """A bare observation, or an object with ``observation``, or with ``observations``."""
        value = parsed(body)
        is_request = type(value) is dict and ("observation" in value or "observations" in value)
        if not is_request:
            return ActRequest([self._reader.read(value, ("state",))], [DEFAULT_ENVIRONMENT], None, True)
        optional = ("observation", "observations", "environment", "environments", "explore")
        value = fields(value, (), (), optional)
        explore = value.get("explore")
        if explore is not None:
            explore = boolean(explore, ("explore",))
        if "observation" in value:
            _refuse_other(value, ("observations", "environments"), "observation")
            environment = _environment(value.get("environment"), ("environment",))
            return ActRequest([self._reader.read(value["observation"], ("observation",))], [environment], explore, True)
        _refuse_other(value, ("environment",), "observations")
        many = _several(value["observations"], ("observations",))
        together = self._reader.together(many)
        if together is None:
            observations = [self._reader.read(one, ("observations", k)) for k, one in enumerate(many)]
        else:
            observations = list(together)
        names = value.get("environments")
        if names is None:
            return ActRequest(observations, [DEFAULT_ENVIRONMENT] * len(many), explore, False)
        if type(names) is not list or len(names) != len(many):
            raise invalid("environments", f"must be a list of {len(many)} names, one for each observation")
        environments = [_environment(name, ("environments", k)) for k, name in enumerate(names)]
        return ActRequest(observations, environments, explore, False)

    def step(self, body: bytes) -> list[Step]:
        """``{"step_data": {...}}``."""
        value = fields(parsed(body), (), ("step_data",))
        return [self._step(value["step_data"], ("step_data",))]

    def steps(self, body: bytes) -> list[Step]:
        """``{"steps": [{...}, ...]}``."""
        value = fields(parsed(body), (), ("steps",))
        many = _several(value["steps"], ("steps",))
        befores, afters = self._column(many, _STATES), self._column(many, _NEXT_STATES)
        return [self._step(one, ("steps", k), befores[k], afters[k]) for k, one in enumerate(many)]

    def _column(self, many: list[Any], names: tuple[str, str]) -> Sequence[Any]:
        """The observations of all steps, read at once; None for each if they must be read one by one."""
        nothing: Sequence[Any] = [None] * len(many)
        if not all(type(one) is dict for one in many):
            return nothing
        found = self._reader.together([one.get(_name_of(one, names)) for one in many])
        return nothing if found is None else list(found)

    def end_episode(self, body: bytes) -> str:
        """``{"environment": name}``, or nothing."""
        value = fields(parsed(body), (), (), ("environment",)) if body else {}
        return _environment(value.get("environment"), ("environment",))

    def _step(self, value: Any, where: Where, before: Any = None, after: Any = None) -> Step:
        """Read a step; its observations may have been read before."""
        state, following = _name_of(value, _STATES), _name_of(value, _NEXT_STATES)
        needed = (state, "action", "reward", following, "done")
        value = fields(value, where, needed, ("truncated", "environment"))
        truncated = value.get("truncated", False)
        return Step(
            _environment(value.get("environment"), (*where, "environment")),
            self._reader.read(value[state], (*where, state)) if before is None else before,
            self.actions.read(value["action"], (*where, "action")),
            reward(value["reward"], (*where, "reward")),
            done := boolean(value["done"], (*where, "done")),
            boolean(truncated, (*where, "truncated")) and not done,
            self._reader.read(value[following], (*where, following)) if after is None else after,
            where,
        )


def values_in(body: bytes) -> int:
    """Number of commas and opening brackets, an upper bound of JSON values less one; it also counts those in texts."""
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def most_values(config: Mapping[str, Any]) -> tuple[int, int]:
    """Maximum number of JSON values in the body of a step, and of a batch of steps or observations.

    Args:
        config: sizes of an agent, from its recipe.

    Returns:
        Numbers, texts, lists and objects, and some more, as counts of commas and brackets include those in names.
    """
    space, _ = sizes.observation(config)
    size = config["action_size"]
    action = _of_shape(tuple(size) if isinstance(size, list) else (size,))
    step = 2 * _of_space(space) + action + _OF_STEP
    return step, MOST_AT_ONCE * step


def _of_space(space: AnySpace) -> int:
    inner = spaces.parts(space)
    if inner:
        return 1 + sum(len(name) + _of_space(part) for name, part in inner)
    return _of_shape(spaces.leaves(space)[0].spec.shape)


def _of_shape(shape: tuple[int, ...]) -> int:
    """Number of lists, and of numbers in them."""
    counts = list(itertools.accumulate(shape, operator.mul, initial=1))
    return sum(counts)


def noise_of(value: Any) -> float:
    """The ``noise`` of an act."""
    return number(value, ("noise",), 0.0, 1.0)


def _name_of(value: Any, names: tuple[str, str]) -> str:
    """The one of two names under which a field is given."""
    return names[1] if type(value) is dict and names[1] in value and names[0] not in value else names[0]


def _environment(name: Any, where: Where) -> str:
    return DEFAULT_ENVIRONMENT if name is None else environment_name(name, where)


def environment_name(name: Any, where: Where) -> str:
    """Check the name of an environment."""
    if type(name) is not str or not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable():
        what = f"must be a name of 1 to {_LONGEST_NAME} printable characters, got {shortened(name)}"
        raise invalid(place(where), what)
    return name


def _several(value: Any, where: Where) -> list[Any]:
    if type(value) is not list or not 1 <= len(value) <= MOST_AT_ONCE:
        got = f"{len(value)}" if type(value) is list else shortened(value)
        raise invalid(place(where), f"must be a list of 1 to {MOST_AT_ONCE:,}, got {got}")
    return value


def _refuse_other(value: Mapping[str, Any], names: tuple[str, ...], given: str) -> None:
    for name in names:
        if name in value:
            raise invalid(name, f"does not go with {given}")
