"""How a decaying parameter gets from its start to its end: TensorFlow 1's decays of learning rates, in float64.

Sources: ``keras.optimizers.schedules`` for ``cosine``, ``cosine_restarts``, ``exponential``, ``inverse_time`` and
``polynomial``; ``natural_exp_decay`` and ``linear_cosine_decay`` of TensorFlow 1.15 for the other two.

Each function takes the time t, from 0, the start, the steps, and the decay's own arguments.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from ...common.specs.argument_checks import flag, real
from ...common.specs.tables import Argument


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


@dataclasses.dataclass(frozen=True)
class Decay:
    """A kind of decay.

    Args:
        value: the function of time, start, steps and its own arguments.
        takes: these.
        limit: what it only approaches, from the start and its own arguments; None: it ends after the steps.
    """

    value: Callable[..., float]
    takes: tuple[Argument, ...]
    limit: Callable[..., float] | None = None

    def curve(self, start: float, steps: int, own: Mapping[str, Any]) -> Curve:
        """The curve of these arguments."""
        at = functools.partial(self.value, start=start, steps=steps, **own)
        return Curve(at, at(steps)) if self.limit is None else Curve(at, self.limit(start, **own), reached=False)


def cosine(t: int, start: float, steps: int, alpha: float) -> float:
    """Half a wave, down to the share ``alpha`` of the start."""
    return start * ((1 - alpha) * 0.5 * (1 + math.cos(math.pi * min(t, steps) / steps)) + alpha)


def cosine_restarts(t: int, start: float, steps: int, t_mul: float, m_mul: float, alpha: float) -> float:
    """Half waves, each ``t_mul`` times as long and ``m_mul`` times as high as the one before."""

    def begin(period: int) -> float:
        """When a period begins, in lengths of the first one."""
        return float(period) if t_mul == 1 else (t_mul**period - 1) / (t_mul - 1)

    done = t / steps
    near = done + 1e-9  # neither begins nor the logarithm are exact
    period = int(near) if t_mul == 1 else int(math.log(near * (t_mul - 1) + 1) / math.log(t_mul))
    if begin(period + 1) <= near:
        period += 1
    elif begin(period) > near:
        period -= 1
    within = (done - begin(period)) / t_mul**period
    return start * ((1 - alpha) * 0.5 * m_mul**period * (1 + math.cos(math.pi * within)) + alpha)


def exponential(t: int, start: float, steps: int, decay_rate: float, staircase: bool) -> float:
    """Times ``decay_rate`` in every ``steps``."""
    value: float = start * decay_rate ** _periods(t, steps, staircase)
    return value


def natural(t: int, start: float, steps: int, decay_rate: float, staircase: bool) -> float:
    """Times e to the power of minus ``decay_rate`` in every ``steps``."""
    return start * math.exp(-decay_rate * _periods(t, steps, staircase))


def inverse_time(t: int, start: float, steps: int, decay_rate: float, staircase: bool) -> float:
    """Divided by 1 + ``decay_rate`` times how many ``steps`` have passed."""
    return start / (1 + decay_rate * _periods(t, steps, staircase))


def linear_cosine(t: int, start: float, steps: int, num_periods: float, alpha: float, beta: float) -> float:
    """Waves under a line that falls to ``alpha``, all of it ``beta`` higher; shares of the start."""
    done = min(t, steps) / steps
    return start * ((alpha + 1 - done) * 0.5 * (1 + math.cos(2 * math.pi * num_periods * done)) + beta)


def polynomial(t: int, start: float, steps: int, final_value: float, power: float = 1.0, cycle: bool = False) -> float:
    """A power of the time left; with ``cycle`` each further ``steps`` begin again, from less and less."""
    duration = steps * max(1, -(-t // steps)) if cycle else steps
    left = (1 - min(t, duration) / duration) ** power
    return start if left == 1 else final_value + (start - final_value) * left  # exact at both ends


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


def _power_limit(start: float, decay_rate: float, staircase: bool) -> float:
    return start if decay_rate == 1 or start == 0 else 0.0 if decay_rate < 1 else math.copysign(math.inf, start)


def _zero_limit(start: float, decay_rate: float, staircase: bool) -> float:
    return 0.0 if decay_rate else start


_NUMBER: Final = real()
_ALPHA: Final = Argument("alpha", 0.0, _NUMBER)
_STAIRCASE: Final = Argument("staircase", False, flag)
_RATE: Final = Argument("decay_rate", check=real(at_least=0))
_FINAL: Final = Argument("final_value", check=_NUMBER)

DECAYS: Final = {
    "cosine": Decay(cosine, (_ALPHA,)),
    "cosine_restarts": Decay(
        cosine_restarts,
        (Argument("t_mul", 2.0, real(at_least=1)), Argument("m_mul", 1.0, real(at_least=0, at_most=1)), _ALPHA),
        lambda start, alpha, **_: start * alpha,
    ),
    "exponential": Decay(exponential, (Argument("decay_rate", check=real(above=0)), _STAIRCASE), _power_limit),
    "inverse_time": Decay(inverse_time, (_RATE, _STAIRCASE), _zero_limit),
    "linear": Decay(polynomial, (_FINAL,)),
    "linear_cosine": Decay(
        linear_cosine, (Argument("num_periods", 0.5, _NUMBER), _ALPHA, Argument("beta", 0.001, _NUMBER))
    ),
    "natural": Decay(natural, (_RATE, _STAIRCASE), _zero_limit),
    "polynomial": Decay(polynomial, (_FINAL, Argument("power", 1.0, real(above=0)), Argument("cycle", False, flag))),
}
"""By name."""
