"""Schedules: numbers that change with timesteps (exploration) or updates (learning rates).

A schedule takes a number or an array, and inside a traced ``model_fn`` a tensor::

    schedule = Linear(start=1.0, stop=0.05, duration=10_000)
    schedule(5_000)                                                               # 0.525
    Adam(lambda: schedule(labels["global_step"]))                                 # float32 tensor

The host computes in float64, the graph in float32. Time ``t`` starts at 0 and counts timesteps or updates; so does
``duration``, which is at least 1. After ``duration`` a schedule stays at ``stop``. Invalid fields are ArgumentErrors.

With ``over="run"`` both time and ``duration`` are shares of the run instead, from 0 to 1::

    Linear(start=1e-3, stop=0.0, duration=1.0, over="run")(labels["progress"])
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from ..checks import choice, did_you_mean, number, shortened
from ..errors import ArgumentError
from .kinds import (
    KINDS,
    RUN,
    Constant,
    Cosine,
    Exponential,
    InverseTime,
    Linear,
    NaturalExponential,
    PiecewiseConstant,
    Polynomial,
    PythonOps,
)

__all__ = [
    "KINDS",
    "RUN",
    "Constant",
    "Cosine",
    "Exponential",
    "InverseTime",
    "Linear",
    "NaturalExponential",
    "PiecewiseConstant",
    "Polynomial",
    "PythonOps",
    "Schedule",
    "ScheduleLike",
    "as_value",
    "checked_value",
    "follows_run",
    "make_schedule",
]


@runtime_checkable
class Schedule(Protocol):
    """Any callable of this form: one of axonrl's classes, or a user's own."""

    def __call__(self, t: Any, ops: Any = ...) -> Any:
        """The value at time ``t``.

        Args:
            t: timesteps or updates so far: an int, or an integer scalar tensor.
            ops: operations to compute with: ``keras.ops`` for a tensor, :class:`PythonOps` otherwise. axonrl's own
                kinds need none.

        Returns:
            a float, or a float32 scalar tensor.
        """
        ...


ScheduleLike: TypeAlias = "float | Mapping[str, Any] | Schedule"
"""Argument of :func:`make_schedule`."""


def make_schedule(
    value: ScheduleLike, name: str = "schedule", *, at_least: float = -math.inf, at_most: float = math.inf
) -> Schedule:
    """Make a schedule from what a user wrote.

    Args:
        value: a number (a constant), a mapping such as ``{"kind": "linear", "start": 1.0, "stop": 0.05, "duration":
            10_000}``, or a schedule, which is returned unchanged. With ``"over": "run"`` a mapping needs no duration;
            the default is the whole run.
        name: the argument's name in error messages.
        at_least: smallest permitted value.
        at_most: largest permitted value. A user's own callable has no ``bounds``: :func:`checked_value` checks what it
            returns.

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


def checked_value(
    name: str, schedule: Any, value: Any, *, at_least: float = -math.inf, at_most: float = math.inf
) -> Any:
    """Check that a user's schedule returned a number, finite and within the range.

    Raises:
        ArgumentError: it did not; names the schedule and what it returned.
    """
    given, wanted = np.asarray(value), "a number"
    if given.dtype.kind in "biuf":
        if not given.ndim and np.isfinite(given) and at_least <= given <= at_most:
            return value
        wanted = f"a finite number in {at_least:g} .. {at_most:g}"
    message = f"{name}: the schedule {schedule!r} must return {wanted}, but returned {shortened(value)}"
    raise ArgumentError(message, name, schedule)


def as_value(schedule: Any) -> float | dict[str, Any]:
    """Describe a schedule in JSON values, as a number or mapping from which :func:`make_schedule` makes it again.

    Raises:
        ArgumentError: the schedule is a user's own.
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
