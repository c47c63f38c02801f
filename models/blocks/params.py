"""Declared parameters: one line each, the source of the checks, of ``from_params`` and of the tables in docs.

A group of parameters is a frozen dataclass; an algorithm's parameters inherit from the groups it needs::

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class DQNParams(OptimizerParams, NetworkParams):
        double: bool = param(True, "van Hasselt's target", flag())
        activation: str = "tanh"  # another default for a parameter of NetworkParams

``python -m axonrl.models dqn`` prints the table of an algorithm's parameters.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

from ...core import checks, schedules
from ...core.errors import ArgumentError


class Check(NamedTuple):
    """Allowed values of a parameter."""

    allowed: str
    """Description for the table."""
    convert: Callable[[str, Any], Any]
    """Converts the value given to its final type; also takes the name, and raises ArgumentError."""
    form: Mapping[str, Any]
    """JSON form for programs that do not load this module: the function below, and its arguments."""


def param(default: Any, meaning: str, check: Check) -> Any:
    """A field of a :class:`Params` class."""
    return dataclasses.field(default=default, metadata={"meaning": meaning, "check": check})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Params:
    """Base of all parameters: checks every field on construction.

    Raises:
        ArgumentError: a value is of the wrong type or out of range; ``argument`` is the field's name.
    """

    paper_update_frequency: ClassVar[int | None] = None
    """Timesteps between updates in the paper, if learning fails with far fewer updates; else None."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            given = checks.plain(getattr(self, field.name))
            value = declared(type(self), field.name)["check"].convert(field.name, given)
            object.__setattr__(self, field.name, value)


def params_of(algorithm: str) -> type[Params]:
    """The parameters' class of an algorithm, by the name of its module."""
    module = importlib.import_module(f"axonrl.models.{algorithm}")
    return next(
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Params) and value.__module__ == module.__name__
    )


ParamsT = TypeVar("ParamsT", bound=Params)


def from_params(cls: type[ParamsT], params: Mapping[str, Any] | ParamsT | None) -> ParamsT:
    """The parameters ``cls`` with some defaults replaced.

    Args:
        cls: a :class:`Params` class.
        params: name to value; an instance of ``cls``, which is returned; or ``None`` for the defaults.

    Raises:
        ArgumentError: ``params`` is none of these, a name is unknown (suggests the nearest), or a value is invalid.
    """
    if isinstance(params, cls):
        return params
    if params is None:
        return cls()
    if not isinstance(params, Mapping):
        raise ArgumentError(f"params must be a mapping or a {cls.__name__}, got {params!r}", "params", params)
    names = [field.name for field in dataclasses.fields(cls)]
    for key in params:
        if key not in names:
            hint = checks.did_you_mean(key, names)
            raise ArgumentError(f"{cls.__name__} has no {key!r}{hint}, only {', '.join(names)}", str(key), params[key])
    return cls(**params)


def table(cls: type[Params]) -> str:
    """The parameters of a class in Markdown: name, default, what is allowed, meaning."""
    rows = ["| name | default | allowed | meaning |", "|---|---|---|---|"]
    for field in dataclasses.fields(cls):
        line = declared(cls, field.name)
        rows.append(f"| `{field.name}` | {_written(field.default)} | {line['check'].allowed} | {line['meaning']} |")
    return "\n".join(rows)


def declared(cls: type[Params], name: str) -> Mapping[str, Any]:
    """Meaning and check of a parameter, inherited by a class that only changes the default."""
    fields = (vars(base).get("__dataclass_fields__", {}).get(name) for base in cls.__mro__)
    return next(field.metadata for field in fields if field is not None and field.metadata)


# -- checks -----------------------------------------------------------------------------------------------------------


def real(*, above: float = -math.inf, at_least: float = -math.inf, at_most: float = math.inf) -> Check:
    """A finite number within bounds."""

    def convert(name: str, value: Any) -> float:
        return checks.number(name, value, above=above, at_least=at_least, at_most=at_most)

    form = {"kind": "real", **_finite(above=above, at_least=at_least, at_most=at_most)}
    return Check(f"a number{_bounds(above, at_least, at_most)}", convert, form)


def whole(*, at_least: int) -> Check:
    """An integer; ``64.0`` is one."""

    def convert(name: str, value: Any) -> int:
        return checks.integer(name, value, at_least=at_least)

    return Check(f"an integer >= {at_least}", convert, {"kind": "whole", "at_least": at_least})


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

    def convert(name: str, value: Any) -> schedules.ScheduleLike:
        try:
            schedules.make_schedule(value, name, at_least=at_least, at_most=at_most)
        except ValueError as error:
            raise ArgumentError(str(error), name, value) from error
        return value  # type: ignore[no-any-return] # make_schedule has refused everything else

    form = {"kind": "schedule", **_finite(at_least=at_least, at_most=at_most)}
    return Check(f"a number{_bounds(-math.inf, at_least, at_most)} or a schedule", convert, form)


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
    return Check(f"{check.allowed} or {_written(word)}", convert, form)


def _finite(**bounds: float) -> dict[str, float]:
    return {name: bound for name, bound in bounds.items() if math.isfinite(bound)}


def _bounds(above: float, at_least: float, at_most: float) -> str:
    bounds = {">": above, ">=": at_least, "<=": at_most}
    return ",".join(f" {sign} {bound:g}" for sign, bound in bounds.items() if math.isfinite(bound))


def _written(value: Any) -> str:
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
    return next((name for name, cls in schedules.KINDS.items() if type(value) is cls), None)
