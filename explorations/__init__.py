"""Behaviour policies and schedules, in NumPy and plain Python only.

``Constant`` here is the policy; a constant schedule is just a number (or ``schedules.Constant``).
"""

from . import schedules
from .policies import Constant, EpsilonGreedy, GaussianNoise, Greedy, Random
from .schedules import Exponential, Linear, PiecewiseConstant, Polynomial, Schedule, ScheduleLike, make_schedule

__all__ = [
    "Constant",
    "EpsilonGreedy",
    "Exponential",
    "GaussianNoise",
    "Greedy",
    "Linear",
    "PiecewiseConstant",
    "Polynomial",
    "Random",
    "Schedule",
    "ScheduleLike",
    "make_schedule",
    "schedules",
]
