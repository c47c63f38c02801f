"""Decays: numbers that follow timesteps (exploration) or updates (learning rates), in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, Final

from ...common.specs.argument_checks import or_none, real, whole
from ...common.specs.argument_table import Argument, Arguments, read_arguments
from ..spaces.errors import refuse, translate_errors
from .typed_specs import kind_and_arguments


class Decay:
    """A number at every time. Made by :func:`make_decay`.

    Args:
        spec: what :meth:`to_json` returns.
        within: the value in the window, by the share of it that has passed, above 0 and below 1.
    """

    def __init__(self, spec: Mapping[str, Any], within: Callable[[float], float]) -> None:
        self._spec, self._within = dict(spec), within

    @property
    def constant(self) -> float | None:
        """The number, of one that never changes."""
        return self._spec.get("constant_value")

    def value(self, t: int) -> float:
        """The number at time ``t``: exactly ``from`` up to the window, exactly ``to`` from its end on."""
        if self.constant is not None:
            return self.constant
        passed = (int(t) - self._spec["start_timestep"]) / self._spec["num_timesteps"]
        if 0 < passed < 1:
            return self._within(passed)
        return float(self._spec["from"] if passed <= 0 else self._spec["to"])

    def to_json(self) -> dict[str, Any]:
        """The type and all arguments, in JSON's types; :func:`make_decay` takes it."""
        return dict(self._spec)


@translate_errors()
def make_decay(where: str, spec: Any, *, at_least: float = float("-inf"), at_most: float = float("inf")) -> Decay:
    """A decay from what a user wrote.

    Args:
        where: its place, for messages.
        spec: a number, which never changes; the type of a decay; or a dictionary with ``type`` (``linear_decay`` if
            there is none), ``from`` (or ``from_``) = 1.0, ``to`` (or ``to_``) = 0.0, ``start_timestep`` = 0 and
            ``num_timesteps`` = 10,000; with ``power`` = 1.0 of a ``polynomial_decay``, and ``half_life`` (in timesteps)
            or ``num_half_lives`` = 10 of an ``exponential_decay``. A ``constant_decay`` holds its ``constant_value`` at
            all times, whatever the others are.
        at_least: the smallest allowed value.
        at_most: the largest.

    Raises:
        RLGraphError: it is invalid; names the key.
    """
    if isinstance(spec, Real):
        spec = {"type": _CONSTANT, "constant_value": real(at_least=at_least, at_most=at_most)(where, spec)}
    if not isinstance(spec, str | Mapping):
        refuse(where, f"must be a number or a dictionary such as {_EXAMPLE}, got {spec!r}", spec)
    kind, given = kind_and_arguments(where, spec, _OWN, default="linear_decay", aliases=_ALIASES)
    for name in ("from", "to"):
        _rename(where, given, f"{name}_", name)
    number = real(at_least=at_least, at_most=at_most)
    shared = {"from": Argument(number, 1.0), "to": Argument(number, 0.0), **_WINDOW}
    own = {"constant_value": Argument(number)} if kind == _CONSTANT else _OWN[kind]
    values = read_arguments(where, given, {**shared, **own}, kind)
    if kind == _CONSTANT:
        return Decay({"type": kind, "constant_value": values["constant_value"]}, lambda passed: 0.0)
    start, end = values["from"], values["to"]
    number(f"{where}['from']", start)  # the defaults, too
    number(f"{where}['to']", end)
    left = _left(where, kind, values, given)
    return Decay({"type": kind, **values}, lambda passed: end + (start - end) * left(passed))


_EXAMPLE: Final = "{'from': 1.0, 'to': 0.1, 'num_timesteps': 10000}"
_CONSTANT: Final = "constant_decay"
_POSITIVE: Final = real(above=0)
_WINDOW: Final[Arguments] = {"start_timestep": Argument(whole(0), 0), "num_timesteps": Argument(whole(1), 10_000)}
_OWN: Final[dict[str, Arguments]] = {
    "linear_decay": {},
    "polynomial_decay": {"power": Argument(_POSITIVE, 1.0)},
    "exponential_decay": {
        "half_life": Argument(or_none(_POSITIVE), None),
        "num_half_lives": Argument(or_none(_POSITIVE), None),
    },
    _CONSTANT: {},
}
_ALIASES: Final = {name.removesuffix("_decay"): name for name in _OWN}


def _rename(where: str, given: dict[str, Any], alias: str, name: str) -> None:
    """An argument under its second name."""
    if alias in given:
        if name in given:
            refuse(f"{where}[{alias!r}]", f"is the same as {name!r}: give one of them", given[alias])
        given[name] = given.pop(alias)


def _left(where: str, kind: str, values: dict[str, Any], given: Mapping[str, Any]) -> Callable[[float], float]:
    """Which share of the way is left, by the share of the window that has passed."""
    if kind != "exponential_decay":
        power = values.get("power", 1.0)
        return lambda passed: float((1 - passed) ** power)
    number_of = values.pop("num_half_lives")
    if values["half_life"] is None:
        values["half_life"] = values["num_timesteps"] / (10 if number_of is None else number_of)
    elif number_of is not None:
        refuse(f"{where}['num_half_lives']", "cannot be given together with 'half_life'", given["num_half_lives"])
    half_lives = values["num_timesteps"] / values["half_life"]
    return lambda passed: float(0.5 ** (passed * half_lives))
