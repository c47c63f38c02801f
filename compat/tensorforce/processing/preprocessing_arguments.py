"""How the arguments of preprocessing layers are read, and fitted to the shapes of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ...common.specs.argument_checks import or_none, several, whole
from ..spaces.errors import choice, integer, number, refuse
from .array_functions import ACTIVATIONS
from .parameters import make_parameter

AXES: Final = or_none(several(whole(0), "axes"))
"""None, or a list of axes, of which the batch is none."""


def axis(place: str, value: Any) -> int:
    """An axis, of which the batch is none; negative ones count from the end."""
    return integer(place, value, at_least=-32)


def false_or_axis(place: str, value: Any) -> Any:
    """False, or an axis."""
    return False if value is False else axis(place, value)


def constant(place: str, value: Any) -> float:
    """A number, or a parameter that is constant."""
    parameter = make_parameter(place, value)
    if parameter.constant is None:
        refuse(place, f"must be a number that does not change, got {value!r}", value)
    return parameter.constant


def grayscale(place: str, value: Any) -> bool | list[float]:
    """True, False, or weights of the channels."""
    weights: list[float] = [] if isinstance(value, bool) else several(number, "weights, True or False")(place, value)
    return value if isinstance(value, bool) else weights


def nonlinearity(place: str, value: Any) -> str:
    """The name of an activation; None is ``none``."""
    return choice(place, "none" if value is None else value, ACTIVATIONS)


def fitted_axis(place: str, value: int, rank: int) -> int:
    """The axis counted from the start, in 0 .. ``rank - 1``."""
    if not -rank <= value < rank:
        refuse(place, f"must be an axis of {rank}, in {-rank} .. {rank - 1}; got {value}", value)
    return value % rank


def fitted_axes(place: str, value: Sequence[int] | None, rank: int, default: int) -> tuple[int, ...]:
    """The axes, sorted; the first ``default`` of them for None."""
    if value is None:
        return tuple(range(default))
    axes = {fitted_axis(place, one, rank) for one in value}
    if len(axes) < len(value):
        refuse(place, f"names an axis twice: {list(value)}", value)
    return tuple(sorted(axes))
