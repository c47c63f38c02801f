"""Decays: numbers that follow timesteps (exploration) or updates (learning rates), in float64."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from numbers import Real
from typing import Any, Final

from ....core.schedules import PythonOps
from ...common.specs.argument_checks import or_none, real, whole
from ...common.specs.argument_table import Argument, Arguments, read_arguments
from ..utils.rlgraph_errors import refuse, translate_errors
from .typed_specs import kind_and_arguments


@dataclasses.dataclass(frozen=True)
class Decay:
    """A number at every time, an :class:`axonrl.schedules.Schedule`: on the host, and inside a model as a tensor.

    Args:
        spec: the type and all arguments, as :func:`make_decay` completes them.
    """

    spec: Mapping[str, Any]

    @property
    def constant(self) -> float | None:
        """The number, of one that never changes."""
        return self.spec.get("constant_value")

    def value(self, t: int) -> float:
        """The number at time ``t``: exactly ``from`` up to the window, exactly ``to`` from its end on."""
        if self.constant is None:
            passed = int(t) - self.spec["start_timestep"]
            if not 0 < passed < self.spec["num_timesteps"]:
                return float(self.spec["from"] if passed <= 0 else self.spec["to"])
        return float(self(int(t)))

    def __call__(self, t: Any, ops: Any = PythonOps) -> Any:
        """The value at time ``t``: an int, or with ``keras.ops`` an integer scalar tensor."""
        spec = self.spec
        if self.constant is not None:
            return ops.cast(self.constant, "float32")
        start, end = spec["from"], spec["to"]
        passed = ops.cast(t - spec["start_timestep"], "float32") / spec["num_timesteps"]
        passed = ops.minimum(ops.maximum(passed, 0.0), 1.0)
        if "half_life" not in spec:
            return end + (start - end) * ops.power(1.0 - passed, spec.get("power", 1.0))
        within = end + (start - end) * ops.power(0.5, passed * (spec["num_timesteps"] / spec["half_life"]))
        return ops.where(passed >= 1.0, end, within)

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        ends = [self.spec["from"], self.spec["to"]] if self.constant is None else [self.constant]
        return min(ends), max(ends)

    def to_json(self) -> dict[str, Any]:
        """The type and all arguments, in JSON's types; :func:`make_decay` takes it."""
        return dict(self.spec)


@translate_errors()
def make_decay(where: str, spec: Any, *, at_least: float = float("-inf"), at_most: float = float("inf")) -> Decay:
    """A decay from what a user wrote.

    Args:
        where: its place, for messages.
        spec: a number, which never changes; the type of a decay; a list of ``from`` and ``to``; or a dictionary with
            ``type`` (``linear_decay`` if there is none), ``from`` (or ``from_``) = 1.0, ``to`` (or ``to_``) = 0.0,
            ``start_timestep`` = 0 and ``num_timesteps`` = 10,000; with ``power`` = 1.0 of a ``polynomial_decay``, and
            ``half_life`` (in timesteps) or ``num_half_lives`` = 10 of an ``exponential_decay``. A ``constant_decay``
            holds its ``constant_value`` at all times, whatever the others are.
        at_least: the smallest allowed value.
        at_most: the largest.

    Raises:
        RLGraphError: it is invalid; names the key.
    """
    if isinstance(spec, Real):
        spec = {"type": _CONSTANT, "constant_value": real(at_least=at_least, at_most=at_most)(where, spec)}
    if isinstance(spec, list | tuple) and len(spec) == 2:
        spec = {"from": spec[0], "to": spec[1]}
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
        return Decay({"type": kind, "constant_value": values["constant_value"]})
    for name in ("from", "to"):  # the defaults, too
        number(f"{where}[{name!r}]", values[name])
    if kind == "exponential_decay":
        _complete_half_life(where, values, given)
    return Decay({"type": kind, **values})


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


def _complete_half_life(where: str, values: dict[str, Any], given: Mapping[str, Any]) -> None:
    """``half_life`` in timesteps, in the place of ``num_half_lives``."""
    count = values.pop("num_half_lives")
    if values["half_life"] is None:
        values["half_life"] = values["num_timesteps"] / (10 if count is None else count)
    elif count is not None:
        refuse(f"{where}['num_half_lives']", "cannot be given together with 'half_life'", given["num_half_lives"])
