"""Checks of user-supplied values. Each returns the value in its final type or raises an ArgumentError."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

from .errors import ArgumentError


def number(
    name: str, value: Any, *, above: float = -math.inf, at_least: float = -math.inf, at_most: float = math.inf
) -> float:
    """A finite number within bounds; ``above`` is exclusive. Booleans are refused.

    ``name`` is the argument's name in the message and the error, here and below: ``"Linear.start"``.
    """
    if not isinstance(value, bool) and isinstance(value, Real):
        converted = float(value)
        if math.isfinite(converted) and above < converted and at_least <= converted <= at_most:
            return converted
    bounds = {"above": above, "of at least": at_least, "of at most": at_most}
    wanted = " and".join(f" {words} {bound:g}" for words, bound in bounds.items() if math.isfinite(bound))
    raise ArgumentError(f"{name} must be a finite number{wanted}, got {value!r}", name, value)


def count(name: str, value: Any) -> int:
    """An integer of at least 1, as :func:`integer` has it; ``1e4`` is one."""
    return integer(name, value, at_least=1)


def integer(name: str, value: Any, *, at_least: int) -> int:
    """An integer of at least ``at_least``; also a float with an integer value (``1e6`` in a YAML file)."""
    is_integer = isinstance(value, Integral) or (isinstance(value, float) and value.is_integer())
    if not is_integer or isinstance(value, bool) or value < at_least:
        raise ArgumentError(f"{name} must be an integer of at least {at_least}, got {value!r}", name, value)
    return int(value)


def choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """One of a set of names; the message suggests the nearest and lists all."""
    choices = list(choices)
    if isinstance(value, str) and value in choices:
        return value
    raise ArgumentError(
        f"{name} must be one of {', '.join(choices)}; got {value!r}{did_you_mean(value, choices)}", name, value
    )


def did_you_mean(value: Any, choices: Iterable[str]) -> str:
    """``" (did you mean 'adam'?)"`` for the nearest choice; empty if none is near."""
    found = nearest(value, choices)
    return f" (did you mean {found!r}?)" if found is not None else ""


def nearest(value: Any, choices: Iterable[str]) -> str | None:
    """The choice most similar to a value, but rather one that begins with it; else the one that it is short for.

    Returns:
        None if none is near.
    """
    given, names = str(value)[:200], [str(name) for name in choices]  # comparing takes time with longer ones
    near = difflib.get_close_matches(given, names) or difflib.get_close_matches(given.lower(), names)
    near = near or [name for name in names if "_" in name and _initials(name) == given.lower()]  # lr: learning_rate
    return next((name for name in near if name.startswith(given)), near[0] if near else None)


def _initials(name: str) -> str:
    return "".join(word[:1] for word in name.lower().split("_"))


def all_finite(array: Any) -> bool:
    """Whether all numbers of a float array are finite. Searching for a zero byte beats ``all()`` on short arrays."""
    return 0 not in np.isfinite(array).tobytes()


def shortened(value: object) -> str:
    """The value's ``repr`` for an error message: one line, at most 80 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def is_json(value: Any) -> bool:
    """Does JSON hold this value, but for tuples as tuples?"""
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_json(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(is_json(item) for item in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, (bool, int, str))
