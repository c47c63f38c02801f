"""Users' values as plain JSON values. Accepts NumPy's arrays and scalars without importing it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Final, TypeAlias

from .errors import ArgumentError

Size: TypeAlias = "int | tuple[int, ...]"

_NUMBERS: Final = frozenset({float, int})
_PLAIN: Final = frozenset({float, int, bool, list, tuple, dict, str, bytes})
_DEEPEST: Final = 32
_LONGEST: Final = 1e9
"""Seconds: a socket's timeout has nanoseconds, in 63 bits."""
_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def encode(value: Any) -> bytes:
    """Encode as JSON without blanks."""
    return _encode(value).encode("ascii")


def shortened(value: object) -> str:
    """The value's ``repr`` for an error message: one line, at most 80 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def either(value: Any, other: Any, where: str, name: str) -> Any:
    """An argument with a second name, from the original interface; None if missing.

    Raises:
        ArgumentError: it is given under both names.
    """
    if other is None:
        return value
    if value is not None:
        raise ArgumentError(f"{name} is another name of {where}: give one of them", name)
    return other


def number(value: Any, where: str) -> float:
    """A finite number."""
    if type(value) is float and math.isfinite(value):
        return value
    found = plain(value, where)
    if isinstance(found, list) and len(found) == 1:
        found = found[0]
    if type(found) not in _NUMBERS:
        raise ArgumentError(f"{where} must be a number, got {shortened(value)}", where)
    return found  # type: ignore[no-any-return]


def flag(value: Any, where: str) -> bool:
    """True or False; also NumPy's, 0 and 1."""
    if type(value) is bool:
        return value
    found = _plain_value(value)
    if found in (0, 1):
        return bool(found)
    raise ArgumentError(f"{where} must be True or False, got {shortened(value)}", where)


def action(value: Any, where: str) -> list[Any]:
    """An action in JSON form: always a list."""
    found = [value] if type(value) is int else plain(value, where, flags=False)
    return [found] if type(found) in _NUMBERS else found


def key(value: Any) -> str:
    """The name of a step, as a header can carry it; a header loses blanks at its ends."""
    found = str(value) if isinstance(value, int) else value
    if not isinstance(found, str) or not 1 <= len(found) <= 255 or not found.isascii() or not found.isprintable():
        raise ArgumentError(f"key must be 1 to 255 printable ASCII characters, got {shortened(value)}", "key")
    if found != found.strip():
        raise ArgumentError(f"key must not begin or end with a blank, got {shortened(value)}", "key")
    return found


def duration(value: Any, where: str, *, zero: bool) -> float:
    """Check seconds; ``zero``: whether they may be 0."""
    found = number(value, where)
    if found < 0 or (found == 0 and not zero) or found > _LONGEST:
        least = "of at least" if zero else "above"
        raise ArgumentError(f"{where} must be seconds {least} 0, and at most {_LONGEST:g}, got {found!r}", where)
    return found


def plain(value: Any, where: str, *, flags: bool = True, depth: int = 0) -> Any:
    """Numbers in lists of any depth; mappings with strings as keys.

    Args:
        value: the value given.
        where: its name in errors.
        flags: whether to accept True and False as 1 and 0.
        depth: its depth.
    """
    kind = type(value)
    if kind in _NUMBERS:
        return _finite(value, where)
    if kind is bool and flags:
        return int(value)
    if (kind is list or kind is tuple) and _flat(value):
        return list(value)
    if depth > _DEEPEST:
        raise ArgumentError(f"{where} is nested too deep", where)
    if kind not in _PLAIN:
        value = _plain_value(value)
    if type(value) in _NUMBERS or type(value) is bool:
        if type(value) is not kind:
            return plain(value, where, flags=flags, depth=depth + 1)
    elif isinstance(value, Mapping):
        items = value.items()
        return {str(key): plain(item, f"{where}.{key}", flags=flags, depth=depth + 1) for key, item in items}
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray | set | frozenset):
        return [plain(item, f"{where}[{k}]", flags=flags, depth=depth + 1) for k, item in enumerate(value)]
    raise ArgumentError(f"{where} must be a number or numbers, got {shortened(value)}", where)


def setting(value: Any, where: str) -> Any:
    """A hyperparameter: values of :func:`plain`; strings, True, False and None unchanged."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): setting(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [setting(item, f"{where}[{k}]") for k, item in enumerate(value)]
    unwrapped = _plain_value(value)
    return unwrapped if type(unwrapped) is bool else plain(unwrapped, where)


def rows(columns: Mapping[str, Any]) -> int:
    """The common length of the columns of a batch; ArgumentError if their lengths differ."""
    first, count = next(iter(columns)), 0
    for name, column in columns.items():
        if not isinstance(column, list | tuple):
            raise ArgumentError(f"{name} must be a list, got {shortened(column)}", name)
        count = len(column) if name == first else count
        if len(column) != count:
            raise ArgumentError(f"{name} must have as many entries as {first}, {count}; got {len(column)}", name)
    return count


def column(value: Any) -> Any:
    """A column of a batch as a list, if it can be one."""
    if isinstance(value, list | tuple):
        return value
    found = _plain_value(value)
    is_list = isinstance(found, Iterable) and not isinstance(found, str | bytes | Mapping | set | frozenset)
    return list(found) if is_list else found


def _flat(value: Sequence[Any]) -> bool:
    """Whether all are numbers and certainly finite; an overflowing sum needs a closer look."""
    if not _NUMBERS.issuperset(map(type, value)):
        return False
    try:
        return math.isfinite(sum(value))
    except OverflowError:
        return False


def _finite(value: Any, where: str) -> Any:
    try:
        if math.isfinite(value):
            return value
    except OverflowError:
        pass
    raise ArgumentError(f"{where} must be a finite number, got {shortened(value)}", where)


def _plain_value(value: Any) -> Any:
    """Python's value of an array or scalar of NumPy or similar; numbers of other classes as int or float."""
    if hasattr(value, "tolist"):
        found = value.tolist()
    elif hasattr(value, "__array__"):
        found = value.__array__().tolist()
    elif hasattr(value, "item"):
        found = value.item()
    else:
        found = value
    if isinstance(found, Integral) and type(found) not in _PLAIN:
        return int(found)
    return float(found) if isinstance(found, Real) and type(found) not in _PLAIN else found
