"""Checks of the parameters of axonrl's algorithms in JSON values, with the limits of a service."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from ...core import checks, schedules
from ...core.errors import ArgumentError
from ...core.schedules import parameter_checks
from ...core.schedules.parameter_checks import Check

MOST: Final = 2**31 - 1
"""Maximum of integers without their own limit."""
_LONGEST: Final = 100
"""Characters of a name."""
MAX_LAYERS: Final = 4
MAX_UNITS: Final = 1024
_MAX_BOUNDARIES: Final = 100
"""Maximum boundaries of a piecewise schedule: each is an op of the program."""

Form = Mapping[str, Any]


def convert(form: Form, name: str, value: Any) -> Any:
    """Convert a value to its final JSON form.

    Args:
        form: form of the check, from ``core/schedules/parameter_checks.py``.
        name: the argument's name, for messages.
        value: the value given.

    Raises:
        ArgumentError: the value is not allowed.
    """
    kind = form["kind"]
    if kind == "or_word" and value != form["word"] and (form["word"] is None or not isinstance(value, str)):
        return convert(form["check"], name, value)
    check = parameter_checks.of_form({**form, "at_most": form.get("at_most", MOST)} if kind == "integer" else form)
    if kind == "sizes":
        return _sizes(check, name, value)
    if kind == "schedule":
        return _schedule(check, name, value)
    if kind == "text" and isinstance(value, str) and len(value) > _LONGEST:
        raise ArgumentError(f"{name} must be a name, got {checks.shortened(value)}", name, value)
    return check.convert(name, value)


def allowed_values(form: Form) -> str:
    """Description of the allowed values."""
    kind = form["kind"]
    if kind == "sizes":
        return f"a list of at most {MAX_LAYERS} integers in 1 .. {MAX_UNITS}"
    if kind == "sampler":
        return "uniform, prioritized, or a mapping with kind, alpha, beta and epsilon"
    if kind == "or_word":
        return f"{allowed_values(form['check'])} or {'null' if form['word'] is None else form['word']}"
    return parameter_checks.of_form(form).allowed.replace("`", "")


def _sizes(check: Check, name: str, value: Any) -> list[int]:
    """A list of sizes; also as a string, ``"64, 64"``, as the original's hyperparameters are numbers and strings."""
    given = value
    if isinstance(value, str):
        value = [int(part) if part.isdecimal() else part for part in _parts(value)]
    if not isinstance(value, list | tuple) or len(value) > MAX_LAYERS:
        text = f"{name} must be a list of at most {MAX_LAYERS} layer sizes, got {checks.shortened(given)}"
        raise ArgumentError(text, name, given)
    found = [*check.convert(name, value)]
    if max(found, default=0) > MAX_UNITS:
        message = f"{name} must have at most {MAX_UNITS} units in a layer, got {checks.shortened(given)}"
        raise ArgumentError(message, name, given)
    return found


def _parts(text: str) -> list[str]:
    return [part for part in (part.strip() for part in text[:100].strip(" ()[]").split(",")) if part]


def _schedule(check: Check, name: str, value: Any) -> Any:
    if isinstance(value, Mapping) and any(isinstance(v, list) and len(v) > _MAX_BOUNDARIES for v in value.values()):
        raise ArgumentError(f"{name} may have at most {_MAX_BOUNDARIES} boundaries", name, value)
    made = schedules.make_schedule(check.convert(name, value), name)
    if schedules.follows_run(made):
        message = f"{name} cannot follow the run (over: run), since a hosted agent has no end: give a duration"
        raise ArgumentError(message, name, value)
    found = schedules.as_value(made)
    if isinstance(found, dict) and not all(map(_is_finite, found.values())):
        raise ArgumentError(f"{name} must have finite numbers, got {checks.shortened(value)}", name, value)
    return found


def _is_finite(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)
