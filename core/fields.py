"""Types of the fields of JSON files: a table for each file that axonrl reads, and errors that name the field.

A table is a :data:`Kind` composed of others::

    _FILE = fields({"seed": integer(), "params": optional(mapping), "code": each(text)}, optional={"note": text})
    check(path, value, _FILE)  # ArgumentError: .../run.json: code.model_fn must be text, got 3
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeAlias

from .checks import INT64_MAX, choice, did_you_mean, flag, shortened
from .errors import ArgumentError

Kind: TypeAlias = "Callable[[str, Any], object]"
"""Check of a field: takes the field's name, for the message, and the value; raises ArgumentError."""
_DTYPES: Final = ("bool", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)), "float16", "float32", "float64")


def check(where: object, value: Any, kind: Kind) -> None:
    """Check a file's content.

    Args:
        where: the file, for the message; empty if the caller names it.
        value: its content.
        kind: its type.

    Raises:
        ArgumentError: the content has another type; names file and field. ``argument`` is the field:
            ``"action.space.n"``.
    """
    prefix = f"{where}: " if where else ""
    try:
        kind("", value)
    except ArgumentError as error:
        raise ArgumentError(f"{prefix}{error}", error.argument, error.value) from None
    except RecursionError:
        raise ArgumentError(f"{prefix}its content is nested too deeply", "") from None


def _refuse(name: str, wanted: str, value: Any) -> NoReturn:
    raise ArgumentError(f"{name or 'its content'} must be {wanted}, got {shortened(value)}", name, value)


def anything(name: str, value: Any) -> None:
    """Any JSON value."""


def text(name: str, value: Any) -> None:
    """A string."""
    if not isinstance(value, str):
        _refuse(name, "text", value)


def scalar(name: str, value: Any) -> None:
    """A number, NaN included, a boolean or a string."""
    if not isinstance(value, int | float | str):
        _refuse(name, "a number or text", value)


def number(name: str, value: Any) -> None:
    """A number, NaN and infinity included."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(name, "a number", value)


def real(name: str, value: Any) -> None:
    """A finite number."""
    number(name, value)
    if not abs(value) < math.inf:  # which is false of NaN, too
        _refuse(name, "a finite number", value)


def mapping(name: str, value: Any) -> None:
    """A mapping of names to any values."""
    if not isinstance(value, dict):
        _refuse(name, "a mapping", value)


def dtype(name: str, value: Any) -> None:
    """The name of a numeric or boolean NumPy dtype."""
    choice(name, value, _DTYPES)


def integer(at_least: int = 0) -> Kind:
    """An integer that an int64 holds."""

    def check(name: str, value: Any) -> None:
        if type(value) is not int or not at_least <= value <= INT64_MAX:
            _refuse(name, f"an integer of at least {at_least}", value)

    return check


def one_of(*choices: str) -> Kind:
    """One of these texts."""
    return lambda name, value: choice(name, value, choices)


def optional(kind: Kind) -> Kind:
    """A value of ``kind``, or null."""
    return lambda name, value: None if value is None else kind(name, value)


def each(kind: Kind) -> Kind:
    """A mapping of names to values of ``kind``."""

    def check(name: str, value: Any) -> None:
        mapping(name, value)
        for key, item in value.items():
            kind(_below(name, key), item)

    return check


def list_of(kind: Kind) -> Kind:
    """A list of values of ``kind``."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, list):
            _refuse(name, "a list", value)
        for index, item in enumerate(value):
            kind(f"{name}[{index}]", item)

    return check


def row(*kinds: Kind) -> Kind:
    """A list with one value of each of these kinds, in order."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, list) or len(value) != len(kinds):
            _refuse(name, f"a list of {len(kinds)}", value)
        for index, (kind, item) in enumerate(zip(kinds, value, strict=True)):
            kind(f"{name}[{index}]", item)

    return check


def fields(needed: Mapping[str, Kind], optional: Mapping[str, Kind] | None = None, others: Kind | None = None) -> Kind:
    """A mapping with a kind for each name.

    Args:
        needed: required names.
        optional: names that may be missing.
        others: kind of any further names; None refuses them.
    """
    known = {**needed, **(optional or {})}

    def check(name: str, value: Any) -> None:
        mapping(name, value)
        for key in needed:
            if key not in value:
                raise ArgumentError(f"{_below(name, key)} is missing", _below(name, key))
        for key, item in value.items():
            kind = known.get(key, others)
            if kind is None:
                message = f"{_below(name, key)} is an unknown field{did_you_mean(key, known)}"
                raise ArgumentError(message, _below(name, key), item)
            kind(_below(name, key), item)

    return check


def _below(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


shape: Final = list_of(integer())
"""The sizes of an array."""
spec: Final = fields({"shape": shape, "dtype": dtype})
"""Shape and dtype of an array; see :class:`axonrl.core.protocols.ArraySpec`."""


def _number(name: str, value: Any) -> None:
    if value not in ("inf", "-inf"):
        real(name, value)


def array(name: str, value: Any, sizes: Sequence[int] | None = None, kind: Kind = _number) -> None:
    """Nested lists of one shape; or one value for all elements.

    Args:
        name: the field's name.
        value: its value.
        sizes: the shape of the lists; None accepts any.
        kind: kind of each value; by default a number, where infinity is ``"inf"``.
    """
    if not isinstance(value, list):
        sizes = ()
    _array(name, value, _sizes(value) if sizes is None else sizes, kind)


def _sizes(value: Any) -> list[int]:
    """Sizes of nested lists, read from the first of each."""
    return [len(value), *_sizes(value[0] if value else None)] if isinstance(value, list) else []


def _array(name: str, value: Any, sizes: Sequence[int], kind: Kind) -> None:
    if not sizes:
        kind(name, value)
        return
    if not isinstance(value, list) or len(value) != sizes[0]:
        _refuse(name, f"a list of {sizes[0]}", value)
    for index, item in enumerate(value):
        _array(f"{name}[{index}]", item, sizes[1:], kind)


def space(name: str, value: Any) -> None:
    """A space, as :func:`axonrl.environments.spaces.to_json` describes it."""
    mapping(name, value)
    one_of(*_SPACES)(_below(name, "type"), value.get("type"))
    _SPACES[value["type"]](name, value)
    if value["type"] == "Box":
        limit = flag if value["dtype"] == "bool" else _number
        for bound, kind in (("low", limit), ("high", limit), ("bounded_below", flag), ("bounded_above", flag)):
            array(_below(name, bound), value.get(bound, True), value["shape"], kind)
    if value["type"] == "MultiDiscrete":
        for part, least in (("nvec", 1), ("start", -INT64_MAX)):
            array(_below(name, part), value[part], _sizes(value["nvec"]), integer(least))


def _size(name: str, value: Any) -> None:
    (shape if isinstance(value, list) else integer(1))(name, value)


def _key(name: str, value: Any) -> None:
    if not isinstance(value, str | int):
        _refuse(name, "a key", value)


_SPACES: Final[Mapping[str, Kind]] = {
    "Box": fields(
        {"type": text, "dtype": dtype, "shape": shape, "low": anything, "high": anything},
        {"bounded_below": anything, "bounded_above": anything},
    ),
    "Discrete": fields({"type": text, "n": integer(1), "start": integer(-INT64_MAX), "dtype": dtype}),
    "MultiDiscrete": fields({"type": text, "nvec": list_of(anything), "start": list_of(anything), "dtype": dtype}),
    "MultiBinary": fields({"type": text, "n": _size}),
    "Dict": fields({"type": text, "spaces": list_of(row(_key, space))}),
    "Tuple": fields({"type": text, "spaces": list_of(space)}),
}
