"""A state that a client sent: read, checked, and put into an agent that has just been made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ...checks import shortened
from ...contracts import Array, ArraySpec, SpecTree
from ...errors import ArgumentError
from ...estimators.stepping import Stepper
from ...memories.columns import FLAGS
from ...memories.replay import PRIORITY
from ..catalogue.recipes import Recipe
from ..catalogue.sizes import MAX_NUMBERS
from .failures import RefusedError, invalid
from .learning import Learning
from .requests import environment_name, parsed, values_in
from .snapshots import CONFIG, COUNTERS, ENVIRONMENT, FIELDS, GENERATORS, MEMORY, WAITING, State
from .streams import FRAGMENT, MOST, Stream
from .tensors import decoded
from .values import Where, fields, place

_MOST_VALUES: Final = 2 * MAX_NUMBERS + 200 * MOST + 10_000
"""Bounds of a space as lists, and what is told of each environment, with names that have commas."""


class Arrived:
    """A state that a client sent, read and checked, but for what must be compared with the agent's arrays.

    Args:
        state: as it came.
        recipe: of the agent that it is for.

    Raises:
        RefusedError: it is another model's or of other sizes, or its configuration is invalid.
    """

    def __init__(self, state: State, recipe: Recipe) -> None:
        own = recipe.model, recipe.config.get("state_size"), recipe.config["action_size"]
        for name, given, expected in zip(FIELDS[:3], state[:3], own, strict=True):
            if given != expected or type(given) is not type(expected):
                raise _mismatch(name, f"is {shortened(given)}, this agent's is {expected!r}")
        self.config = _config(state.config)
        self._network, self._buffer = state.network, state.buffer

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """Those of the agent that the state is of."""
        found: dict[str, Any] = self.config["hyperparameters"]
        return found

    def load(self, learning: Learning, specs: Mapping[str, SpecTree], limits: Mapping[str, tuple[Any, Any]]) -> int:
        """Put it into an agent that has just been made, and is thrown away if this is refused.

        Args:
            learning: of a new stepper.
            specs: of a transition.
            limits: lowest and highest value of the columns that hold integers.

        Returns:
            How many steps it had accepted.

        Raises:
            RefusedError: an array does not fit, or a value is not allowed.
        """
        stepper, config = learning.stepper, self.config
        memory: Any = stepper.memory
        own = {name: ArraySpec(array.shape, array.dtype) for name, array in stepper.weights().items()}
        weights = decoded(self._network, "encoded_network", [(own, None)])
        transitions, waiting = self._transitions(stepper, specs, limits, learning.gathers)
        try:
            memory.fill(transitions, config["sampler"])
            for name in GENERATORS:
                stepper.generators[name].bit_generator.state = config["generators"][name]
        except (ArgumentError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise invalid("encoded_config", f"does not fit: {error}") from None
        stepper.set_weights(weights)
        counters = config["counters"]
        left = len(waiting)
        if counters["global_timestep"] < left:
            raise invalid("encoded_config.counters.global_timestep", f"must be at least {left}: so many steps wait")
        stepper.counters.global_timestep = counters["global_timestep"] - left
        stepper.counters.global_step = counters["global_step"]
        self._restore_streams(learning, waiting)
        return int(counters["global_timestep"])

    def _transitions(
        self, stepper: Stepper, specs: Mapping[str, SpecTree], limits: Mapping[str, tuple[Any, Any]], gathers: bool
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """What the memory is to hold, and the steps that wait."""
        memory: Any = stepper.memory
        size = int(memory.size) - bool(memory.fills_and_empties)  # a full rollout has been learned from
        stored = dict(specs)
        _, sampler = memory.contents()
        if set(self.config["sampler"]) != set(sampler):
            raise invalid("encoded_config.sampler", f"must have {sorted(sampler)}")
        if sampler:
            stored[PRIORITY] = ArraySpec((), np.float64)
        parts = {}
        for prefix, columns in ((MEMORY, stored), (WAITING, dict(specs))):
            parts[prefix] = {prefix + name: spec for name, spec in _flat_specs(columns).items()}
        groups = [(parts[MEMORY], size), (parts[WAITING], MOST * (FRAGMENT - 1) * gathers)]
        arrays = decoded(self._buffer, "encoded_buffer", groups)
        memory, waiting = (_nested({n.removeprefix(p): a for n, a in arrays.items() if n.startswith(p)}) for p in parts)
        for columns in (memory, waiting):
            for name, (low, high) in limits.items():
                column = np.asarray(_column(columns, name))
                if bool(((column < low) | (column > high)).any()):
                    raise invalid("encoded_buffer", f"{name} must be in {low} .. {high}")
        return memory, _rows_of(waiting)

    def _restore_streams(self, learning: Learning, waiting: list[dict[str, Any]]) -> None:
        streams, config = learning.streams, self.config
        if sum(one["waiting"] for one in config["environments"]) != len(waiting):
            raise invalid("encoded_config.environments", "count other waiting steps than encoded_buffer has")
        at = 0
        for one in config["environments"]:
            rows = waiting[at : at + one["waiting"]]
            at += one["waiting"]
            stream = Stream(one["environment"], one["running"], one["episode_return"], one["length"], rows)
            streams.by_name[one["environment"]] = stream
        streams.finished = config["counters"]["global_episode"]
        streams.steps = config["counters"]["global_timestep"]
        told = config["learning"]
        learning.tell(
            None if told is None else {name: np.nan if number is None else number for name, number in told.items()}
        )


def _config(content: bytes) -> dict[str, Any]:
    """The JSON of a state, with every value of its kind."""
    where = "encoded_config"
    if values_in(content) > _MOST_VALUES:
        what = f"may have {_MOST_VALUES:,} values, by its commas and brackets"
        raise RefusedError("unsafe_state", f"{where} {what}", [(where, what)])
    try:
        value = fields(parsed(content), (where,), CONFIG)
    except RefusedError as error:
        if error.code == "invalid_json":
            raise RefusedError("unsafe_state", f"{where}: {error.detail}", [(where, error.detail)]) from None
        raise
    counters = fields(value["counters"], (where, "counters"), COUNTERS)
    for name, number in counters.items():
        _count(number, f"{where}.counters.{name}")
    if type(value["owed"]) is not int or value["owed"] != 0:
        what = f"must be 0, since a state is given out when no update is due, got {shortened(value['owed'])}"
        raise invalid(f"{where}.owed", what)
    for name, kind in (("hyperparameters", dict), ("sampler", dict), ("environments", list)):
        if type(value[name]) is not kind:
            called = "an object" if kind is dict else "a list"
            raise invalid(f"{where}.{name}", f"must be {called}, got {shortened(value[name])}")
    if len(value["environments"]) > MOST:
        raise invalid(f"{where}.environments", f"must be at most {MOST}")
    for k, environment in enumerate(value["environments"]):
        _check_environment(environment, (where, "environments", k))
    if len({one["environment"] for one in value["environments"]}) < len(value["environments"]):
        raise invalid(f"{where}.environments", "has a name twice")
    if value["learning"] is not None:
        _check_learning(value["learning"], f"{where}.learning")
    return dict(value)


def _check_learning(told: Any, where: str) -> None:
    if type(told) is not dict or any(type(number) not in (float, type(None)) for number in told.values()):
        raise invalid(where, "must be an object of numbers with a point, or null")
    if "loss" not in told:
        raise invalid(where, "must have a loss")


def _check_environment(value: Any, where: Where) -> None:
    one = fields(value, where, ENVIRONMENT)
    environment_name(one["environment"], (*where, "environment"))
    if type(one["running"]) is not bool:
        raise invalid(place((*where, "running")), f"must be true or false, got {shortened(one['running'])}")
    if type(one["episode_return"]) is not float or not np.isfinite(one["episode_return"]):
        what = f"must be a finite number with a point, got {shortened(one['episode_return'])}"
        raise invalid(place((*where, "episode_return")), what)
    _count(one["length"], place((*where, "length")))
    _count(one["waiting"], place((*where, "waiting")), FRAGMENT)


def _count(value: Any, where: str, below: int = 1 << 53) -> None:
    if type(value) is not int or not 0 <= value < below:
        raise invalid(where, f"must be an integer of at least 0 and below {below:,}, got {shortened(value)}")


def _flat_specs(specs: Mapping[str, SpecTree]) -> dict[str, ArraySpec]:
    found: dict[str, ArraySpec] = {}
    for key, spec in specs.items():
        if isinstance(spec, ArraySpec):
            found[key] = spec
        else:
            found |= {f"{key}:{name}": leaf for name, leaf in spec.items()}
    return found


def _nested(arrays: Mapping[str, Array]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, array in arrays.items():
        key, colon, part = name.partition(":")
        if colon:
            found.setdefault(key, {})[part] = array
        else:
            found[key] = array
    return found


def _column(columns: Mapping[str, Any], name: str) -> Any:
    key, colon, part = name.partition(":")
    return columns[key][part] if colon else columns[key]


def _rows_of(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    def at(value: Any, k: int) -> Any:
        return {name: at(part, k) for name, part in value.items()} if isinstance(value, Mapping) else value[k]

    rows = [{key: at(value, k) for key, value in columns.items()} for k in range(len(columns["reward"]))]
    for row in rows:
        row["reward"] = float(row["reward"])
        row |= {flag: bool(row[flag]) for flag in FLAGS}
    return rows


def _mismatch(where: str, what: str) -> RefusedError:
    return RefusedError("state_mismatch", f"{where} {what}", [(where, what)])
