"""Decays: numbers that follow timesteps (exploration) or updates (learning rates)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from numbers import Real
from typing import Any, Final

from ....core.schedules import PythonOps
from ...common.specs.argument_checks import integer, or_none, real
from ...common.specs.modules import resolve
from ...common.specs.tables import ABSENT, Argument, Entry, SpecTable, without_case
from ..utils.rlgraph_errors import number, refuse, translate_errors


@dataclasses.dataclass(frozen=True)
class Decay:
    """An :class:`axonrl.schedules.Schedule`, evaluated on the host or inside a model as a tensor.

    Args:
        spec: the type and all arguments, as :func:`make_decay` completes them, in JSON types.
    """

    spec: Mapping[str, Any]

    @property
    def constant(self) -> float | None:
        """The number of a constant; None for other decays."""
        return self.spec.get("constant_value")

    def __call__(self, t: Any, ops: Any = PythonOps) -> Any:
        """The value at time ``t``: an int, or with ``keras.ops`` an integer scalar tensor.

        It is exactly ``from`` before the window, and exactly ``to`` after it.
        """
        spec = self.spec
        if self.constant is not None:
            return ops.cast(self.constant, "float32")
        passed = ops.cast(t - spec["start_timestep"], "float32") / spec["num_timesteps"]
        passed = ops.minimum(ops.maximum(passed, 0.0), 1.0)
        if "half_life" in spec:
            left = ops.power(0.5, passed * (spec["num_timesteps"] / spec["half_life"]))
            left = ops.where(passed >= 1.0, 0.0, left)
        else:
            left = ops.power(1.0 - passed, spec.get("power", 1.0))
        return left * spec["from"] + (1.0 - left) * spec["to"]

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        ends = [self.spec["from"], self.spec["to"]] if self.constant is None else [self.constant]
        return min(ends), max(ends)


@translate_errors()
def make_decay(where: str, spec: Any, *, at_least: float = float("-inf"), at_most: float = float("inf")) -> Decay:
    """A decay from a user's specification.

    Args:
        where: its place, for messages.
        spec: a constant number; the type of a decay; a list of ``from`` and ``to``; or a dictionary with ``type``
            (``linear_decay`` by default), ``from`` (or ``from_``) = 1.0, ``to`` (or ``to_``) = 0.0,
            ``start_timestep`` = 0 and ``num_timesteps`` = 10,000; ``polynomial_decay`` also takes ``power`` = 1.0,
            ``exponential_decay`` ``half_life`` (in timesteps) or ``num_half_lives`` = 10. A ``constant_decay`` is
            always ``constant_value``, whatever the other keys.
        at_least: the smallest allowed value.
        at_most: the largest.

    Raises:
        RLGraphError: it is invalid; names the key.
    """
    if isinstance(spec, Real):
        spec = {"type": "constant_decay", "constant_value": number(where, spec, at_least=at_least, at_most=at_most)}
    if isinstance(spec, list | tuple) and len(spec) == 2:
        spec = {"from": spec[0], "to": spec[1]}
    if not isinstance(spec, str | Mapping):
        example = "{'from': 1.0, 'to': 0.1, 'num_timesteps': 10000}"
        refuse(where, f"must be a number or a dictionary such as {example}, got {spec!r}", spec)
    values = resolve(where, spec, "decay", {"decay": DECAYS})
    for key in ("from", "to", "constant_value"):
        if key in values:
            number(f"{where}[{key!r}]", values[key], at_least=at_least, at_most=at_most)
    return Decay(values)


def _with_half_life(where: str, values: dict[str, Any]) -> dict[str, Any]:
    """``half_life`` in timesteps, an alternative to ``num_half_lives``."""
    count = values.pop("num_half_lives", None)
    if values["half_life"] is None:
        values["half_life"] = values["num_timesteps"] / (10 if count is None else count)
    elif count is not None:
        refuse(f"{where}['num_half_lives']", "cannot be given together with 'half_life'", count)
    return values


_POSITIVE: Final = real(above=0)
_WINDOW: Final = (
    Argument("from", 1.0, real(), aliases=("from_",)),
    Argument("to", 0.0, real(), aliases=("to_",)),
    Argument("start_timestep", 0, integer(0)),
    Argument("num_timesteps", 10_000, integer(1)),
)
_HALF_LIVES: Final = (Argument("half_life", None, or_none(_POSITIVE)), Argument("num_half_lives", ABSENT, _POSITIVE))
_ENTRIES: Final = {
    "linear_decay": Entry(_WINDOW),
    "polynomial_decay": Entry((*_WINDOW, Argument("power", 1.0, _POSITIVE))),
    "exponential_decay": Entry((*_WINDOW, *_HALF_LIVES), finish=_with_half_life),
    "constant_decay": Entry(
        (Argument("constant_value", check=real()), *_WINDOW),
        finish=lambda where, values: {key: values[key] for key in ("type", "constant_value")},
    ),
}
DECAYS: Final = SpecTable(
    "decay",
    _ENTRIES,
    default="linear_decay",
    aliases={name.removesuffix("_decay"): name for name in _ENTRIES},
    ignored=dict.fromkeys(("scope", "backend")),
    normalized=without_case,
    dotted=False,
)
