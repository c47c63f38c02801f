"""Request bodies as arrays: read and checked before anything changes."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from pydantic_core import SchemaValidator, core_schema, from_json

from ...core.protocols import ArrayTree
from ...environments import spaces
from ...environments.spaces import AnySpace
from ..catalogue import sizes
from ..refusals import RefusedError, invalid
from .values import FLAG, NAME, NUMBER, Actions, Reader, check, lists, objects

MOST_AT_ONCE: Final = 1_000
"""Maximum number of steps, or observations, of one request."""
DEFAULT_ENVIRONMENT: Final = "default"
_OF_STEP: Final = 32
"""Bound on a step's fields, objects, and commas or brackets in its environment's name."""
_ENVIRONMENT: Final = {"environment": core_schema.nullable_schema(NAME)}
_EXPLORE: Final = {"explore": core_schema.nullable_schema(FLAG)}
_END_EPISODE: Final = SchemaValidator(objects({}, _ENVIRONMENT))
_NOISE: Final = SchemaValidator(core_schema.float_schema(strict=True, ge=0, le=1))


class Step(NamedTuple):
    """A step reported by a client; the transition lacks what an act has recorded."""

    environment: str
    transition: dict[str, Any]


class ActRequest(NamedTuple):
    """Arguments of an act: a batch of observations [N, ...]. ``single``: the answer is one action."""

    observations: ArrayTree
    environments: list[str]
    explore: bool | None
    single: bool


def parse_body(body: bytes) -> Any:
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
        one = self._reader.schema
        many = lists(one, 1, MOST_AT_ONCE)
        names = core_schema.nullable_schema(lists(NAME, 0, MOST_AT_ONCE))
        step = objects(
            {"state": one, "action": self.actions.schema, "reward": NUMBER, "next_state": one, "done": FLAG},
            {"truncated": FLAG, **_ENVIRONMENT},
            {"state": "obs", "next_state": "next_obs"},
        )
        self._bare = SchemaValidator(one)
        self._act = SchemaValidator(objects({"observation": one}, {**_ENVIRONMENT, **_EXPLORE}))
        self._acts = SchemaValidator(objects({"observations": many}, {"environments": names, **_EXPLORE}))
        self._step = SchemaValidator(objects({"step_data": step}))
        self._steps = SchemaValidator(objects({"steps": lists(step, 1, MOST_AT_ONCE)}))

    def integer_limits(self) -> dict[str, tuple[Any, Any]]:
        """Lowest and highest values of a transition's integer columns."""
        columns = {"observation": self._reader, "next_observation": self._reader, "action": self.actions}
        found = [(key, *one) for key, reader in columns.items() for one in reader.limits().items()]
        return {f"{key}:{name}" if name else key: limits for key, name, limits in found}

    def act(self, body: bytes) -> ActRequest:
        """A bare observation, or an object with ``observation``, or with ``observations``."""
        value = parse_body(body)
        given = value if type(value) is dict else {}
        if "observation" in given:
            value = check(self._act, value)
            observations = self._reader.read([value["observation"]])
            environment = value.get("environment") or DEFAULT_ENVIRONMENT
            return ActRequest(observations, [environment], value.get("explore"), True)
        if "observations" not in given:
            observations = self._reader.read([check(self._bare, value, ("state",))])
            return ActRequest(observations, [DEFAULT_ENVIRONMENT], None, True)
        value = check(self._acts, value)
        observations = self._reader.read(value["observations"])
        names = value.get("environments")
        size = len(value["observations"])
        if names is not None and len(names) != size:
            raise invalid("environments", f"must be a list of {size} names, one for each observation")
        environments = [DEFAULT_ENVIRONMENT] * size if names is None else names
        return ActRequest(observations, environments, value.get("explore"), False)

    def step(self, body: bytes) -> list[Step]:
        """``{"step_data": {...}}``."""
        value = check(self._step, parse_body(body))
        return self._read([value["step_data"]])

    def steps(self, body: bytes) -> list[Step]:
        """``{"steps": [{...}, ...]}``."""
        return self._read(check(self._steps, parse_body(body))["steps"])

    def end_episode(self, body: bytes) -> str:
        """``{"environment": name}``, or nothing."""
        found: str | None = check(_END_EPISODE, parse_body(body)).get("environment") if body else None
        return found or DEFAULT_ENVIRONMENT

    def _read(self, steps: list[dict[str, Any]]) -> list[Step]:
        readers = {"state": self._reader, "action": self.actions, "next_state": self._reader}
        batches = (reader.read([step[name] for step in steps]) for name, reader in readers.items())
        before, actions, after = (_split_rows(batch, len(steps)) for batch in batches)
        return [
            Step(
                step.get("environment") or DEFAULT_ENVIRONMENT,
                {
                    "observation": before[k],
                    "action": actions[k],
                    "reward": step["reward"],
                    "terminated": step["done"],
                    "truncated": step.get("truncated", False) and not step["done"],
                    "next_observation": after[k],
                },
            )
            for k, step in enumerate(steps)
        ]


def _split_rows(batch: ArrayTree, count: int) -> list[ArrayTree]:
    if isinstance(batch, np.ndarray):
        return [batch[k, ...] for k in range(count)]
    return [{name: array[k, ...] for name, array in batch.items()} for k in range(count)]


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
    found: float = check(_NOISE, value, ("noise",))
    return found
