"""Schedules: numbers that change with timesteps (exploration) or updates (learning rates).

On the host a schedule is plain Python on integers; inside a traced ``model_fn`` it takes a tensor and ``keras.ops``::

    schedule = Linear(start=1.0, stop=0.05, duration=10_000)
    schedule(5_000)                                                               # 0.525
    Adam(lambda: schedule(labels["global_step"], ops=keras.ops))                  # float32 tensor

The host computes in float64, the graph in float32. Time ``t`` starts at 0 and counts timesteps or updates; so does
``duration``, which is at least 1. After ``duration`` a schedule stays at ``stop``. Invalid fields are ArgumentErrors.

With ``over="run"`` time is the run's progress instead: the share of its limit that is reached, from 0 to 1, and so is
``duration``::

    Linear(start=1e-3, stop=0.0, duration=1.0, over="run")(labels["progress"], ops=keras.ops)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from .checks import choice, did_you_mean, integer, number
from .errors import ArgumentError

RUN: Final = "run"
"""What a schedule may be ``over``, beside the counter that it follows otherwise."""


class PythonOps:
    """The subset of ``keras.ops`` that schedules need, for Python numbers."""

    minimum = staticmethod(min)
    maximum = staticmethod(max)
    power = staticmethod(pow)

    @staticmethod
    def where(condition: bool, a: float, b: float) -> float:
        """``a`` if the condition holds, else ``b``."""
        return a if condition else b

    @staticmethod
    def cast(x: float, dtype: str) -> float:
        """``x`` as a float; ``dtype`` has no meaning here."""
        return float(x)


@runtime_checkable
class Schedule(Protocol):
    """Any callable of this form; the classes below, or a user's own."""

    def __call__(self, t: Any, ops: Any = PythonOps) -> Any:
        """The value at time ``t``.

        Args:
            t: timesteps or updates so far: an int, or an integer scalar tensor.
            ops: ``keras.ops`` if ``t`` is a tensor.

        Returns:
            a float, or a float32 scalar tensor.
        """
        ...


ScheduleLike: TypeAlias = "float | Mapping[str, Any] | Schedule"
"""What :func:`make_schedule` takes."""


@dataclasses.dataclass(frozen=True)
class Constant:
    """The same value at all times."""

    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", number("Constant.value", self.value))

    def __call__(self, t: Any, ops: Any = PythonOps) -> Any:
        """The value."""
        return ops.cast(self.value, "float32")

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        return self.value, self.value


@dataclasses.dataclass(frozen=True)
class Linear:
    """A straight line from ``start`` to ``stop``: ``stop + (start - stop) * (1 - t / duration)``."""

    start: float
    stop: float
    duration: float
    over: str | None = None

    def __post_init__(self) -> None:
        _check_line(self)

    def __call__(self, t: Any, ops: Any = PythonOps) -> Any:
        """The value at time ``t``."""
        return self.stop + (self.start - self.stop) * _left(t, self.duration, ops)

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        return min(self.start, self.stop), max(self.start, self.stop)


@dataclasses.dataclass(frozen=True)
class Polynomial:
    """A power of the time left: ``stop + (start - stop) * (1 - t / duration) ** power``.

    ``power`` is above 0; above 1 the value changes fastest at first, 1 is :class:`Linear`.
    """

    start: float
    stop: float
    duration: float
    power: float
    over: str | None = None

    def __post_init__(self) -> None:
        _check_line(self)
        object.__setattr__(self, "power", number("Polynomial.power", self.power, above=0))

    def __call__(self, t: Any, ops: Any = PythonOps) -> Any:
        """The value at time ``t``."""
        return self.stop + (self.start - self.stop) * ops.power(_left(t, self.duration, ops), self.power)

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        return min(self.start, self.stop), max(self.start, self.stop)


@dataclasses.dataclass(frozen=True)
class Exponential:
    """Decay by a constant factor, down to a floor: ``max(floor, start * rate ** (t / duration))``.

    ``start`` is above 0, ``rate`` above 0 and at most 1, ``floor`` in 0 .. ``start``.
    """

    start: float
    rate: float
    duration: float
    floor: float = 0.0
    over: str | None = None

    def __post_init__(self) -> None:
        start = number("Exponential.start", self.start, above=0)
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "rate", number("Exponential.rate", self.rate, above=0, at_most=1))
        _check_duration(self)
        object.__setattr__(self, "floor", number("Exponential.floor", self.floor, at_least=0, at_most=start))

    def __call__(self, t: Any, ops: Any = PythonOps) -> Any:
        """The value at time ``t``."""
        return ops.maximum(self.start * ops.power(self.rate, ops.cast(t, "float32") / self.duration), self.floor)

    @property
    def bounds(self) -> tuple[float, float]:
        """The infimum and the largest value."""
        return (self.floor if self.rate < 1 else self.start), self.start


@dataclasses.dataclass(frozen=True)
class PiecewiseConstant:
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
            given = getattr(self, name)
            if not isinstance(given, (list, tuple)):
                raise _piecewise_error(name, "must be a list of numbers", given)
        boundaries = tuple(_time("PiecewiseConstant.boundaries", b, _check_over(self)) for b in self.boundaries)
        values = tuple(number("PiecewiseConstant.values", v) for v in self.values)
        if len(values) != len(boundaries) + 1:
            wanted = f"must have {len(boundaries) + 1} numbers, one more than boundaries"
            raise _piecewise_error("values", wanted, self.values)
        if list(boundaries) != sorted(set(boundaries)):
            raise _piecewise_error("boundaries", "must increase", self.boundaries)
        object.__setattr__(self, "boundaries", boundaries)
        object.__setattr__(self, "values", values)

    def __call__(self, t: Any, ops: Any = PythonOps) -> Any:
        """The value at time ``t``."""
        value = ops.cast(self.values[0], "float32")
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
    "exponential": Exponential,
    "piecewise_constant": PiecewiseConstant,
}


def make_schedule(
    value: ScheduleLike, name: str = "schedule", *, at_least: float = -math.inf, at_most: float = math.inf
) -> Schedule:
    """A schedule from what a user wrote.

    Args:
        value: a number (a constant), a mapping such as ``{"kind": "linear", "start": 1.0, "stop": 0.05,
            "duration": 10_000}``, or a schedule, which is returned unchanged. With ``"over": "run"`` a mapping needs no
            duration: it is the whole run.
        name: the argument's name in error messages.
        at_least: smallest permitted value.
        at_most: largest permitted value. A user's own callable has no ``bounds`` and is not checked.

    Raises:
        ArgumentError: unsupported type, an unknown or missing kind or key, or values outside the range.
    """
    if isinstance(value, type):
        kind = value.__name__
        raise ArgumentError(f"{name} takes a schedule: got the class {kind}, expected {kind}(...)", name, value)
    if isinstance(value, Mapping):
        try:
            schedule = _from_mapping(value)
        except ArgumentError as error:
            raise ArgumentError(f"{name}: {error}", name, value) from None
    elif callable(value):
        schedule = value
    else:
        schedule = Constant(number(name, value))
    low, high = getattr(schedule, "bounds", (at_least, at_most))
    if low < at_least or high > at_most:
        raise ArgumentError(f"{name} must stay in {at_least:g} .. {at_most:g}, got {value!r}", name, value)
    return schedule


def _from_mapping(mapping: Mapping[str, Any]) -> Schedule:
    arguments = dict(mapping)
    kind = choice("kind of schedule", arguments.pop("kind", None), KINDS)
    fields = dataclasses.fields(KINDS[kind])
    names = [field.name for field in fields]
    if "duration" in names and arguments.get("over") == RUN:
        arguments.setdefault("duration", 1.0)
    for key, given in arguments.items():
        if key not in names:
            message = f"a {kind} schedule has no {key!r}{did_you_mean(key, names)}, only {', '.join(names)}"
            raise ArgumentError(message, key, given)
    missing = [f.name for f in fields if f.default is dataclasses.MISSING and f.name not in arguments]
    if missing:
        raise ArgumentError(f"a {kind} schedule also needs {', '.join(missing)}", missing[0])
    schedule: Schedule = KINDS[kind](**arguments)
    return schedule


def as_value(schedule: Any) -> float | dict[str, Any]:
    """What :func:`make_schedule` makes this schedule of: a number or a mapping, of JSON values.

    Raises:
        ArgumentError: it is a user's own.
    """
    if type(schedule) is Constant:
        return schedule.value
    for kind, one in KINDS.items():
        if type(schedule) is one:
            fields = [(field, getattr(schedule, field.name)) for field in dataclasses.fields(schedule)]
            given = {field.name: value for field, value in fields if value != field.default}
            return {"kind": kind} | {k: list(v) if isinstance(v, tuple) else v for k, v in given.items()}
    raise ArgumentError(f"{schedule!r} is not one of axonrl's schedules ({', '.join(KINDS)})", "schedule", schedule)


def follows_run(schedule: object) -> bool:
    """Whether a schedule, or an exploration that has one, follows the run's progress."""
    return getattr(schedule, "over", None) == RUN


def _left(t: Any, duration: float, ops: Any) -> Any:
    """The remaining share of ``duration``, 1 .. 0. Integers are compared before the cast, so 0 is exact."""
    if ops is PythonOps:  # at every timestep
        return 1.0 - float(min(t, duration)) / duration
    return 1.0 - ops.cast(ops.minimum(t, duration), "float32") / duration


def _piecewise_error(field: str, problem: str, given: object) -> ArgumentError:
    name = f"PiecewiseConstant.{field}"
    return ArgumentError(f"{name} {problem}, got {given!r}", name, given)


def _check_line(schedule: Linear | Polynomial) -> None:
    kind = type(schedule).__name__
    object.__setattr__(schedule, "start", number(f"{kind}.start", schedule.start))
    object.__setattr__(schedule, "stop", number(f"{kind}.stop", schedule.stop))
    _check_duration(schedule)


def _check_duration(schedule: Linear | Polynomial | Exponential) -> None:
    duration = _time(f"{type(schedule).__name__}.duration", schedule.duration, _check_over(schedule))
    object.__setattr__(schedule, "duration", duration)


def _check_over(schedule: Any) -> str | None:
    given: str | None = schedule.over
    return None if given is None else choice(f"{type(schedule).__name__}.over", given, [RUN])


def _time(name: str, value: Any, over: str | None) -> float:
    """A number of timesteps or updates, or a share of the run."""
    return integer(name, value, at_least=1) if over is None else number(name, value, above=0, at_most=1)
