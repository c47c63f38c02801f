"""The kinds of schedules. ``core/schedules/__init__.py`` exports them and describes their use."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Final

import numpy as np

from ..checks import choice, flag, integer, number, plain
from ..errors import ArgumentError

RUN: Final = "run"
"""Value of ``over`` for a schedule that follows the run's progress instead of a counter."""
_NUMBERS: Final = (int, float, np.generic)


class PythonOps:
    """The subset of ``keras.ops`` that schedules need, for Python numbers."""

    minimum = staticmethod(min)
    maximum = staticmethod(max)
    power = staticmethod(pow)
    cos = staticmethod(math.cos)
    exp = staticmethod(math.exp)
    floor = staticmethod(math.floor)

    @staticmethod
    def where(condition: bool, a: float, b: float) -> float:
        """``a`` if the condition holds, else ``b``."""
        return a if condition else b

    @staticmethod
    def cast(x: float, dtype: str) -> float:
        """``x`` as a float; ``dtype`` is ignored."""
        return float(x)


class _Kind:
    """Base of all kinds: calls ``_at`` with operations that fit the type of time given."""

    def __call__(self, t: Any, ops: Any = None) -> Any:
        """The value at time ``t``.

        Args:
            t: a number, an array, or a tensor.
            ops: operations to compute with; None chooses by ``t``: Python for numbers and arrays, else ``keras.ops``.

        Returns:
            A float for a number, an array of float64 for an array, a float32 tensor for a tensor.
        """
        if ops is None and isinstance(t, _NUMBERS):
            return self._at(t, PythonOps)
        if ops is not None:
            return self._at(t, ops)
        if isinstance(t, np.ndarray):
            return np.vectorize(self._at, [np.float64], excluded={1})(t, PythonOps)
        import keras  # a caller with a tensor has loaded TensorFlow

        return self._at(t, keras.ops)

    def _at(self, t: Any, ops: Any) -> Any:
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Constant(_Kind):
    """The same value at all times."""

    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", number("Constant.value", self.value))

    def _at(self, t: Any, ops: Any) -> Any:
        return _everywhere(self.value, t, ops)

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        return self.value, self.value


@dataclasses.dataclass(frozen=True)
class Linear(_Kind):
    """A straight line from ``start`` to ``stop``: ``stop + (start - stop) * (1 - t / duration)``."""

    start: float
    stop: float
    duration: float
    over: str | None = None

    def __post_init__(self) -> None:
        _check_line(self)

    def _at(self, t: Any, ops: Any) -> Any:
        return self.stop + (self.start - self.stop) * _remaining_share(t, self.duration, ops)

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        return min(self.start, self.stop), max(self.start, self.stop)


@dataclasses.dataclass(frozen=True)
class Polynomial(_Kind):
    """A power of the remaining time: ``stop + (start - stop) * (1 - t / duration) ** power``.

    ``power`` is above 0; above 1 the value changes fastest at the start, 1 is :class:`Linear`.
    """

    start: float
    stop: float
    duration: float
    power: float
    over: str | None = None

    def __post_init__(self) -> None:
        _check_line(self)
        object.__setattr__(self, "power", number("Polynomial.power", self.power, above=0))

    def _at(self, t: Any, ops: Any) -> Any:
        return self.stop + (self.start - self.stop) * ops.power(_remaining_share(t, self.duration, ops), self.power)

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        return min(self.start, self.stop), max(self.start, self.stop)


@dataclasses.dataclass(frozen=True)
class Cosine(_Kind):
    """Half a cosine wave from ``start`` to ``stop``: ``stop + (start - stop) * (1 + cos(pi * t / duration)) / 2``.

    This is TensorFlow 1's ``cosine_decay`` with alpha ``stop / start``.
    """

    start: float
    stop: float
    duration: float
    over: str | None = None

    def __post_init__(self) -> None:
        _check_line(self)

    def _at(self, t: Any, ops: Any) -> Any:
        done = 1.0 - _remaining_share(t, self.duration, ops)
        return self.stop + (self.start - self.stop) * (0.5 + 0.5 * ops.cos(math.pi * done))

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        return min(self.start, self.stop), max(self.start, self.stop)


@dataclasses.dataclass(frozen=True)
class _Decay(_Kind):
    """Base of decays down to a floor; ``_share`` returns the share of ``start`` that is left."""

    start: float
    rate: float
    duration: float
    floor: float = 0.0
    over: str | None = None
    staircase: bool = False

    def __post_init__(self) -> None:
        kind = type(self).__name__
        start = number(f"{kind}.start", self.start, above=0)
        object.__setattr__(self, "start", start)
        at_most = 1.0 if isinstance(self, Exponential) else math.inf
        object.__setattr__(self, "rate", number(f"{kind}.rate", self.rate, above=0, at_most=at_most))
        _check_duration(self)
        object.__setattr__(self, "floor", number(f"{kind}.floor", self.floor, at_least=0, at_most=start))
        object.__setattr__(self, "staircase", flag(f"{kind}.staircase", self.staircase))

    def _at(self, t: Any, ops: Any) -> Any:
        periods = ops.cast(t, "float32") / self.duration
        if self.staircase:
            periods = ops.floor(periods)
        return ops.maximum(self.start * self._share(periods, ops), self.floor)

    @property
    def bounds(self) -> tuple[float, float]:
        """The infimum and the largest value."""
        return (self.floor if self._share(1.0, PythonOps) < 1 else self.start), self.start

    def _share(self, periods: Any, ops: Any) -> Any:
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Exponential(_Decay):
    """Decay by a constant factor, down to a floor: ``max(floor, start * rate ** (t / duration))``.

    ``start`` is above 0, ``rate`` above 0 and at most 1, ``floor`` in 0 .. ``start``. With ``staircase`` the value
    drops in steps, once per ``duration``: ``t / duration`` is rounded down.
    """

    def _share(self, periods: Any, ops: Any) -> Any:
        return ops.power(self.rate, periods)


@dataclasses.dataclass(frozen=True)
class NaturalExponential(_Decay):
    """Decay by powers of e, down to a floor: ``max(floor, start * exp(-rate * t / duration))``.

    This is TensorFlow 1's ``natural_exp_decay``. ``start`` and ``rate`` are above 0, ``floor`` in 0 .. ``start``,
    ``staircase`` as for :class:`Exponential`.
    """

    def _share(self, periods: Any, ops: Any) -> Any:
        return ops.exp(-self.rate * periods)


@dataclasses.dataclass(frozen=True)
class InverseTime(_Decay):
    """Decay by the inverse of time, down to a floor: ``max(floor, start / (1 + rate * t / duration))``.

    This is TensorFlow 1's ``inverse_time_decay``. ``start`` and ``rate`` are above 0, ``floor`` in 0 .. ``start``,
    ``staircase`` as for :class:`Exponential`.
    """

    def _share(self, periods: Any, ops: Any) -> Any:
        return 1.0 / (1.0 + self.rate * periods)


@dataclasses.dataclass(frozen=True)
class PiecewiseConstant(_Kind):
    """Steps: ``values[i]`` while ``boundaries[i - 1] <= t < boundaries[i]``.

    Args:
        boundaries: increasing times, each at least 1 (or above 0 and at most 1, over the run): the first times of
            ``values[1:]``.
        values: one more than there are boundaries.
        over: ``"run"``, or None.
    """

    boundaries: tuple[float, ...]
    values: tuple[float, ...]
    over: str | None = None

    def __post_init__(self) -> None:
        for name in ("boundaries", "values"):
            given = plain(getattr(self, name))
            if not isinstance(given, (list, tuple)):
                raise _piecewise_error(name, "must be a list of numbers", given)
            object.__setattr__(self, name, given)
        boundaries = tuple(_time("PiecewiseConstant.boundaries", b, _check_over(self)) for b in self.boundaries)
        values = tuple(number("PiecewiseConstant.values", v) for v in self.values)
        if len(values) != len(boundaries) + 1:
            wanted = f"must have {len(boundaries) + 1} numbers, one more than boundaries"
            raise _piecewise_error("values", wanted, self.values)
        if list(boundaries) != sorted(set(boundaries)):
            raise _piecewise_error("boundaries", "must increase", self.boundaries)
        object.__setattr__(self, "boundaries", boundaries)
        object.__setattr__(self, "values", values)

    def _at(self, t: Any, ops: Any) -> Any:
        value = _everywhere(self.values[0], t, ops)
        for boundary, following in zip(self.boundaries, self.values[1:], strict=True):
            value = ops.where(t >= boundary, following, value)
        return value

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        return min(self.values), max(self.values)


KINDS: dict[str, type[Any]] = {
    "constant": Constant,
    "linear": Linear,
    "polynomial": Polynomial,
    "cosine": Cosine,
    "exponential": Exponential,
    "natural_exponential": NaturalExponential,
    "inverse_time": InverseTime,
    "piecewise_constant": PiecewiseConstant,
}


def _everywhere(value: float, t: Any, ops: Any) -> Any:
    """The same value at each of the times ``t``."""
    same = ops.cast(value, "float32")
    return same if ops is PythonOps or not len(t.shape) else ops.broadcast_to(same, ops.shape(t))


def _remaining_share(t: Any, duration: float, ops: Any) -> Any:
    """The remaining share of ``duration``, 1 .. 0. Integers are compared before the cast, so 0 is exact."""
    if ops is PythonOps:  # at every timestep
        return 1.0 - float(min(t, duration)) / duration
    return 1.0 - ops.cast(ops.minimum(t, duration), "float32") / duration


def _piecewise_error(field: str, problem: str, given: object) -> ArgumentError:
    name = f"PiecewiseConstant.{field}"
    return ArgumentError(f"{name} {problem}, got {given!r}", name, given)


def _check_line(schedule: Linear | Polynomial | Cosine) -> None:
    kind = type(schedule).__name__
    object.__setattr__(schedule, "start", number(f"{kind}.start", schedule.start))
    object.__setattr__(schedule, "stop", number(f"{kind}.stop", schedule.stop))
    _check_duration(schedule)


def _check_duration(schedule: Linear | Polynomial | Cosine | _Decay) -> None:
    duration = _time(f"{type(schedule).__name__}.duration", schedule.duration, _check_over(schedule))
    object.__setattr__(schedule, "duration", duration)


def _check_over(schedule: Any) -> str | None:
    given: str | None = schedule.over
    return None if given is None else choice(f"{type(schedule).__name__}.over", given, [RUN])


def _time(name: str, value: Any, over: str | None) -> float:
    """A number of timesteps or updates, or a share of the run."""
    return integer(name, value, at_least=1) if over is None else number(name, value, above=0, at_most=1)
