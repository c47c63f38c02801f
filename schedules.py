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

from .core.schedules import (
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
    Schedule,
    ScheduleLike,
    as_value,
    follows_run,
    make_schedule,
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
    "follows_run",
    "make_schedule",
]
