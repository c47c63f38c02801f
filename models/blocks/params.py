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
import functools
import importlib
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from ...core import checks, schedules
from ...core.errors import ArgumentError
from ...core.schedules.parameter_checks import (
    Check,
    flag,
    integer,
    one_of,
    optional,
    or_word,
    real,
    schedule,
    sizes,
    text,
    value_text,
)

__all__ = ["Check", "Parameter", "Params", "declared", "flag", "from_params", "one_of", "optional", "or_word", "param"]
__all__ += ["integer", "parameters_of", "params_of", "real", "schedule", "sizes", "table", "text"]


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
    """The paper's timesteps between updates, if learning fails with far fewer updates; else None."""

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


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter: name, default as a JSON value, meaning, and form of its check."""

    name: str
    default: Any
    meaning: str
    form: Mapping[str, Any]


@functools.cache
def parameters_of(algorithm: str) -> Mapping[str, Parameter]:
    """The parameters of an algorithm by name."""
    cls, found = params_of(algorithm), {}
    for field in dataclasses.fields(cls):
        line, default = declared(cls, field.name), field.default
        if type(default) in schedules.KINDS.values():
            default = schedules.as_value(default)
        default = list(default) if isinstance(default, tuple) else default
        found[field.name] = Parameter(field.name, default, line["meaning"], line["check"].form)
    return found


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
        rows.append(f"| `{field.name}` | {value_text(field.default)} | {line['check'].allowed} | {line['meaning']} |")
    return "\n".join(rows)


def declared(cls: type[Params], name: str) -> Mapping[str, Any]:
    """Meaning and check of a parameter, inherited by a class that only changes the default."""
    fields = (vars(base).get("__dataclass_fields__", {}).get(name) for base in cls.__mro__)
    return next(field.metadata for field in fields if field is not None and field.metadata)
