"""An agent's state for transfer: JSON and safetensors, never pickle."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

import numpy as np

from ...core.protocols import Array, ArraySpec, SpecTree
from ...core.trees import map_tree
from ..catalogue.recipes import Recipe
from ..refusals import RefusedError, invalid
from .accepted_steps import AcceptedSteps
from .requests import parsed
from .tensors import Tensors, encoded
from .transitions import flat
from .values import fields

Content = TypeVar("Content")


@dataclasses.dataclass(frozen=True)
class State(Generic[Content]):
    """An agent's state: its model and sizes, its configuration as JSON, and two sets of arrays.

    The arrays of a state that is sent are mappings; those of one that arrives are :class:`.tensors.Tensors`.
    """

    model: Any
    state_size: Any
    action_size: Any
    config: bytes
    network: Content
    buffer: Content

    @property
    def sizes(self) -> tuple[Any, Any, Any]:
        """Model and sizes, as in the first three of the six fields."""
        return self.model, self.state_size, self.action_size


Sent: TypeAlias = State[Mapping[str, Array]]
Received: TypeAlias = State[Tensors]

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


def snapshot(recipe: Recipe, learning: AcceptedSteps, seq: int, specs: Mapping[str, SpecTree]) -> Sent:
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
            dict(zip(ENVIRONMENT, (s.name, s.running, s.returned, s.length, len(s.rows)), strict=True))
            for s in streams.by_name.values()
        ],
        "learning": None if last is None else finite(last),
    }
    buffer = {MEMORY + name: array for name, array in flat(transitions).items()}
    rows = map_tree(_column, dict(specs), *waiting)
    buffer |= {WAITING + name: array for name, array in flat(rows).items()}
    return State(
        recipe.model,
        recipe.config.get("state_size"),
        recipe.config["action_size"],
        json.dumps(config, sort_keys=True, separators=(",", ":")).encode(),
        stepper.weights(),
        buffer,
    )


def finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """Numbers for JSON: null if not finite."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def to_fields(state: Sent, *, has_obs: bool = False) -> dict[str, Any]:
    """The six fields; with ``obs_size`` instead of ``state_size`` if the agent was created with it."""
    contents = (state.config, encoded(state.network), encoded(state.buffer))
    values = (*state.sizes, *(base64.b64encode(content).decode() for content in contents))
    return dict(zip(_WITH_OBS if has_obs else FIELDS, values, strict=True))


def from_fields(body: bytes) -> Received:
    """A state from JSON with the six fields, under either name of the second; RefusedError if invalid."""
    found = parsed(body)
    names = _WITH_OBS if type(found) is dict and _WITH_OBS[1] in found and FIELDS[1] not in found else FIELDS
    value = fields(found, (), names)
    config, *contents = (_bytes_of(value, name) for name in FIELDS[3:])
    network, buffer = (Tensors.parse(content, name) for content, name in zip(contents, FIELDS[4:], strict=True))
    return State(value["model"], value[names[1]], value["action_size"], config, network, buffer)


def to_file(state: Sent) -> bytes:
    """One safetensors file, with the rest in its metadata."""
    about = {"model": state.model, "state_size": state.state_size, "action_size": state.action_size}
    about["config"] = state.config.decode()
    arrays = {_NETWORK + name: array for name, array in state.network.items()}
    arrays |= {_BUFFER + name: array for name, array in state.buffer.items()}
    return encoded(arrays, json.dumps(about))


def from_file(content: bytes) -> Received:
    """A state from such a file; RefusedError if invalid."""
    whole = Tensors.parse(content, "body")
    try:
        described = parsed(whole.about.encode("utf-8", "surrogatepass"))
    except (AttributeError, RefusedError):
        raise RefusedError("unsafe_state", "metadata are not JSON", [("metadata", "are not JSON")]) from None
    found = fields(described, ("metadata",), ("model", "state_size", "action_size", "config"))
    config = found["config"]
    if type(config) is not str:
        raise invalid("metadata.config", "must be JSON as text")
    network, buffer = whole.part(_NETWORK, FIELDS[4]), whole.part(_BUFFER, FIELDS[5])
    whole.refuse_rest()
    sizes = found["state_size"], found["action_size"]
    return State(found["model"], *sizes, config.encode("utf-8", "replace"), network, buffer)


def _bytes_of(value: Mapping[str, Any], name: str) -> bytes:
    try:
        return base64.b64decode(value[name].encode("ascii"), validate=True)
    except (AttributeError, UnicodeEncodeError, binascii.Error):
        raise RefusedError("unsafe_state", f"{name} is not base64", [(name, "is not base64")]) from None


def _column(spec: ArraySpec, *values: Any) -> Array:
    """One column of rows that wait, of which there may be none."""
    return np.array(values, spec.dtype).reshape(len(values), *spec.shape)
