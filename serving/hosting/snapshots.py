"""An agent's state for transfer: JSON and safetensors, never pickle."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from ...core.protocols import Array, SpecTree
from ..catalogue.recipes import Recipe
from .accepted_steps import AcceptedSteps
from .failures import RefusedError, invalid
from .requests import parsed
from .tensors import encoded, joined, parted
from .values import fields


class State(NamedTuple):
    """An agent's state as bytes: the contents of the six fields, before base64."""

    model: Any
    state_size: Any
    action_size: Any
    config: bytes
    network: bytes
    buffer: bytes


FIELDS: Final = ("model", "state_size", "action_size", "encoded_config", "encoded_network", "encoded_buffer")
_WITH_OBS: Final = (FIELDS[0], "obs_size", *FIELDS[2:])
CONFIG: Final = ("hyperparameters", "counters", "pending_updates", "generators", "sampler", "environments", "learning")
GENERATORS: Final = ("memory", "noise")
COUNTERS: Final = ("global_timestep", "global_step", "global_episode")
_NETWORK: Final = "network/"
_BUFFER: Final = "buffer/"
MEMORY: Final = "memory/"
WAITING: Final = "waiting/"
ENVIRONMENT: Final = ("environment", "running", "episode_return", "length", "waiting")


def snapshot(recipe: Recipe, learning: AcceptedSteps, seq: int, specs: Mapping[str, SpecTree]) -> State:
    """The state of an agent with nothing left to do."""
    stepper, streams = learning.stepper, learning.streams
    memory: Any = stepper.memory  # the catalogue has only axonrl's own
    transitions, sampler = memory.contents()
    waiting = [row for stream in streams.by_name.values() for row in stream.rows]
    facts = learning.facts
    config = {
        "hyperparameters": recipe.config,
        "counters": dict(zip(COUNTERS, (seq, stepper.counters.global_step, streams.finished), strict=True)),
        "pending_updates": stepper.pending_updates,
        "generators": {name: stepper.generators[name].bit_generator.state for name in GENERATORS},
        "sampler": sampler,
        "environments": [
            dict(zip(ENVIRONMENT, (s.name, s.running, s.returned, s.length, len(s.rows)), strict=True))
            for s in streams.by_name.values()
        ],
        "learning": None if facts is None else finite({"loss": facts.loss, **facts.metrics}),
    }
    buffer = {MEMORY + name: array for name, array in _flat(transitions).items()}
    buffer |= {WAITING + name: array for name, array in _flat(_columns(waiting, specs)).items()}
    return State(
        recipe.model,
        recipe.config.get("state_size"),
        recipe.config["action_size"],
        json.dumps(config, sort_keys=True, separators=(",", ":")).encode(),
        encoded(stepper.weights()),
        encoded(buffer),
    )


def finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """Numbers for JSON: null if not finite."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def to_fields(state: State, *, has_obs: bool = False) -> dict[str, Any]:
    """The six fields; with ``obs_size`` instead of ``state_size`` if the agent was created with it."""
    values = (*state[:3], *map(_base64, state[3:]))
    return dict(zip(_WITH_OBS if has_obs else FIELDS, values, strict=True))


def from_fields(body: bytes) -> State:
    """A state from JSON with the six fields, under either name of the second; RefusedError if invalid."""
    found = parsed(body)
    names = _WITH_OBS if type(found) is dict and _WITH_OBS[1] in found and FIELDS[1] not in found else FIELDS
    value = fields(found, (), names)
    config, network, buffer = (_bytes_of(value, name) for name in FIELDS[3:])
    return State(value["model"], value[names[1]], value["action_size"], config, network, buffer)


def to_file(state: State) -> bytes:
    """One safetensors file, with the rest in its metadata."""
    about = {"model": state.model, "state_size": state.state_size, "action_size": state.action_size}
    about["config"] = state.config.decode()
    return joined({_NETWORK: state.network, _BUFFER: state.buffer}, json.dumps(about))


def from_file(content: bytes) -> State:
    """A state from such a file; RefusedError if invalid."""
    parts, about = parted(content, "body", (_NETWORK, _BUFFER))
    try:
        described = parsed(about.encode())
    except RefusedError:
        raise RefusedError("unsafe_state", "metadata are not JSON", [("metadata", "are not JSON")]) from None
    found = fields(described, ("metadata",), ("model", "state_size", "action_size", "config"))
    config = found["config"]
    if type(config) is not str:
        raise invalid("metadata.config", "must be JSON as text")
    sizes = found["state_size"], found["action_size"]
    return State(found["model"], *sizes, config.encode("utf-8", "replace"), parts[_NETWORK], parts[_BUFFER])


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
