"""The parameters of axonrl's algorithms, without TensorFlow: a table made from their dataclasses, and its checks.

``python -m axonrl.serving.catalogue`` regenerates the table; a test fails if it is outdated.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ...core import checks, schedules
from ...core.errors import ArgumentError

FILE: Final = Path(__file__).with_name("parameters.json")
MOST: Final = 2**31 - 1
"""Maximum of integers without their own limit."""
MAX_LAYERS: Final = 4
MAX_UNITS: Final = 1024
_MAX_BOUNDARIES: Final = 100
"""Maximum boundaries of a piecewise schedule: each is an op of the program."""

Form = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter: name, default in JSON values, meaning, and form of its check."""

    name: str
    default: Any
    meaning: str
    form: Form


@functools.cache
def of(algorithm: str) -> Mapping[str, Parameter]:
    """The parameters of an algorithm by name, from its dataclass in ``models/``."""
    return {row["name"]: Parameter(**row) for row in _table()[algorithm]}


@functools.cache
def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return table


def converted(form: Form, name: str, value: Any) -> Any:
    """Convert a value to its final JSON form.

    Args:
        form: form of the check, from ``models/blocks/params.py``; ``at_most`` may be added to integers.
        name: the argument's name, for messages.
        value: the value given.

    Raises:
        ArgumentError: the value is not allowed.
    """
    return _CONVERTERS[form["kind"]](form, name, value)


_WORDS: Final[Mapping[str, str]] = {
    "flag": "true, false",
    "text": "a name",
    "sizes": f"a list of at most {MAX_LAYERS} integers in 1 .. {MAX_UNITS}",
    "sampler": "uniform, prioritized, or a mapping with kind, alpha, beta and epsilon",
}


def allowed(form: Form) -> str:
    """Description of the allowed values."""
    kind = form["kind"]
    if kind in _WORDS:
        return _WORDS[kind]
    if kind == "or_word":
        return f"{allowed(form['check'])} or {'null' if form['word'] is None else form['word']}"
    if kind == "one_of":
        return ", ".join(form["names"])
    bounds = {">": form.get("above"), ">=": form.get("at_least"), "<=": form.get("at_most")}
    written = ",".join(f" {sign} {bound:g}" for sign, bound in bounds.items() if bound is not None)
    return f"{'an integer' if kind == 'whole' else 'a number'}{written}{' or a schedule' if kind == 'schedule' else ''}"


def _real(form: Form, name: str, value: Any) -> float:
    return checks.number(name, value, **{key: bound for key, bound in form.items() if key != "kind"})


def _whole(form: Form, name: str, value: Any) -> int:
    return checks.integer(name, value, at_least=form["at_least"], at_most=form.get("at_most", MOST))


def _one_of(form: Form, name: str, value: Any) -> str:
    return checks.choice(name, value, form["names"])


def _flag(form: Form, name: str, value: Any) -> bool:
    return checks.flag(name, value)


def _text(form: Form, name: str, value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 100:
        raise ArgumentError(f"{name} must be a name, got {checks.shortened(value)}", name, value)
    return value


def _sizes(form: Form, name: str, value: Any) -> list[int]:
    """A list of sizes; also as a string, ``"64, 64"``, as the original's hyperparameters are numbers and strings."""
    given = value
    if isinstance(value, str):
        value = [int(part) if part.isdecimal() else part for part in _parts(value)]
    if not isinstance(value, list | tuple) or len(value) > MAX_LAYERS:
        text = f"{name} must be a list of at most {MAX_LAYERS} layer sizes, got {checks.shortened(given)}"
        raise ArgumentError(text, name, given)
    found = [checks.integer(name, size, at_least=1) for size in value]
    if max(found, default=0) > MAX_UNITS:
        message = f"{name} must have at most {MAX_UNITS} units in a layer, got {checks.shortened(given)}"
        raise ArgumentError(message, name, given)
    return found


def _parts(text: str) -> list[str]:
    return [part for part in (part.strip() for part in text[:100].strip(" ()[]").split(",")) if part]


def _schedule(form: Form, name: str, value: Any) -> Any:
    bounds = {key: bound for key, bound in form.items() if key != "kind"}
    if isinstance(value, Mapping) and any(isinstance(v, list) and len(v) > _MAX_BOUNDARIES for v in value.values()):
        raise ArgumentError(f"{name} may have at most {_MAX_BOUNDARIES} boundaries", name, value)
    try:
        made = schedules.make_schedule(value, name, **bounds)
    except ArgumentError as error:
        raise ArgumentError(str(error), name, value) from None
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


def _or_word(form: Form, name: str, value: Any) -> Any:
    word = form["word"]
    if value is None or isinstance(value, str):
        if value == word:
            return value
        if word is not None and isinstance(value, str):
            return checks.choice(name, value, [word])
    return converted(form["check"], name, value)


_CONVERTERS: Final[Mapping[str, Callable[[Form, str, Any], Any]]] = {
    "real": _real,
    "whole": _whole,
    "one_of": _one_of,
    "flag": _flag,
    "text": _text,
    "sizes": _sizes,
    "schedule": _schedule,
    "or_word": _or_word,
}
