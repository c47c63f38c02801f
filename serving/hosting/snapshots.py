"""The state of an agent as it travels: JSON and safetensors, never pickle."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from ...checks import shortened
from ...contracts import Array, ArraySpec, SpecTree
from ...errors import ArgumentError
from ...estimators.stepping import Stepper
from ...memories.columns import FLAGS
from ...memories.replay import PRIORITY
from ..catalogue.recipes import Recipe
from .failures import RefusedError, invalid
from .learning import Learning
from .requests import parsed
from .streams import FRAGMENT, MOST, Stream
from .tensors import decoded, encoded, joined, parted
from .values import fields


class State(NamedTuple):
    """The state of an agent, as bytes: what the six fields have, before base64."""

    model: Any
    state_size: Any
    action_size: Any
    config: bytes
    network: bytes
    buffer: bytes


FIELDS: Final = ("model", "state_size", "action_size", "encoded_config", "encoded_network", "encoded_buffer")
_CONFIG: Final = ("hyperparameters", "counters", "owed", "generators", "sampler", "environments", "learning")
_GENERATORS: Final = ("memory", "noise")
_COUNTERS: Final = ("global_timestep", "global_step", "global_episode")
_NETWORK: Final = "network/"
_BUFFER: Final = "buffer/"
_MEMORY: Final = "memory/"
_WAITING: Final = "waiting/"
_ENVIRONMENT: Final = ("environment", "running", "episode_return", "length", "waiting")


def snapshot(recipe: Recipe, learning: Learning, seq: int, specs: Mapping[str, SpecTree]) -> State:
    """The state of an agent to which nothing is left to do."""
    stepper, streams = learning.stepper, learning.streams
    memory: Any = stepper.memory  # the catalogue has axonrl's own
    transitions, sampler = memory.contents()
    waiting = [row for stream in streams.by_name.values() for row in stream.rows]
    facts = learning.facts
    config = {
        "hyperparameters": recipe.config,
        "counters": dict(zip(_COUNTERS, (seq, stepper.counters.global_step, streams.finished), strict=True)),
        "owed": stepper.owed,
        "generators": {name: stepper.generators[name].bit_generator.state for name in _GENERATORS},
        "sampler": sampler,
        "environments": [
            dict(zip(_ENVIRONMENT, (s.name, s.running, s.returned, s.length, len(s.rows)), strict=True))
            for s in streams.by_name.values()
        ],
        "learning": None if facts is None else {"loss": facts.loss, **facts.metrics},
    }
    buffer = {_MEMORY + name: array for name, array in _flat(transitions).items()}
    buffer |= {_WAITING + name: array for name, array in _flat(_columns(waiting, specs)).items()}
    return State(
        recipe.model,
        recipe.config.get("state_size"),
        recipe.config["action_size"],
        json.dumps(config, sort_keys=True, separators=(",", ":")).encode(),
        encoded(stepper.weights()),
        encoded(buffer),
    )


def to_fields(state: State) -> dict[str, Any]:
    """The six fields."""
    return dict(zip(FIELDS, (*state[:3], *map(_base64, state[3:])), strict=True))


def from_fields(body: bytes) -> State:
    """A state from JSON with the six fields; RefusedError if it is none."""
    value = fields(parsed(body), (), FIELDS)
    config, network, buffer = (_bytes_of(value, name) for name in FIELDS[3:])
    return State(value["model"], value["state_size"], value["action_size"], config, network, buffer)


def to_file(state: State) -> bytes:
    """One safetensors file, with the rest in its metadata."""
    about = {"model": state.model, "state_size": state.state_size, "action_size": state.action_size}
    about["config"] = state.config.decode()
    return joined({_NETWORK: state.network, _BUFFER: state.buffer}, json.dumps(about))


def from_file(content: bytes) -> State:
    """A state from such a file; RefusedError if it is none."""
    parts, about = parted(content, "body", (_NETWORK, _BUFFER))
    found = fields(parsed(about.encode()), ("metadata",), ("model", "state_size", "action_size", "config"))
    config = found["config"]
    if type(config) is not str:
        raise invalid("metadata.config", "must be JSON as text")
    sizes = found["state_size"], found["action_size"]
    return State(found["model"], *sizes, config.encode("utf-8", "replace"), parts[_NETWORK], parts[_BUFFER])


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
        transitions, waiting = self._transitions(stepper, specs, limits)
        try:
            memory.fill(transitions, config["sampler"])
            for name in _GENERATORS:
                stepper.generators[name].bit_generator.state = config["generators"][name]
        except (ArgumentError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise invalid("encoded_config", f"does not fit: {error}") from None
        stepper.set_weights(weights)
        counters = config["counters"]
        left = len(waiting) if waiting else 0
        stepper.counters.global_timestep = counters["global_timestep"] - left
        stepper.counters.global_step = counters["global_step"]
        stepper.owed = config["owed"]
        self._restore_streams(learning, waiting)
        return int(counters["global_timestep"])

    def _transitions(
        self, stepper: Stepper, specs: Mapping[str, SpecTree], limits: Mapping[str, tuple[Any, Any]]
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """What the memory is to hold, and the steps that wait."""
        memory: Any = stepper.memory
        size = int(memory.size)
        stored = dict(specs)
        _, sampler = memory.contents()
        if sampler:
            stored[PRIORITY] = ArraySpec((), np.float64)
        parts = {}
        for prefix, columns in ((_MEMORY, stored), (_WAITING, dict(specs))):
            parts[prefix] = {prefix + name: spec for name, spec in _flat_specs(columns).items()}
        groups = [(parts[_MEMORY], size), (parts[_WAITING], MOST * FRAGMENT)]
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
        learning.tell(config["learning"])


def _config(content: bytes) -> dict[str, Any]:
    """The JSON of a state, with every value of its kind."""
    where = "encoded_config"
    try:
        value = fields(parsed(content), (where,), _CONFIG)
    except RefusedError as error:
        if error.code == "invalid_json":
            raise RefusedError("unsafe_state", f"{where}: {error.detail}", [(where, error.detail)]) from None
        raise
    counters = fields(value["counters"], (where, "counters"), _COUNTERS)
    for name, number in [*counters.items(), ("owed", value["owed"])]:
        if type(number) is not int or not 0 <= number < 1 << 53:
            raise invalid(f"{where}.{name}", f"must be an integer of at least 0, got {number!r}"[:200])
    if type(value["hyperparameters"]) is not dict or type(value["environments"]) is not list:
        raise invalid(where, "hyperparameters must be an object, environments a list")
    if len(value["environments"]) > MOST:
        raise invalid(f"{where}.environments", f"must be at most {MOST}")
    kinds = (str, bool, float, int, int)
    for k, environment in enumerate(value["environments"]):
        one = fields(environment, (where, "environments", k), _ENVIRONMENT)
        if any(type(one[name]) is not kind for name, kind in zip(_ENVIRONMENT, kinds, strict=True)):
            raise invalid(f"{where}.environments[{k}]", "must be a name, a flag, a number and two integers")
        if not np.isfinite(one["episode_return"]) or one["length"] < 0 or one["waiting"] < 0:
            raise invalid(f"{where}.environments[{k}]", "has a number that is not allowed")
    told = value["learning"]
    if told is not None and (
        type(told) is not dict or any(type(number) not in (int, float) for number in told.values())
    ):
        raise invalid(f"{where}.learning", "must be an object of numbers, or null")
    if told is not None and "loss" not in told:
        raise invalid(f"{where}.learning", "must have a loss")
    return dict(value)


def _bytes_of(value: Mapping[str, Any], name: str) -> bytes:
    try:
        return base64.b64decode(value[name].encode("ascii"), validate=True)
    except (AttributeError, UnicodeEncodeError, binascii.Error):
        raise RefusedError("unsafe_state", f"{name} is not base64", [(name, "is not base64")]) from None


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _columns(rows: list[dict[str, Any]], specs: Mapping[str, SpecTree]) -> dict[str, Any]:
    def column(spec: SpecTree, values: list[Any]) -> Any:
        if isinstance(spec, Mapping):
            return {name: column(leaf, [value[name] for value in values]) for name, leaf in spec.items()}
        return np.array(values, spec.dtype).reshape(len(values), *spec.shape)

    return {key: column(spec, [row[key] for row in rows]) for key, spec in specs.items()}


def _flat(columns: Mapping[str, Any]) -> dict[str, Array]:
    """Parts of composite columns under ``column:part``."""
    found: dict[str, Array] = {}
    for key, value in columns.items():
        if isinstance(value, Mapping):
            found |= {f"{key}:{name}": np.asarray(part) for name, part in value.items()}
        else:
            found[key] = np.asarray(value)
    return found


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
