"""Describe a memory as an experiment file does, so that another process can make one like it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from ..core import registry, schedules
from ..core.checks import as_json
from ..core.errors import ArgumentError
from .sampler_kinds import KINDS


def arguments_of(memory: Any) -> dict[str, Any] | None:
    """``kind`` and the arguments of a memory, as JSON values; for a view of its parts, those of the ``whole``.

    The arguments are read from attributes of the same names.

    Returns:
        None if the class cannot be imported by a name, or JSON cannot hold one of the values.
    """
    memory = getattr(memory, "whole", memory)
    kind = registry.name_of(type(memory))
    try:
        return None if kind is None else {"kind": kind, **_arguments(memory)}
    except (AttributeError, ArgumentError):
        return None


def without_path(described: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Arguments of a memory without the folder of its arrays, which belongs to one run."""
    return None if described is None else {name: value for name, value in described.items() if name != "path"}


def made_from(described: Mapping[str, Any]) -> Any:
    """Make a memory from the result of :func:`arguments_of`.

    Raises:
        ArgumentError: the kind is unknown or cannot be imported, or an argument does not fit.
    """
    arguments = dict(described)
    return registry.find("memory", arguments.pop("kind"))(**arguments)


def like(memory: Any, **changes: Any) -> Any:
    """A new memory, not built, with the arguments of another one, except for ``changes``.

    Raises:
        ArgumentError: an argument cannot be read, or a change is invalid.
    """
    return type(memory)(**{**_arguments(memory), **changes})


def _arguments(made: Any) -> dict[str, Any]:
    return {name: as_json(getattr(made, name), _to_json) for name in inspect.signature(type(made)).parameters}


def _to_json(value: Any) -> Any:
    """A sampler or a schedule as a mapping."""
    for kind, one in KINDS.items():
        if type(value) is one:
            return {"kind": kind, **_arguments(value)}
    return schedules.as_value(value)
