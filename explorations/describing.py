"""Behaviour policies as JSON: what they do at one timestep, so that they can be taken where there is no training."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..contracts import Exploration
from .policies import Constant, EpsilonGreedy, GaussianNoise, Greedy, Random

_KINDS: Mapping[type, str] = {
    Constant: "constant",
    EpsilonGreedy: "epsilon_greedy",
    GaussianNoise: "gaussian_noise",
    Greedy: "greedy",
    Random: "random",
}


def describe(exploration: Exploration, timestep: int) -> dict[str, Any] | None:
    """A JSON value from which :func:`from_description` makes a policy that explores as this one does at ``timestep``.

    Returns:
        None for a policy that is not one of axonrl's own.
    """
    kind = _KINDS.get(type(exploration))  # not a subclass, which may do anything
    if kind is None:
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
        described: what it returned.
        action_space: attributes of the action space, as far as the policies look at them: ``n`` and ``start`` of a
            Discrete space, ``low``, ``high`` and ``dtype`` of a Box.

    Raises:
        KeyError, ValueError: it is no such description, or not one for these actions.
    """
    kind, space = described["kind"], SimpleNamespace(**action_space)
    if kind == "constant":
        return Constant(described["action"])
    if kind == "epsilon_greedy":
        return EpsilonGreedy(described["level"], space)
    if kind == "gaussian_noise":
        return GaussianNoise(described["level"], space)
    if kind == "greedy":
        return Greedy()
    if kind == "random":
        return Random(space)
    raise ValueError(f"kind of exploration must be one of {', '.join(_KINDS.values())}; got {kind!r}")
