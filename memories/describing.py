"""A memory as an experiment file describes it, so that another process can make one like it."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from .. import registry, schedules
from . import samplers


def arguments_of(memory: Any) -> dict[str, Any] | None:
    """``kind`` and the arguments of a memory, as JSON values.

    A memory tells its arguments by attributes of their names.

    Returns:
        None where they cannot be told: the class cannot be imported by a name, or a value is not one that a file holds.
    """
    kind = registry.name_of(type(memory))
    try:
        return None if kind is None else {"kind": kind, **_arguments(memory)}
    except (AttributeError, TypeError):
        return None


def _arguments(made: Any) -> dict[str, Any]:
    return {name: _as_value(getattr(made, name)) for name in inspect.signature(type(made)).parameters}


def _as_value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_as_value(item) for item in value]
    if isinstance(value, schedules.Constant):
        return value.value
    for kinds in (samplers.KINDS, schedules.KINDS):
        for kind, one in kinds.items():
            if type(value) is one:
                fields = _fields(value) if dataclasses.is_dataclass(value) else _arguments(value)
                return {"kind": kind, **fields}
    raise TypeError(f"{value!r} is not a value of an experiment file")


def _fields(value: Any) -> dict[str, Any]:
    given = {field.name: (getattr(value, field.name), field.default) for field in dataclasses.fields(value)}
    return {name: _as_value(one) for name, (one, default) in given.items() if one != default}
