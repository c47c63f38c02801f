"""Behaviour policies and schedules, in NumPy and plain Python only.

``Constant`` is the policy; for a constant schedule pass a number (or ``schedules.Constant``).
"""

from .. import schedules
from ..schedules import Exponential, Linear, PiecewiseConstant, Polynomial, Schedule, ScheduleLike, make_schedule
from .composite import Composite
from .policies import Constant, EpsilonGreedy, GaussianNoise, Greedy, Noisy, Random
from .sampling import Bernoulli, Boltzmann, Categorical, Gaussian, MultiCategorical
from .squashed import SquashedGaussian

__all__ = [
    "Bernoulli",
    "Boltzmann",
    "Categorical",
    "Composite",
    "Constant",
    "EpsilonGreedy",
    "Exponential",
    "Gaussian",
    "GaussianNoise",
    "Greedy",
    "Linear",
    "MultiCategorical",
    "Noisy",
    "PiecewiseConstant",
    "Polynomial",
    "Random",
    "Schedule",
    "ScheduleLike",
    "SquashedGaussian",
    "make_schedule",
    "schedules",
]
