"""How a decaying parameter gets from its start to its end: TensorFlow 1's decays of learning rates, in float64.

Sources: ``keras.optimizers.schedules`` for ``cosine``, ``cosine_restarts``, ``exponential``, ``inverse_time`` and
``polynomial``; ``natural_exp_decay`` and ``linear_cosine_decay`` of TensorFlow 1.15 for the other two.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Final

from ...common.specs.argument_checks import real
from ...common.specs.argument_table import Argument, Arguments
from ..spaces.errors import flag, number


@dataclasses.dataclass(frozen=True)
class Curve:
    """Values over time.

    Args:
        at: the value after that many units, from 0.
        end: where it stays, or what it approaches.
        reached: does it get there?
    """

    at: Callable[[int], float]
    end: float
    reached: bool = True


def cosine(start: float, steps: int, alpha: float) -> Curve:
    """Half a wave, down to the share ``alpha`` of the start."""

    def at(t: int) -> float:
        return start * ((1 - alpha) * 0.5 * (1 + math.cos(math.pi * min(t, steps) / steps)) + alpha)

    return Curve(at, start * alpha)


def cosine_restarts(start: float, steps: int, t_mul: float, m_mul: float, alpha: float) -> Curve:
    """Half waves, each ``t_mul`` times as long and ``m_mul`` times as high as the one before."""

    def begin(period: int) -> float:
        """When a period begins, in lengths of the first one."""
        return float(period) if t_mul == 1 else (t_mul**period - 1) / (t_mul - 1)

    def at(t: int) -> float:
        done = t / steps
        near = done + 1e-9  # neither begins nor the logarithm are exact
        period = int(near) if t_mul == 1 else int(math.log(near * (t_mul - 1) + 1) / math.log(t_mul))
        if begin(period + 1) <= near:
            period += 1
        elif begin(period) > near:
            period -= 1
        within = (done - begin(period)) / t_mul**period
        return start * ((1 - alpha) * 0.5 * m_mul**period * (1 + math.cos(math.pi * within)) + alpha)

    return Curve(at, start * alpha, reached=False)


def exponential(start: float, steps: int, decay_rate: float, staircase: bool) -> Curve:
    """Times ``decay_rate`` in every ``steps``."""
    end = start if decay_rate == 1 or start == 0 else 0.0 if decay_rate < 1 else math.copysign(math.inf, start)
    return Curve(lambda t: start * decay_rate ** _periods(t, steps, staircase), end, reached=False)


def natural(start: float, steps: int, decay_rate: float, staircase: bool) -> Curve:
    """Times e to the power of minus ``decay_rate`` in every ``steps``."""
    end = 0.0 if decay_rate else start
    return Curve(lambda t: start * math.exp(-decay_rate * _periods(t, steps, staircase)), end, reached=False)


def inverse_time(start: float, steps: int, decay_rate: float, staircase: bool) -> Curve:
    """Divided by 1 + ``decay_rate`` times how many ``steps`` have passed."""
    end = 0.0 if decay_rate else start
    return Curve(lambda t: start / (1 + decay_rate * _periods(t, steps, staircase)), end, reached=False)


def linear_cosine(start: float, steps: int, num_periods: float, alpha: float, beta: float) -> Curve:
    """Waves under a line that falls to ``alpha``, all of it ``beta`` higher; shares of the start."""

    def at(t: int) -> float:
        done = min(t, steps) / steps
        return start * ((alpha + 1 - done) * 0.5 * (1 + math.cos(2 * math.pi * num_periods * done)) + beta)

    return Curve(at, at(steps))


def polynomial(start: float, steps: int, final_value: float, power: float = 1.0, cycle: bool = False) -> Curve:
    """A power of the time left; with ``cycle`` each further ``steps`` begin again, from less and less."""

    def at(t: int) -> float:
        duration = steps * max(1, -(-t // steps)) if cycle else steps
        left = (1 - min(t, duration) / duration) ** power
        return start if left == 1 else final_value + (start - final_value) * left  # exact at both ends

    return Curve(at, final_value)


def changed(curve: Curve, increasing: bool, inverse: bool, scale: float) -> Curve:
    """A curve subtracted from 1, inverted and scaled, in this order, as far as is asked for."""

    def change(value: float) -> float:
        value = 1 - value if increasing else value
        if inverse:
            value = 1 / value if value else math.inf
        return value * scale

    def at(t: int) -> float:
        try:
            return change(curve.at(t))
        except OverflowError:  # on its way to an infinite end
            return change(curve.end)

    return Curve(at, change(curve.end), curve.reached)


def _periods(t: int, steps: int, staircase: bool) -> float:
    return t // steps if staircase else t / steps


_STAIRCASE: Final = Argument(flag, False)
_ALPHA: Final = Argument(number, 0.0)

DECAYS: Final[dict[str, tuple[Callable[..., Curve], Arguments]]] = {
    "cosine": (cosine, {"alpha": _ALPHA}),
    "cosine_restarts": (
        cosine_restarts,
        {
            "t_mul": Argument(real(at_least=1), 2.0),
            "m_mul": Argument(real(at_least=0, at_most=1), 1.0),
            "alpha": _ALPHA,
        },
    ),
    "exponential": (exponential, {"decay_rate": Argument(real(above=0)), "staircase": _STAIRCASE}),
    "inverse_time": (inverse_time, {"decay_rate": Argument(real(at_least=0)), "staircase": _STAIRCASE}),
    "linear": (polynomial, {"final_value": Argument(number)}),
    "linear_cosine": (
        linear_cosine,
        {"num_periods": Argument(number, 0.5), "alpha": _ALPHA, "beta": Argument(number, 0.001)},
    ),
    "natural": (natural, {"decay_rate": Argument(real(at_least=0)), "staircase": _STAIRCASE}),
    "polynomial": (
        polynomial,
        {
            "final_value": Argument(number),
            "power": Argument(real(above=0), 1.0),
            "cycle": Argument(flag, False),
        },
    ),
}
"""By name: the curve, and what it takes beside its start and its steps."""
