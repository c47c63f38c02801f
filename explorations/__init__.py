"""Behaviour policies and schedules, in NumPy and plain Python only.

``Constant`` here is the policy; for a constant schedule pass a number (or ``schedules.Constant``).
"""

from ..core import schedules
from ..core.schedules import (
    Cosine,
    Exponential,
    InverseTime,
    Linear,
    NaturalExponential,
    PiecewiseConstant,
    Polynomial,
    Schedule,
    ScheduleLike,
    make_schedule,
)
from .composite import Composite
from .policies import Constant, EpsilonGreedy, GaussianNoise, Greedy, Noisy, Random
from .sampling import Bernoulli, Boltzmann, Categorical, Gaussian, MultiCategorical
from .squashed import SquashedGaussian
from .state_dependent import StateDependent
from .stateful import OrnsteinUhlenbeck, RandomDecay
from .warm_up import RandomWarmUp

__all__ = [
    "Bernoulli",
    "Boltzmann",
    "Categorical",
    "Composite",
    "Constant",
    "Cosine",
    "EpsilonGreedy",
    "Exponential",
    "Gaussian",
    "GaussianNoise",
    "Greedy",
    "InverseTime",
    "Linear",
    "MultiCategorical",
    "NaturalExponential",
    "Noisy",
    "OrnsteinUhlenbeck",
    "PiecewiseConstant",
    "Polynomial",
    "Random",
    "RandomDecay",
    "RandomWarmUp",
    "Schedule",
    "ScheduleLike",
    "SquashedGaussian",
    "StateDependent",
    "make_schedule",
    "schedules",
]
