"""Checks of user-supplied values. Each returns the value in its final type or raises an ArgumentError."""

from __future__ import annotations

import difflib
import json
import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any, Final

import numpy as np

from .errors import ArgumentError, NonFiniteError
from .trees import named_arrays

INT64_MAX: Final = 2**63 - 1
"""The largest integer that arrays and files hold."""
FLOAT32_MAX: Final = float(np.finfo(np.float32).max)
"""The largest number that a float32 holds."""


def number(
    name: str, value: Any, *, above: float = -math.inf, at_least: float = -math.inf, at_most: float = math.inf
) -> float:
    """A finite number within bounds; ``above`` is exclusive. Booleans are refused.

    ``name`` is the argument's name in the message and the error, here and below: ``"Linear.start"``.
    """
    if not isinstance(value, bool) and isinstance(value, Real):
        converted = _as_float(value)
        if math.isfinite(converted) and above < converted and at_least <= converted <= at_most:
            return converted
    bounds = {"above": above, "of at least": at_least, "of at most": at_most}
    wanted = " and".join(f" {words} {bound_text(bound)}" for words, bound in bounds.items() if math.isfinite(bound))
    raise ArgumentError(f"{name} must be a finite number{wanted}, got {shortened(value)}", name, value)


def bound_text(bound: float) -> str:
    """A bound for a message: an integer with all its digits, unless they are many."""
    return f"{bound:,.0f}" if float(bound).is_integer() and abs(bound) < 1e15 else f"{bound:g}"


def _as_float(value: Real) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer of hundreds of digits
        return math.inf


def count(name: str, value: Any, *, at_most: int = INT64_MAX) -> int:
    """An integer of at least 1, by the rules of :func:`integer`, so ``1e4`` is valid."""
    return integer(name, value, at_least=1, at_most=at_most)


def integer(name: str, value: Any, *, at_least: int, at_most: int = INT64_MAX) -> int:
    """An integer within bounds; also a float with an integer value (``1e6`` in a YAML file)."""
    is_integer = isinstance(value, Integral) or (isinstance(value, float | np.floating) and value.is_integer())
    if is_integer and not isinstance(value, bool) and at_least <= value <= at_most:
        return int(value)
    bound = f"most {at_most:,}" if is_integer and value > at_most else f"least {at_least}"
    raise ArgumentError(f"{name} must be an integer of at {bound}, got {shortened(value)}", name, value)


def flag(name: str, value: Any) -> bool:
    """True or false, also NumPy's."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise ArgumentError(f"{name} must be true or false, got {shortened(value)}", name, value)


def choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """One of a set of names; the message suggests the nearest and lists all."""
    choices = list(choices)
    if isinstance(value, str) and value in choices:
        return value
    raise ArgumentError(
        f"{name} must be one of {', '.join(choices)}; got {shortened(value)}{did_you_mean(value, choices)}", name, value
    )


def did_you_mean(value: Any, choices: Iterable[str]) -> str:
    """``" (did you mean 'adam'?)"`` for the nearest choice; empty if none is near."""
    found = nearest(value, choices)
    return f" (did you mean {found!r}?)" if found is not None else ""


def nearest(value: Any, choices: Iterable[str]) -> str | None:
    """The choice most similar to a value, preferably one that begins with it; failing that, one that it abbreviates.

    Returns:
        None if none is near.
    """
    given, names = _text(str, value)[:200], [str(name) for name in choices]  # longer ones are slow to compare
    near = difflib.get_close_matches(given, names) or difflib.get_close_matches(given.lower(), names)
    near = near or [name for name in names if "_" in name and _initials(name) == given.lower()]  # lr: learning_rate
    return next((name for name in near if name.startswith(given)), near[0] if near else None)


def _initials(name: str) -> str:
    return "".join(word[:1] for word in name.lower().split("_"))


def all_finite(array: Any) -> bool:
    """Whether all numbers of a float array are finite. A search for a zero byte beats ``all()`` on short arrays."""
    return 0 not in np.isfinite(array).tobytes()


def length_of(name: str, episode: Any) -> int:
    """Number of timesteps T of an episode; ArgumentError about ``name`` if it is not made of arrays [T, ...]."""
    if not isinstance(episode, Mapping):
        raise ArgumentError(f"{name} must be a mapping of arrays, got {type(episode).__name__}", name, episode)
    lengths = {key: len(array) if array.ndim else 0 for key, array in named_arrays(episode)}
    length = next(iter(lengths.values()), 0)
    if not length or {*lengths.values()} != {length}:
        told = ", ".join(f"{key} {given}" for key, given in lengths.items()) or "none"
        raise ArgumentError(f"the arrays of {name} must have one length of at least 1, got {told}", name, episode)
    return length


def check_episodes(name: str, given: Any) -> list[Mapping[str, Any]]:
    """Check a caller's episodes like those of a file: all numbers are finite; the last timestep ends its episode.

    Raises:
        ArgumentError: they are not episodes, or hold NaN or infinity; the message calls them ``name``.
    """
    if isinstance(given, Mapping | bytes) or not isinstance(given, Iterable):
        message = f"{name} must be a file, a folder, or a list of episodes, got {shortened(given)}"
        raise ArgumentError(message, name, given)
    episodes: list[Mapping[str, Any]] = []
    for index, episode in enumerate(given):
        one = f"{name}[{index}]"
        length_of(one, episode)
        for key, array in named_arrays(episode):
            if array.dtype.kind == "f" and not all_finite(array):
                raise ArgumentError(f"{key} of {one} is NaN or infinite", one, episode)
        ended = dict(episode)
        if "truncated" in episode:
            ended["truncated"] = np.array(episode["truncated"], np.bool_)
            ended["truncated"][-1:] |= not np.any(episode.get("terminated", ())[-1:])
        episodes.append(ended)
    return episodes


def refuse_non_finite(weights: Mapping[str, Any], where: str) -> None:
    """Raise ``NonFiniteError`` if a weight is NaN or infinite; names the first one."""
    for name, value in weights.items():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise NonFiniteError(f"the weight {name} is NaN or infinite {where}")


def shortened(value: object) -> str:
    """The value's ``repr`` for an error message: one line, at most 80 characters."""
    text = " ".join(_text(repr, value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def counted(number: int, noun: str) -> str:
    """The number with its noun: ``1 seed``, ``1,000 seeds``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _text(write: Any, value: object) -> str:
    try:
        text: str = write(value)
    except Exception:  # an integer with more digits than Python writes, or a user's object
        kind = type(value).__name__
        text = f"{kind} of {value.bit_length():,} bits" if isinstance(value, int) else f"{kind} without a text"
    return text


def plain(value: Any) -> Any:
    """Convert NumPy's numbers, booleans, strings and arrays to Python values and lists, for JSON.

    Dictionaries, lists and tuples are converted too. Anything else, or a container without NumPy values, is returned
    unchanged.
    """
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist() if value.dtype.kind in "biufU" else value
    if type(value) not in (dict, list, tuple):
        return value
    items = [*value.values()] if type(value) is dict else value
    made = [*map(plain, items)]
    if all(map(operator.is_, made, items)):
        return value
    return dict(zip(value, made, strict=True)) if type(value) is dict else type(value)(made)


def as_json(value: Any, convert: Callable[[Any], Any]) -> Any:
    """Convert a value for JSON: None, numbers, text, and lists of these, also NumPy's; ``convert`` handles the rest."""
    value = plain(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return [as_json(item, convert) for item in value] if isinstance(value, list | tuple) else convert(value)


def is_json(value: Any) -> bool:
    """Whether JSON can hold this value; a tuple counts as a list."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_json(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(is_json(item) for item in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, (bool, int, str))


def same_json(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal at every depth, types included: a function may tell 1, 1.0 and True apart."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def physical_memory() -> int | None:
    """Bytes of this machine's memory; None if the system does not report it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
