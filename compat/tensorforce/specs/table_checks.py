"""Checks of Tensorforce's modules: tables, parameters, and constant numbers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Final

from ....core.checks import shortened
from ...common.specs import argument_checks, tables
from ...common.specs.argument_checks import as_json, or_none, unbox
from ...common.specs.module_specs import parse_spec
from ...common.specs.tables import Argument, Check, Entry
from ..spaces import errors
from ..spaces.errors import refuse

EPISODE: Final = "episode"
"""A horizon as long as the longest episode."""
NEVER: Final = "never"
"""The frequency that turns updates off."""

IGNORED: Final = {"summary_labels": None}
"""Arguments of modules without effect, and their defaults."""


@dataclasses.dataclass(frozen=True)
class SpecTable(tables.SpecTable):
    """A table in which names of Tensorforce's classes stand for entries."""

    prefix: str = "tensorforce."


PARAMETERS: Final = SpecTable(
    "parameter",
    {
        "constant": Entry((Argument("value"),), open=True),
        "decaying": Entry(open=True),
        "piecewise_constant": Entry(open=True),
        "random": Entry(open=True),
        "ornstein_uhlenbeck": Entry(open=True),
    },
    default="constant",
    alone="a number",
    refused={
        "exponential": "use dict(type='decaying', decay='exponential', ...)",
        "linear": "use dict(type='decaying', decay='linear', ...)",
        "polynomial": "use dict(type='decaying', decay='polynomial', ...)",
    },
)
"""The parameters; ``parameters.py`` reads their arguments."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParameterCheck:
    """The check of a number within bounds, a parameter as a dictionary with ``type``, or one of some words.

    Args:
        above: exclusive lower bound of the number.
        at_least: lower bound of the number.
        at_most: upper bound of the number.
        is_whole: must the number be an integer?
        words: allowed strings.
    """

    above: float = -math.inf
    at_least: float = -math.inf
    at_most: float = math.inf
    is_whole: bool = False
    words: tuple[str, ...] = ()

    @property
    def bounds(self) -> dict[str, float]:
        """Bounds, as arguments of ``checks.number``."""
        return {"above": self.above, "at_least": self.at_least, "at_most": self.at_most}

    def __call__(self, where: str, value: Any) -> Any:
        """The value; a parameter in JSON types. ArgumentError for any other."""
        if isinstance(value, str) and value in self.words:
            return value
        if isinstance(value, str | Mapping):
            name, arguments = parse_spec(where, value, PARAMETERS)
            if name != "constant":
                return {"type": name, **as_json(where, arguments)}
            if "value" not in arguments:
                refuse(f"{where}['value']", "is missing: a constant needs its value", None)
            where, value = f"{where}['value']", arguments["value"]
        value = unbox(value)
        if self.is_whole:
            return errors.integer(where, value, at_least=int(self.at_least))
        errors.number(where, value, **self.bounds)
        return value


parameter: Final = ParameterCheck


def integer(at_least: int) -> Check:
    """A constant integer, which sets shapes or loops."""
    return _constant(argument_checks.integer(at_least))


def real(*, above: float = -math.inf, at_least: float = -math.inf, at_most: float = math.inf) -> Check:
    """A constant number."""
    return _constant(argument_checks.real(above=above, at_least=at_least, at_most=at_most))


def frequency(where: str, value: Any) -> Any:
    """Check the timesteps or episodes between updates, ``never`` or None; refuse floats, which are fractions in 0.6."""
    if isinstance(value, float):
        refuse(where, f"must be a number of timesteps or episodes, as an int, or 'never'; got {value!r}", value)
    return or_none(parameter(at_least=1, is_whole=True, words=(NEVER,)))(where, value)


def fed_argument(name: str, default: Any, check: Check) -> Argument:
    """An argument that may change from update to update."""
    return Argument(name, default, check, fed=True)


def _constant(check: Check) -> Check:
    """Check of a number or a constant parameter; parameters that change are refused."""

    def check_constant(where: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            if value.get("type", "constant") != "constant" or "value" not in value:
                refuse(where, f"must be a constant number, got {shortened(value)}", value)
            value = value["value"]
        return check(where, value)

    return check_constant
