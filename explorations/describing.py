"""Behaviour policies as JSON, frozen at one timestep, for exported policies."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..checks import choice
from ..contracts import Exploration
from ..schedules import follows_run
from .policies import Constant, EpsilonGreedy, GaussianNoise, Greedy, Random
from .sampling import Categorical, Gaussian, MultiCategorical
from .squashed import SquashedGaussian

_KINDS: Mapping[str, type[Any]] = {
    "constant": Constant,
    "epsilon_greedy": EpsilonGreedy,
    "gaussian_noise": GaussianNoise,
    "greedy": Greedy,
    "random": Random,
    "categorical": Categorical,
    "multi_categorical": MultiCategorical,
    "gaussian": Gaussian,
    "squashed_gaussian": SquashedGaussian,
}


def describe(exploration: Exploration, timestep: int) -> dict[str, Any] | None:
    """A JSON description of how a policy explores at ``timestep``; None where the timestep does not tell.

    That is: for policies that are not axonrl's own, and for those that follow the run.
    """
    kinds = {policy: kind for kind, policy in _KINDS.items()}
    kind = kinds.get(type(exploration))  # no subclasses: they may do anything
    if kind is None or follows_run(exploration):
        return None
    described: dict[str, Any] = {"kind": kind}
    if isinstance(exploration, EpsilonGreedy | GaussianNoise):
        described["level"] = exploration.level(timestep)
    if isinstance(exploration, Constant):
        described["action"] = exploration({"action": np.zeros(1)}, timestep, np.random.default_rng(0))[0][0].tolist()
    return described


def from_description(described: Mapping[str, Any], action_space: Mapping[str, Any]) -> Exploration:
    """The policy that :func:`describe` described.

    Args:
        described: its result.
        action_space: the attributes of the action space that policies read: ``n`` and ``start`` of a Discrete,
            ``nvec`` and ``start`` of a MultiDiscrete, ``low``, ``high`` and ``dtype`` of a Box.

    Raises:
        KeyError: an entry is missing.
        ArgumentError: the kind is unknown, or does not fit the action space.
    """
    kind, space = described["kind"], SimpleNamespace(**action_space)
    policy = _KINDS[choice("kind of exploration", kind, _KINDS)]
    made: Exploration
    if policy is Greedy:
        made = Greedy()
    elif policy is Constant:
        made = Constant(described["action"])
    elif policy in (EpsilonGreedy, GaussianNoise):
        made = policy(described["level"], space)
    else:
        made = policy(space)
    return made
