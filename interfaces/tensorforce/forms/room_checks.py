"""What an argument of a module or an agent may be: each check takes its place and value, and returns its final one."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ....checks import shortened
from ..values import errors
from ..values.errors import refuse
from .opening import ABSENT, Argument, Check, Entry, Room, opened

EPISODE: Final = "episode"
"""A horizon as long as the longest episode."""
NEVER: Final = "never"
"""A frequency that never comes."""

IGNORED: Final = {"summary_labels": None}
"""Arguments of modules that have no meaning here, and their defaults."""

PARAMETERS: Final = Room(
    "parameter",
    {
        "constant": Entry((Argument("value"),), open=True),
        "decaying": Entry(open=True),
        "piecewise_constant": Entry(open=True),
        "random": Entry(open=True),
        "ornstein_uhlenbeck": Entry(open=True),
    },
    default="constant",
    alone="a number",
    refused={
        "exponential": "use dict(type='decaying', decay='exponential', ...)",
        "linear": "use dict(type='decaying', decay='linear', ...)",
        "polynomial": "use dict(type='decaying', decay='polynomial', ...)",
    },
)
"""The parameters, whose own arguments parameters.py reads."""


def parameter(
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    at_most: float = math.inf,
    is_whole: bool = False,
    words: tuple[str, ...] = (),
) -> Check:
    """A number within bounds, a parameter as a dictionary with ``type``, or one of some words.

    Args:
        above: bound of the number, exclusive.
        at_least: bound of the number.
        at_most: bound of the number.
        is_whole: the number must be an integer.
        words: strings that are kept.
    """

    def check(where: str, value: Any) -> Any:
        if isinstance(value, str) and value in words:
            return value
        if isinstance(value, str | Mapping):
            name, arguments = opened(where, value, PARAMETERS)
            if name != "constant":
                return {"type": name, **as_json(where, arguments)}
            if "value" not in arguments:
                refuse(f"{where}['value']", "is missing: a constant needs its value", None)
            where, value = f"{where}['value']", arguments["value"]
        value = value.item() if isinstance(value, np.generic) else value
        if is_whole:
            return errors.integer(where, value, at_least=int(at_least))
        errors.number(where, value, above=above, at_least=at_least, at_most=at_most)
        return value

    return check


def whole(at_least: int) -> Check:
    """An integer that stays the same: of shapes and loops."""

    def check(where: str, value: Any) -> int:
        return errors.integer(where, _constant(where, value), at_least=at_least)

    return check


def real(*, above: float = -math.inf, at_least: float = -math.inf, at_most: float = math.inf) -> Check:
    """A number that stays the same."""

    def check(where: str, value: Any) -> float:
        return errors.number(where, _constant(where, value), above=above, at_least=at_least, at_most=at_most)

    return check


def one_of(*names: str) -> Check:
    """One of some names."""
    return lambda where, value: errors.choice(where, value, names)


def flag(where: str, value: Any) -> bool:
    """True or False."""
    return errors.flag(where, value)


def text(where: str, value: Any) -> str:
    """A string that is not empty."""
    if not isinstance(value, str) or not value:
        refuse(where, f"must be a name, got {shortened(value)}", value)
    return value


def or_none(check: Check) -> Check:
    """None, or what ``check`` takes."""
    return lambda where, value: None if value is None else check(where, value)


def or_false(check: Check) -> Check:
    """False, or what ``check`` takes."""
    return lambda where, value: False if value is False else check(where, value)


def several(check: Check, *, count: int | None = None) -> Check:
    """A list of what ``check`` takes."""

    def check_all(where: str, value: Any) -> list[Any]:
        values = value.tolist() if isinstance(value, np.ndarray) else value
        if not isinstance(values, list | tuple) or (count is not None and len(values) != count):
            refuse(where, f"must be a list{f' of {count}' if count is not None else ''}, got {shortened(value)}", value)
        return [check(f"{where}[{index}]", one) for index, one in enumerate(values)]

    return check_all


def one_or_several(check: Check, *, count: int | None = None) -> Check:
    """What ``check`` takes, or a list of it."""
    many = several(check, count=count)
    return lambda where, value: (many if isinstance(value, list | tuple | np.ndarray) else check)(where, value)


def by_name(check: Check) -> Check:
    """What ``check`` takes, or a dictionary of it by name."""

    def check_all(where: str, value: Any) -> Any:
        if not isinstance(value, Mapping) or "type" in value:
            return check(where, value)
        return {name: check(f"{where}[{name!r}]", one) for name, one in errors.mapping(where, value).items()}

    return check_all


def frequency(where: str, value: Any) -> Any:
    """How many timesteps or episodes lie between two updates, ``never``, or None. Floats mean fractions in 0.6."""
    if isinstance(value, float):
        refuse(where, f"must be a number of timesteps or episodes, as an int, or 'never'; got {value!r}", value)
    return or_none(parameter(at_least=1, is_whole=True, words=(NEVER,)))(where, value)


def fed(name: str, default: Any, check: Check) -> Argument:
    """An argument that may change from update to update."""
    return Argument(name, default, check, fed=True)


def keyword_arguments(checks: Mapping[str, Check]) -> tuple[Argument, ...]:
    """Arguments that are left out where they are not given."""
    return tuple(Argument(name, ABSENT, check) for name, check in checks.items())


def as_json(where: str, value: Any) -> Any:
    """The value in JSON's types: tuples and arrays become lists, NumPy's numbers Python's, paths strings.

    Raises:
        TensorforceError: it has a part that JSON has no type for, such as a function.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return as_json(where, value.tolist())
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {key: as_json(f"{where}[{key!r}]", part) for key, part in errors.mapping(where, value).items()}
    if not isinstance(value, list | tuple | set | frozenset | range):
        refuse(where, f"cannot be written as JSON: {shortened(value)}", value)
    return [as_json(f"{where}[{index}]", part) for index, part in enumerate(value)]


def _constant(where: str, value: Any) -> Any:
    """The number of a constant; parameters that change are refused."""
    if not isinstance(value, Mapping):
        return value.item() if isinstance(value, np.generic) else value
    if value.get("type", "constant") != "constant" or "value" not in value:
        refuse(where, f"must be a number, which stays the same; got {shortened(value)}", value)
    return value["value"]
