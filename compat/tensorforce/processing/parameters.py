"""Parameters: numbers that change with the agent's counts or at random, evaluated on the host in float64.

Decays are those of TensorFlow 1's learning rates. Sources: ``keras.optimizers.schedules`` for ``cosine``,
``cosine_restarts``, ``exponential``, ``inverse_time`` and ``polynomial``; ``natural_exp_decay`` and
``linear_cosine_decay`` of TensorFlow 1.15 for the other two. Each takes the time t (from 0), the initial value, the
number of steps, and its own arguments.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from ....core.protocols import State
from ...common.specs.argument_checks import flag, integer, one_of, real, several, unbox
from ...common.specs.modules import read_arguments
from ...common.specs.tables import Argument
from ..spaces.errors import choice, number, refuse, translate_errors

# -- decays -----------------------------------------------------------------------------------------------------------


class Decay(NamedTuple):
    """A kind of decay."""

    value: Callable[..., float]
    """Value as a function of time, initial value, steps and its own arguments."""
    takes: tuple[Argument, ...]
    """Its own arguments."""
    limit: Callable[..., float] | None = None
    """Limit that it only approaches, as a function of initial value and arguments; None: it ends after the steps."""


def cosine(t: int, start: float, steps: int, alpha: float) -> float:
    """Half a cosine wave, from the initial value down to ``alpha`` times it."""
    return start * ((1 - alpha) * 0.5 * (1 + math.cos(math.pi * min(t, steps) / steps)) + alpha)


def cosine_restarts(t: int, start: float, steps: int, t_mul: float, m_mul: float, alpha: float) -> float:
    """Half cosine waves, each ``t_mul`` times as long and ``m_mul`` times as high as the previous one."""
    left, length, height = t / steps, 1.0, 1.0
    if t_mul == 1:
        whole_ones = int(left + 1e-9)
        left, height = max(left - whole_ones, 0.0), m_mul**whole_ones
    while left >= length - 1e-9 * length:  # rounding may leave a negative remainder
        left, length, height = max(left - length, 0.0), length * t_mul, height * m_mul
    return start * ((1 - alpha) * 0.5 * height * (1 + math.cos(math.pi * left / length)) + alpha)


def exponential(t: int, start: float, steps: int, decay_rate: float, staircase: bool) -> float:
    """Multiplied by ``decay_rate`` in every ``decay_steps``."""
    value: float = start * decay_rate ** (t // steps if staircase else t / steps)
    return value


def natural(t: int, start: float, steps: int, decay_rate: float, staircase: bool) -> float:
    """Multiplied by e to the power of ``-decay_rate`` in every ``decay_steps``."""
    return start * math.exp(-decay_rate * (t // steps if staircase else t / steps))


def inverse_time(t: int, start: float, steps: int, decay_rate: float, staircase: bool) -> float:
    """Divided by 1 + ``decay_rate`` * t / ``decay_steps`` at time t."""
    return start / (1 + decay_rate * (t // steps if staircase else t / steps))


def linear_cosine(t: int, start: float, steps: int, num_periods: float, alpha: float, beta: float) -> float:
    """A cosine wave under a line from 1 + ``alpha`` down to ``alpha``, plus ``beta``, all times the initial value."""
    done = min(t, steps) / steps
    return start * ((alpha + 1 - done) * 0.5 * (1 + math.cos(2 * math.pi * num_periods * done)) + beta)


def polynomial(t: int, start: float, steps: int, final_value: float, power: float = 1.0, cycle: bool = False) -> float:
    """A power of the remaining time; with ``cycle`` it restarts every ``decay_steps``, from ever lower values."""
    duration = steps * max(1, -(-t // steps)) if cycle else steps
    left = (1 - min(t, duration) / duration) ** power
    return start if left == 1 else final_value + (start - final_value) * left  # exact at both ends


def _power_limit(start: float, decay_rate: float, staircase: bool) -> float:
    return start if decay_rate == 1 or start == 0 else 0.0 if decay_rate < 1 else math.copysign(math.inf, start)


def _zero_limit(start: float, decay_rate: float, staircase: bool) -> float:
    return 0.0 if decay_rate else start


_NUMBER: Final = real()
_ALPHA: Final = Argument("alpha", 0.0, _NUMBER)
_STAIRCASE: Final = Argument("staircase", False, flag)
_RATE: Final = Argument("decay_rate", check=real(at_least=0))
_FINAL: Final = Argument("final_value", check=_NUMBER)
_WAVES: Final = (Argument("t_mul", 2.0, real(at_least=1)), Argument("m_mul", 1.0, real(at_least=0, at_most=1)), _ALPHA)
_LINE: Final = (Argument("num_periods", 0.5, _NUMBER), _ALPHA, Argument("beta", 0.001, _NUMBER))
DECAYS: Final = {
    "cosine": Decay(cosine, (_ALPHA,)),
    "cosine_restarts": Decay(cosine_restarts, _WAVES, lambda start, alpha, **_: start * alpha),
    "exponential": Decay(exponential, (Argument("decay_rate", check=real(above=0)), _STAIRCASE), _power_limit),
    "inverse_time": Decay(inverse_time, (_RATE, _STAIRCASE), _zero_limit),
    "linear": Decay(polynomial, (_FINAL,)),
    "linear_cosine": Decay(linear_cosine, _LINE),
    "natural": Decay(natural, (_RATE, _STAIRCASE), _zero_limit),
    "polynomial": Decay(polynomial, (_FINAL, Argument("power", 1.0, real(above=0)), Argument("cycle", False, flag))),
}
"""Decays by name."""


# -- parameters -------------------------------------------------------------------------------------------------------


class Counts(NamedTuple):
    """Counts of an agent."""

    timesteps: int
    episodes: int
    updates: int


class Rule(NamedTuple):
    """The rule of a kind of parameter."""

    value: Callable[[Counts, np.random.Generator, float], float]
    """Function of counts, a generator and the last value of a process (else 0.0); ``shown`` converts its result."""
    end: float
    """The final value of the schedule, or its limit; the mean of random parameters."""
    extremes: tuple[float, ...] = ()
    """Further values that it is known to reach."""
    is_approached: bool = False
    """Is the final value only approached? It may then equal an exclusive bound."""
    is_drawn: bool = False
    """Is it random? Values outside the bounds are then clipped."""
    process: float | None = None
    """The start of a random walk."""
    shown: Callable[[float], float] = float


class Parameter:
    """A number that may change with the agent's counts or at random. Made by :func:`make_parameter`.

    Attributes:
        constant: the number of a constant; None for others.
        spec: a number, or a dictionary in JSON types with all arguments, for :func:`make_parameter`.
        bounds: bounds of its values, as arguments of ``number``.
    """

    def __init__(self, where: str, spec: Any, bounds: Mapping[str, float], rule: Rule) -> None:
        self.spec, self._where, self._rule, self._process = spec, where, rule, rule.process
        self.constant = None if isinstance(spec, Mapping) else rule.end
        self.bounds, self._bounds = bounds, dict(bounds)
        if rule.is_approached:  # and may be met in the end, as numbers are not exact
            self._bounds["at_least"] = max(bounds["at_least"], self._bounds.pop("above"))
        for value in (*rule.extremes, rule.end):
            number(where, value, **self._bounds)

    def value(self, counts: Counts, rng: np.random.Generator) -> float:
        """The current number; random parameters draw a new one at each call.

        Raises:
            TensorforceError: it is outside its bounds, which could not be known in advance.
        """
        if self.constant is not None:
            return self.constant
        now = self._rule.value(counts, rng, self._process or 0.0)
        shown = self._rule.shown(now)
        if self._rule.is_drawn:
            shown = min(max(shown, self._bounds["at_least"]), self._bounds["at_most"])
        number(self._where, shown, **self._bounds)
        if self._process is not None:
            self._process = now
        return shown

    def final(self) -> float:
        """The final value of the schedule, or its limit; the mean of random parameters."""
        return self._rule.end

    def state_dict(self) -> State:
        """Random state; empty for most parameters."""
        return {} if self._process is None else {"process": self._process}

    def load_state_dict(self, state: State) -> None:
        """Restore what ``state_dict`` returned; the state of another kind of parameter is ignored."""
        if self._process is not None and "process" in state:
            self._process = number(f"{self._where}: process", state["process"])


@translate_errors()
def make_parameter(
    where: str, spec: Any, *, at_least: float = -math.inf, at_most: float = math.inf, above: float = -math.inf
) -> Parameter:
    """A parameter from a user's specification.

    Args:
        where: its place, for messages and the error's ``argument``: ``"Agent.create: exploration"``.
        spec: a number, or a dictionary with a ``type`` (``constant`` by default) and the arguments of that type.
        at_least: smallest allowed value.
        at_most: largest allowed value.
        above: exclusive lower bound of all values.

    Raises:
        TensorforceError: the specification is invalid, or is known to exceed the bounds; names the key.
    """
    bounds = {"at_least": at_least, "at_most": at_most, "above": above}
    given, kind = {"value": spec}, "constant"
    if isinstance(spec, Mapping):
        given = {key: value for key, value in spec.items() if key not in ("type", "dtype")}
        kind = spec.get("type", "constant")
    elif isinstance(spec, str | list | tuple) or spec is None:
        refuse(where, f"must be a number or a dictionary such as {_EXAMPLE}; got {spec!r}", spec)
    if isinstance(kind, str) and kind in DECAYS:
        refuse(f"{where}['type']", f"is {kind!r}, a decay: write type='decaying', decay={kind!r}", kind)
    which, arguments, rule = _KINDS[choice(f"{where}['type']", kind, _KINDS)]
    if which is not None:
        if which not in given:
            refuse(f"{where}[{which!r}]", f"is missing: it is one of {', '.join(_CHOICES[which])}", None)
        own = _CHOICES[which][choice(f"{where}[{which!r}]", given[which], _CHOICES[which])]
        arguments = (*arguments, Argument(which), *own)
    values = read_arguments(where, kind, arguments, given)
    if kind == "constant":
        value = unbox(values["value"])
        end = number(where if value is spec else f"{where}['value']", value, **bounds)
        return Parameter(where, value if isinstance(value, int) else end, bounds, Rule(lambda *_: end, end))
    return Parameter(where, {"type": kind, **values}, bounds, rule(where, values))


_EXAMPLE: Final = "dict(type='decaying', unit='timesteps', decay='linear', ...)"


def _decaying(where: str, given: Mapping[str, Any]) -> Rule:
    """A decay, then optionally subtracted from 1, inverted and scaled, in this order."""
    decay, start = DECAYS[given["decay"]], given["initial_value"]
    own = {one.name: given[one.name] for one in decay.takes}
    at = functools.partial(decay.value, start=start, steps=given["decay_steps"], **own)
    end = at(given["decay_steps"]) if decay.limit is None else decay.limit(start, **own)

    def changed(value: float) -> float:
        value = 1 - value if given["increasing"] else value
        if given["inverse"]:
            value = 1 / value if value else math.inf
        return value * float(given["scale"])

    def value(counts: Counts, *_: Any) -> float:
        try:
            return changed(at(getattr(counts, given["unit"])))
        except OverflowError:  # before an infinite final value
            return changed(end)

    return Rule(value, changed(end), (changed(at(0)),), is_approached=decay.limit is not None)


def _piecewise(where: str, given: Mapping[str, Any]) -> Rule:
    boundaries, values = given["boundaries"], given["values"]
    if any(after <= before for before, after in itertools.pairwise(boundaries)):
        refuse(f"{where}['boundaries']", f"must increase, got {boundaries!r}", boundaries)
    if len(values) != len(boundaries) + 1:
        wanted = f"must have {len(boundaries) + 1} numbers, one more than boundaries"
        refuse(f"{where}['values']", f"{wanted}; got {values!r}", values)

    def value(counts: Counts, *_: Any) -> float:
        number: float = values[bisect.bisect_left(boundaries, getattr(counts, given["unit"]))]
        return number  # at a boundary the earlier value holds

    return Rule(value, values[-1], tuple(values))


def _random(where: str, given: Mapping[str, Any]) -> Rule:
    if given["distribution"] == "normal":
        mean, stddev = given["mean"], given["stddev"]
        return Rule(lambda _, rng, __: float(rng.normal(mean, stddev)), mean, is_drawn=True)
    low, high = given["minval"], given["maxval"]
    if low > high:
        refuse(f"{where}['minval']", f"must be at most maxval, got {low:g}", low)
    return Rule(lambda _, rng, __: float(rng.uniform(low, high)), (low + high) / 2, (low, high))


def _ornstein_uhlenbeck(where: str, given: Mapping[str, Any]) -> Rule:
    """An Ornstein-Uhlenbeck process that starts at ``mu`` (Uhlenbeck and Ornstein 1930)."""
    mean, theta, sigma = (float(given[name]) for name in ("mu", "theta", "sigma"))

    def step(_: Counts, rng: np.random.Generator, process: float) -> float:
        return process + theta * (mean - process) + sigma * float(rng.standard_normal())

    if not given["absolute"]:
        return Rule(step, mean, is_drawn=True, process=mean)
    end, deviation = abs(mean), sigma / math.sqrt(1 - (1 - theta) ** 2)
    if deviation > 0:  # the mean of a folded normal distribution
        ratio = mean / deviation
        end = deviation * math.sqrt(2 / math.pi) * math.exp(-(ratio**2) / 2) + mean * math.erf(ratio / math.sqrt(2))
    return Rule(step, end, is_drawn=True, process=mean, shown=abs)


_UNIT: Final = Argument("unit", check=one_of(*Counts._fields))
_DECAYING: Final = (
    *(_UNIT, Argument("initial_value", check=_NUMBER), Argument("decay_steps", check=integer(1))),
    *(Argument("increasing", False, flag), Argument("inverse", False, flag), Argument("scale", 1.0, _NUMBER)),
)
_PIECEWISE: Final = (
    *(_UNIT, Argument("boundaries", check=several(integer(0), "integers"))),
    Argument("values", check=several(_NUMBER, "numbers")),
)
_PROCESS: Final = (
    *(Argument("theta", 0.15, real(above=0, at_most=1)), Argument("sigma", 0.3, real(at_least=0))),
    *(Argument("mu", 0.0, _NUMBER), Argument("absolute", False, flag)),
)
_CHOICES: Final[Mapping[str, Mapping[str, tuple[Argument, ...]]]] = {
    "decay": {name: decay.takes for name, decay in DECAYS.items()},
    "distribution": {
        "normal": (Argument("mean", 0.0, _NUMBER), Argument("stddev", 1.0, real(at_least=0))),
        "uniform": (Argument("minval", 0.0, _NUMBER), Argument("maxval", 1.0, _NUMBER)),
    },
}
"""Arguments of each choice, by the choosing argument."""
_KINDS: Final[Mapping[str, tuple[str | None, tuple[Argument, ...], Callable[[str, Mapping[str, Any]], Rule]]]] = {
    "constant": (None, (Argument("value"),), lambda *_: Rule(lambda *_: 0.0, 0.0)),
    "decaying": ("decay", _DECAYING, _decaying),
    "piecewise_constant": (None, _PIECEWISE, _piecewise),
    "random": ("distribution", (), _random),
    "ornstein_uhlenbeck": (None, _PROCESS, _ornstein_uhlenbeck),
}
"""Parameters by type: the argument that selects further arguments, if any, the arguments, and the rule."""
