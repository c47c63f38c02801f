"""Checks of the hooks' constructor arguments, which may come from a YAML file."""

from __future__ import annotations

import math
import numbers


def count(name: str, value: object) -> int:
    """An integer of at least 1.

    Args:
        name: the argument, as in ``"StopAtStep(step)"``.
        value: what was given.

    Raises:
        ValueError: it is anything else.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
    return int(value)


def optional_count(name: str, value: object) -> int | None:
    """An integer of at least 1, or None. Arguments and errors as for :func:`count`."""
    if value is None:
        return None
    return count(name, value)


def number(name: str, value: object) -> float:
    """A finite number. Arguments and errors as for :func:`count`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return float(value)


def seconds(name: str, value: object) -> float:
    """A finite number above 0. Arguments and errors as for :func:`count`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < float(value) < math.inf:
        raise ValueError(f"{name} must be a positive, finite number of seconds, got {value!r}")
    return float(value)


def optional_seconds(name: str, value: object) -> float | None:
    """A finite number above 0, or None. Arguments and errors as for :func:`count`."""
    if value is None:
        return None
    return seconds(name, value)
