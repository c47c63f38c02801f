"""Checks of arguments of modules and agents: each takes an argument's place and value, and returns its final value."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ....core.checks import shortened
from .. import refusals
from ..refusals import mapping, refuse
from .tables import ABSENT, Argument, Check


def integer(at_least: int) -> Check:
    """An integer."""
    return lambda where, value: refusals.integer(where, unbox(value), at_least=at_least)


def real(*, above: float = -math.inf, at_least: float = -math.inf, at_most: float = math.inf) -> Check:
    """A finite number."""

    def check(where: str, value: Any) -> float:
        return refusals.number(where, unbox(value), above=above, at_least=at_least, at_most=at_most)

    return check


def one_of(*names: str) -> Check:
    """One of the given names."""
    return lambda where, value: refusals.choice(where, value, names)


def anything(where: str, value: Any) -> Any:
    """Any value."""
    return value


flag = refusals.flag


def text(where: str, value: Any) -> str:
    """A non-empty string."""
    if not isinstance(value, str) or not value:
        refuse(where, f"must be a name, got {shortened(value)}", value)
    return value


@dataclasses.dataclass(frozen=True)
class Only:
    """The check of an argument with a single supported value."""

    accepted: Any
    reason: str

    def __call__(self, where: str, value: Any) -> Any:
        """The value; ArgumentError for any other."""
        if value != self.accepted:
            refuse(where, f"must be {self.accepted!r}: {self.reason}; got {shortened(value)}", value)
        return value


def categories(where: str, value: Any) -> Any:
    """A flag for one-hot encoding of ints, their number of categories, or None."""
    return value if value is None or isinstance(value, bool) else integer(2)(where, value)


def or_none(check: Check) -> Check:
    """None, or a value that passes ``check``."""
    return lambda where, value: None if value is None else check(where, value)


def or_false(check: Check) -> Check:
    """False, or a value that passes ``check``."""
    return lambda where, value: False if value is False else check(where, value)


def several(check: Check, what: str = "", *, count: int | None = None) -> Check:
    """A list of values that pass ``check``; ``what`` names them in messages."""
    wanted = " ".join(str(word) for word in (count, what) if word)

    def check_all(where: str, value: Any) -> list[Any]:
        values = value.tolist() if isinstance(value, np.ndarray) else value
        if not isinstance(values, list | tuple) or (count is not None and len(values) != count):
            refuse(where, f"must be a list{f' of {wanted}' if wanted else ''}, got {shortened(value)}", value)
        return [check(f"{where}[{index}]", one) for index, one in enumerate(values)]

    return check_all


def one_or_several(check: Check, *, count: int | None = None) -> Check:
    """Check of one value or each of a list."""
    many = several(check, count=count)
    return lambda where, value: (many if isinstance(value, list | tuple | np.ndarray) else check)(where, value)


def by_name(check: Check) -> Check:
    """Check of one value or each value of a dictionary."""

    def check_all(where: str, value: Any) -> Any:
        if not isinstance(value, Mapping) or "type" in value:
            return check(where, value)
        return {name: check(f"{where}[{name!r}]", one) for name, one in mapping(where, value).items()}

    return check_all


def keyword_arguments(checks: Mapping[str, Check]) -> tuple[Argument, ...]:
    """Arguments that are omitted if not given."""
    return tuple(Argument(name, ABSENT, check) for name, check in checks.items())


def as_json(where: str, value: Any) -> Any:
    """The value in JSON types: tuples and arrays become lists, NumPy numbers Python numbers, paths strings.

    Raises:
        ArgumentError: a part of it, such as a function, has no JSON type.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return as_json(where, value.tolist())
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {key: as_json(f"{where}[{key!r}]", part) for key, part in mapping(where, value).items()}
    if not isinstance(value, list | tuple | set | frozenset | range):
        refuse(where, f"cannot be written as JSON: {shortened(value)}", value)
    return [as_json(f"{where}[{index}]", part) for index, part in enumerate(value)]


def unbox(value: Any) -> Any:
    """Convert a NumPy number to Python's; return anything else unchanged."""
    return value.item() if isinstance(value, np.generic) else value
