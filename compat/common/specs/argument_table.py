"""Arguments of a specification: one table says their names, how each is read, and its default."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

from .. import refusals
from .tables import REQUIRED, Check


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument: how it is read, and its default, in its final type: one of JSON's."""

    read: Check
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
    refusals.known(where, given, table)
    values: dict[str, Any] = {}
    for name, argument in table.items():
        place = f"{where}[{name!r}]"
        if name in given:
            values[name] = argument.read(place, given[name])
        elif argument.default is REQUIRED:
            refusals.refuse(place, f"is missing: {owner} needs it", None)
        else:
            values[name] = argument.default
    return values
