"""An agent's state for transfer: JSON and safetensors, never pickle."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from pydantic_core import SchemaValidator

from ...core.protocols import Array, ArraySpec, SpecTree
from ...core.trees import map_tree
from ..catalogue.recipes import Recipe
from ..refusals import RefusedError
from .accepted_steps import AcceptedSteps
from .requests import parse_body
from .tensors import decode, encode
from .transitions import flat
from .values import ANY, TEXT, check, objects


@dataclasses.dataclass(frozen=True)
class State:
    """An agent's state: its model and sizes, its configuration as JSON, and its arrays by prefixed names."""

    model: Any
    state_size: Any
    action_size: Any
    config: bytes
    arrays: Mapping[str, Array]

    @property
    def sizes(self) -> tuple[Any, Any, Any]:
        """Model and sizes, as in the first three of the six fields."""
        return self.model, self.state_size, self.action_size


FIELDS: Final = ("model", "state_size", "action_size", "encoded_config", "encoded_network", "encoded_buffer")
_WITH_OBS: Final = (FIELDS[0], "obs_size", *FIELDS[2:])
GENERATORS: Final = ("memory", "noise")
COUNTERS: Final = ("global_timestep", "global_step", "global_episode")
_SIX: Final = SchemaValidator(objects(dict.fromkeys(FIELDS, ANY), synonyms={FIELDS[1]: _WITH_OBS[1]}))
_METADATA: Final = SchemaValidator(objects({**dict.fromkeys(FIELDS[:3], ANY), "config": TEXT}))
NETWORK: Final = "network/"
_BUFFER: Final = "buffer/"
MEMORY: Final = f"{_BUFFER}memory/"
WAITING: Final = f"{_BUFFER}waiting/"
_PREFIXES: Final = {"encoded_network": NETWORK, "encoded_buffer": _BUFFER}
"""Fields with the arrays of a prefix."""


def snapshot(recipe: Recipe, learning: AcceptedSteps, seq: int, specs: Mapping[str, SpecTree]) -> State:
    """The state of an agent with nothing left to do."""
    stepper, streams = learning.stepper, learning.streams
    memory: Any = stepper.memory  # the catalogue has only axonrl's own
    transitions, sampler = memory.contents()
    waiting = [row for stream in streams.by_name.values() for row in stream.rows]
    last = learning.last_update
    config = {
        "hyperparameters": recipe.config,
        "counters": dict(zip(COUNTERS, (seq, stepper.counters.global_step, streams.finished), strict=True)),
        "pending_updates": stepper.pending_updates,
        "generators": {name: stepper.generators[name].bit_generator.state for name in GENERATORS},
        "sampler": sampler,
        "environments": [
            {
                "environment": stream.name,
                "running": stream.running,
                "episode_return": stream.returned,
                "length": stream.length,
                "waiting": len(stream.rows),
            }
            for stream in streams.by_name.values()
        ],
        "learning": None if last is None else finite(last),
    }
    columns = {NETWORK: stepper.weights(), MEMORY: flat(transitions)}
    columns[WAITING] = flat(map_tree(_column, dict(specs), *waiting))
    return State(
        recipe.model,
        recipe.config.get("state_size"),
        recipe.config["action_size"],
        json.dumps(config, sort_keys=True, separators=(",", ":")).encode(),
        {prefix + name: array for prefix, arrays in columns.items() for name, array in arrays.items()},
    )


def finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """Numbers for JSON: null if not finite."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def to_fields(state: State, *, has_obs: bool = False) -> dict[str, Any]:
    """The six fields; with ``obs_size`` instead of ``state_size`` if the agent was created with it."""
    parts = [
        {name.removeprefix(prefix): array for name, array in state.arrays.items() if name.startswith(prefix)}
        for prefix in _PREFIXES.values()
    ]
    values = (*state.sizes, *(base64.b64encode(one).decode() for one in (state.config, *map(encode, parts))))
    return dict(zip(_WITH_OBS if has_obs else FIELDS, values, strict=True))


def from_fields(body: bytes) -> State:
    """A state from JSON with the six fields, under either name of the second; RefusedError if invalid."""
    value = check(_SIX, parse_body(body))
    arrays = {
        prefix + name: array
        for field, prefix in _PREFIXES.items()
        for name, array in decode(_bytes_of(value, field), field)[0].items()
    }
    sizes = value["model"], value["state_size"], value["action_size"]
    return State(*sizes, _bytes_of(value, "encoded_config"), arrays)


def to_file(state: State) -> bytes:
    """One safetensors file, with the rest in its metadata."""
    about = {"model": state.model, "state_size": state.state_size, "action_size": state.action_size}
    about["config"] = state.config.decode()
    return encode(state.arrays, json.dumps(about))


def from_file(content: bytes) -> State:
    """A state from such a file; RefusedError if invalid."""
    arrays, about = decode(content, "body")
    try:
        described = parse_body(about.encode("utf-8", "surrogatepass"))
    except (AttributeError, RefusedError):
        raise RefusedError("unsafe_state", "metadata are not JSON", [("metadata", "are not JSON")]) from None
    found = check(_METADATA, described, ("metadata",))
    sizes = found["model"], found["state_size"], found["action_size"]
    return State(*sizes, found["config"].encode("utf-8", "replace"), arrays)


def _bytes_of(value: Mapping[str, Any], name: str) -> bytes:
    try:
        return base64.b64decode(value[name].encode("ascii"), validate=True)
    except (AttributeError, UnicodeEncodeError, binascii.Error):
        raise RefusedError("unsafe_state", f"{name} is not base64", [(name, "is not base64")]) from None


def _column(spec: ArraySpec, *values: Any) -> Array:
    """One column of the waiting rows, if any."""
    return np.array(values, spec.dtype).reshape(len(values), *spec.shape)
