"""An agent's state from the service, and as a file."""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import ArgumentError
from .values import Size, shortened


@dataclasses.dataclass
class EncodedAgentState:
    """Everything that an agent has learned. The three encoded fields are base64.

    Args:
        model: such as ``"dqn"``.
        state_size: number of numbers in an observation, or its shape.
        action_size: number of actions, or of numbers in an action.
        encoded_config: JSON: hyperparameters, counters, generators, environments.
        encoded_network: safetensors: every variable.
        encoded_buffer: safetensors: the memory.
    """

    model: str
    state_size: Size
    action_size: Size
    encoded_config: str
    encoded_network: str
    encoded_buffer: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a JSON file, atomically."""
        target = Path(path)
        partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")  # threads may save at once
        try:
            partial.write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> EncodedAgentState:
        """Read what :meth:`save` wrote.

        Raises:
            ArgumentError: the file is not such a state; a ValueError.
        """
        try:
            return from_json(json.loads(Path(path).read_text(encoding="utf-8")))
        except ValueError as error:
            raise ArgumentError(f"{Path(path)} is not a saved agent state: {error}", "path") from None


def from_json(value: Any) -> EncodedAgentState:
    """Make a state from the six fields; ignores others, and takes ``obs_size`` for ``state_size``.

    Raises:
        ArgumentError: a field is missing or of another type.
    """
    if not isinstance(value, Mapping):
        raise ArgumentError(f"a state must be an object, got {shortened(value)}", "state")
    given = {"state_size": value.get("obs_size"), **value}
    found: dict[str, Any] = {field.name: given.get(field.name) for field in dataclasses.fields(EncodedAgentState)}
    kinds: dict[str, Any] = {"state_size": int | list | tuple | None, "action_size": int | list | tuple}
    for name, one in found.items():
        if not isinstance(one, kinds.get(name, str)):
            raise ArgumentError(f"{name} is missing or invalid: {shortened(one)}", name)
        found[name] = tuple(one) if isinstance(one, list) else one
    return EncodedAgentState(**found)
