"""Behaviour policies as JSON: whole, for compiled programs, or frozen at one timestep, for exported policies.

Arguments are read from attributes of the same names, as for memories, so that a user's own policy can be described.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from ..core import registry
from ..core.checks import as_json, choice
from ..core.errors import ArgumentError
from ..core.protocols import Exploration
from ..core.schedules import as_value, follows_run, make_schedule
from .composite import Composite
from .policies import Constant, EpsilonGreedy, GaussianNoise, Greedy, Noisy, Random, Scheduled
from .sampling import Bernoulli, Boltzmann, Categorical, Gaussian, MultiCategorical
from .squashed import SquashedGaussian
from .state_dependent import StateDependent
from .stateful import OrnsteinUhlenbeck, RandomDecay
from .warm_up import RandomWarmUp

_KINDS: Mapping[str, type[Any]] = {
    "constant": Constant,
    "epsilon_greedy": EpsilonGreedy,
    "gaussian_noise": GaussianNoise,
    "greedy": Greedy,
    "noisy": Noisy,
    "ornstein_uhlenbeck": OrnsteinUhlenbeck,
    "random": Random,
    "random_decay": RandomDecay,
    "random_warm_up": RandomWarmUp,
    "categorical": Categorical,
    "boltzmann": Boltzmann,
    "multi_categorical": MultiCategorical,
    "gaussian": Gaussian,
    "bernoulli": Bernoulli,
    "composite": Composite,
    "squashed_gaussian": SquashedGaussian,
    "state_dependent": StateDependent,
}
_SPACE = "action_space"
"""The argument that is not described: code that makes the policy again provides the space."""
_INNER = "exploration"
"""The argument that is an exploration itself."""


def is_ours(exploration: Exploration) -> bool:
    """Whether it is one of axonrl's own classes. Subclasses are not, as they may do anything."""
    if isinstance(exploration, RandomWarmUp) and not is_ours(exploration.exploration):
        return False
    return type(exploration) in _KINDS.values()


def arguments_of(exploration: Exploration) -> dict[str, Any]:
    """``kind`` and the arguments of a policy as JSON values, schedules included; :func:`made_from` is the inverse.

    The kind of a user's own policy is its class, ``package.module:name``.

    Raises:
        ArgumentError: the policy cannot be described; says why.
    """
    made = type(exploration)
    kind = next((name for name, one in _KINDS.items() if one is made), registry.name_of(made))
    if kind is None:
        raise _refusal(made, "its class cannot be imported by a name")
    described: dict[str, Any] = {"kind": kind}
    for name, parameter in inspect.signature(made).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise _refusal(made, f"it takes any number of arguments (*{name})")
        if name == _SPACE:
            continue
        if not hasattr(exploration, name):
            raise _refusal(made, f"it has no attribute {name!r} with the argument of that name")
        try:
            described[name] = as_json(getattr(exploration, name), arguments_of if name == _INNER else _schedule)
        except ArgumentError as error:
            raise _refusal(made, f"its {name}: {error}") from None
    return described


def made_from(described: Mapping[str, Any], action_space: Any) -> Exploration:
    """Make a policy from the result of :func:`arguments_of`.

    Args:
        described: the description.
        action_space: the space, or an object with the attributes that policies read: ``n`` and ``start`` of a
            Discrete, ``nvec`` and ``start`` of a MultiDiscrete, ``low``, ``high`` and ``dtype`` of a Box, ``shape``
            of a MultiBinary, ``spaces`` of a Dict or a Tuple.

    Raises:
        ArgumentError: the kind is unknown or cannot be imported, or an argument does not fit.
    """
    kind = described["kind"]
    given = {name: value for name, value in described.items() if name != "kind"}
    arguments = dict(given)
    for name, one in given.items():
        if isinstance(one, Mapping):
            arguments[name] = made_from(one, action_space) if name == _INNER else make_schedule(one)
    made = _KINDS[kind] if kind in _KINDS else registry.find("exploration", kind)
    if _SPACE in inspect.signature(made).parameters:
        arguments[_SPACE] = action_space
    exploration: Exploration = made(**arguments)
    return exploration


def describe(exploration: Exploration, timestep: int) -> dict[str, Any] | None:
    """:func:`arguments_of` a policy that explores as this one does at ``timestep``; None if that is unknown.

    None for policies that are not axonrl's own, for policies that follow the run, and for noise in a network's weights,
    which only training draws.
    """
    if isinstance(exploration, RandomWarmUp):
        exploration = exploration.acting(timestep)
    if not is_ours(exploration) or isinstance(exploration, Noisy) or follows_run(exploration):
        return None
    if isinstance(exploration, Scheduled):
        level = Scheduled.level(exploration, timestep)
        scheduled = next(iter(inspect.signature(type(exploration)).parameters))
        exploration = copy.copy(exploration)
        setattr(exploration, scheduled, level)
    described = arguments_of(exploration)
    described.pop("log_prob", None)  # for training
    return described


def from_description(described: Mapping[str, Any], action_space: Mapping[str, Any]) -> Exploration:
    """Make a policy from the result of :func:`describe`, without importing a user's code.

    Args:
        described: the description.
        action_space: the attributes of the action space that policies read, as for :func:`made_from`.

    Raises:
        KeyError, TypeError: an entry is missing.
        ArgumentError: the kind is unknown, or does not fit the action space.
    """
    choice("kind of exploration", described["kind"], _KINDS)
    return made_from(described, space_of(action_space))


def space_of(attributes: Mapping[str, Any]) -> SimpleNamespace:
    """An object with the attributes of a space that policies read, including nested spaces."""
    inside = attributes.get("spaces")
    made = attributes if inside is None else {**attributes, "spaces": {name: space_of(a) for name, a in inside.items()}}
    return SimpleNamespace(**made)


def _schedule(value: Any) -> dict[str, Any]:
    described = as_value(value)
    return described if isinstance(described, dict) else {"kind": "constant", "value": described}


def _refusal(made: type[Any], why: str) -> ArgumentError:
    message = f"the exploration {made.__name__} cannot be described: {why}"
    return ArgumentError(message, "exploration", made)
