"""Checks of parameters: allowed values with a description, a conversion, and a JSON form that :func:`of_form` reads."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from .. import checks
from ..errors import ArgumentError
from . import KINDS, ScheduleLike, make_schedule


class Check(NamedTuple):
    """Allowed values of a parameter."""

    allowed: str
    """Description for the table."""
    convert: Callable[[str, Any], Any]
    """Converts the value given to its final type; also takes the name, and raises ArgumentError."""
    form: Mapping[str, Any]
    """JSON form for :func:`of_form`: the function below, and its arguments."""


def real(*, above: float = -math.inf, at_least: float = -math.inf, at_most: float = math.inf) -> Check:
    """A finite number within bounds."""

    def convert(name: str, value: Any) -> float:
        return checks.number(name, value, above=above, at_least=at_least, at_most=at_most)

    form = {"kind": "real", **_finite(above=above, at_least=at_least, at_most=at_most)}
    return Check(f"a number{_bounds(above, at_least, at_most)}", convert, form)


def integer(*, at_least: int, at_most: int | None = None) -> Check:
    """An integer; ``64.0`` is one."""
    bounds = {"at_least": at_least} if at_most is None else {"at_least": at_least, "at_most": at_most}

    def convert(name: str, value: Any) -> int:
        return checks.integer(name, value, **bounds)

    return Check(f"an integer{_bounds(**bounds)}", convert, {"kind": "integer", **bounds})


def one_of(names: Iterable[str], allowed: str = "") -> Check:
    """One of these names; ``allowed`` replaces a long list of them in the table."""
    names = list(names)
    listed = ", ".join(f"`{name}`" for name in names)
    form = {"kind": "one_of", "names": names}
    return Check(allowed or listed, lambda name, value: checks.choice(name, value, names), form)


def flag() -> Check:
    """True or false."""
    return Check("`true`, `false`", checks.flag, {"kind": "flag"})


def text() -> Check:
    """A string that is not empty."""

    def convert(name: str, value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise ArgumentError(f"{name} must be a name, got {value!r}", name, value)
        return value

    return Check("a name", convert, {"kind": "text"})


def sizes() -> Check:
    """The sizes of consecutive layers; an empty list means no layer."""

    def convert(name: str, value: Any) -> tuple[int, ...]:
        if not isinstance(value, (list, tuple)):
            raise ArgumentError(f"{name} must be a list of layer sizes, got {value!r}", name, value)
        return tuple(checks.integer(name, size, at_least=1) for size in value)

    return Check("a list of integers >= 1", convert, {"kind": "sizes"})


def schedule(*, at_least: float = -math.inf, at_most: float = math.inf) -> Check:
    """A number or a schedule; kept as given."""

    def convert(name: str, value: Any) -> ScheduleLike:
        try:
            make_schedule(value, name, at_least=at_least, at_most=at_most)
        except ValueError as error:
            raise ArgumentError(str(error), name, value) from error
        return value  # type: ignore[no-any-return] # make_schedule has refused everything else

    form = {"kind": "schedule", **_finite(at_least=at_least, at_most=at_most)}
    return Check(f"a number{_bounds(at_least=at_least, at_most=at_most)} or a schedule", convert, form)


def optional(check: Check) -> Check:
    """A value that ``check`` allows, or ``None``."""
    return or_word(check, None)


def or_word(check: Check, word: str | None) -> Check:
    """A value that ``check`` allows, or a word instead."""

    def convert(name: str, value: Any) -> Any:
        if value == word and type(value) is type(word):
            return value
        return checks.choice(name, value, [word]) if word and isinstance(value, str) else check.convert(name, value)

    form = {"kind": "or_word", "word": word, "check": check.form}
    return Check(f"{check.allowed} or {value_text(word)}", convert, form)


def _finite(**bounds: float) -> dict[str, float]:
    return {name: bound for name, bound in bounds.items() if math.isfinite(bound)}


def of_form(form: Mapping[str, Any]) -> Check:
    """The check with this JSON form."""
    kind, arguments = form["kind"], {name: value for name, value in form.items() if name != "kind"}
    if kind == "or_word":
        return or_word(of_form(form["check"]), form["word"])
    return _OF_KIND[kind](**arguments)


_OF_KIND: Final[Mapping[str, Callable[..., Check]]] = {
    "real": real,
    "integer": integer,
    "one_of": one_of,
    "flag": flag,
    "text": text,
    "sizes": sizes,
    "schedule": schedule,
}


def _bounds(above: float = -math.inf, at_least: float = -math.inf, at_most: float = math.inf) -> str:
    bounds = {">": above, ">=": at_least, "<=": at_most}
    return ",".join(f" {sign} {bound:g}" for sign, bound in bounds.items() if math.isfinite(bound))


def value_text(value: Any) -> str:
    """Format a value as in an experiment file, in backticks."""
    match value:
        case None:
            text = "null"
        case bool():
            text = str(value).lower()
        case int() | float():
            text = _number(value)
        case tuple():
            text = str(list(value))
        case _ if (kind := _kind(value)) is not None:
            given = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            fields = {name: _number(part) for name, part in given.items() if part is not None}
            text = "{" + ", ".join(f"{name}: {part}" for name, part in {"kind": kind, **fields}.items()) + "}"
        case _:
            text = str(value)
    return f"`{text}`"


def _number(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _kind(value: Any) -> str | None:
    return next((name for name, cls in KINDS.items() if type(value) is cls), None)
