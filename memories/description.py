"""Describe a memory as an experiment file does, so that another process can make one like it."""

from __future__ import annotations

import inspect
from typing import Any

from ..core import registry, schedules
from ..core.checks import plain
from ..core.errors import ArgumentError
from .sampler_kinds import KINDS


def arguments_of(memory: Any) -> dict[str, Any] | None:
    """``kind`` and the arguments of a memory, as JSON values.

    The arguments are read from attributes of the same names.

    Returns:
        None if the class cannot be imported by a name, or a file cannot hold one of the values.
    """
    kind = registry.name_of(type(memory))
    try:
        return None if kind is None else {"kind": kind, **_arguments(memory)}
    except (AttributeError, ArgumentError):
        return None


def like(memory: Any, **changes: Any) -> Any:
    """A new memory, not built, with the arguments of another one, except for ``changes``.

    Raises:
        ArgumentError: an argument cannot be read, or a change is invalid.
    """
    return type(memory)(**{**_arguments(memory), **changes})


def _arguments(made: Any) -> dict[str, Any]:
    return {name: _as_value(getattr(made, name)) for name in inspect.signature(type(made)).parameters}


def _as_value(value: Any) -> Any:
    value = plain(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_as_value(item) for item in value]
    for kind, one in KINDS.items():
        if type(value) is one:
            return {"kind": kind, **_arguments(value)}
    return schedules.as_value(value)
