"""Arguments of a specification: one table says their names, how each is read, and its default."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from ...errors import ArgumentError
from .refusals import Refusals

_refusals = Refusals(ArgumentError)
_refuse = _refusals.refuse

Reader: TypeAlias = Callable[[str, Any], Any]
"""Takes the place of an argument (``"exploration['scale']"``) and what was given.

It returns that in its final type, one of JSON's, or raises an ArgumentError.
"""
REQUIRED: Final = object()
"""The default of an argument that has none."""


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument: how it is read, and its default, in its final type."""

    read: Reader
    default: Any = REQUIRED


Arguments: TypeAlias = Mapping[str, Argument]
"""What a module takes."""


def read_arguments(where: str, given: Mapping[str, Any], table: Arguments, owner: str) -> dict[str, Any]:
    """Every argument of the table, with the defaults of those that were not given.

    Args:
        where: the place of the specification, for messages.
        given: the specification, without its ``type``.
        table: what is allowed.
        owner: who takes the arguments, for messages: ``"a clipping layer"``.

    Raises:
        ArgumentError: one is unknown, missing or invalid.
    """
    _refusals.known(where, given, table)
    values: dict[str, Any] = {}
    for name, argument in table.items():
        place = f"{where}[{name!r}]"
        if name in given:
            values[name] = argument.read(place, given[name])
        elif argument.default is REQUIRED:
            _refuse(place, f"is missing: {owner} needs it", None)
        else:
            values[name] = argument.default
    return values


def real(*, above: float = -math.inf, at_least: float = -math.inf, at_most: float = math.inf) -> Reader:
    """A finite number within bounds."""
    return lambda place, value: _refusals.number(place, value, above=above, at_least=at_least, at_most=at_most)


def whole(at_least: int) -> Reader:
    """An integer."""
    return lambda place, value: _refusals.integer(place, value, at_least=at_least)


def one_of(names: Iterable[str]) -> Reader:
    """One of some names."""
    return lambda place, value: _refusals.choice(place, value, names)


def optional(read: Reader) -> Reader:
    """None, or what ``read`` takes."""
    return lambda place, value: None if value is None else read(place, value)


def several(read: Reader, what: str) -> Reader:
    """A list of what ``read`` takes; ``what`` they are, for messages."""

    def read_all(place: str, value: Any) -> list[Any]:
        if not isinstance(value, list | tuple):
            _refuse(place, f"must be a list of {what}, got {value!r}", value)
        return [read(f"{place}[{index}]", one) for index, one in enumerate(value)]

    return read_all


def anything(place: str, value: Any) -> Any:
    """Whatever it is."""
    return value
