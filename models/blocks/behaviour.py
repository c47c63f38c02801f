"""Behaviour policies of algorithms with action values, and of deterministic continuous policies."""

from __future__ import annotations

import dataclasses
from typing import Any

from gymnasium import spaces

from ... import explorations
from ...core.errors import ArgumentError
from ...core.protocols import Exploration
from ...core.schedules import Constant, Linear, ScheduleLike, make_schedule
from .params import Params, integer, one_of, param, real, schedule

_BEHAVIOURS = ("epsilon_greedy", "constant", "decay", "random_decay", "boltzmann", "greedy", "random")
_NOISES = ("ornstein_uhlenbeck", "gaussian", "greedy", "random")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BehaviourParams(Params):
    """The parameters of exploration with action values."""

    exploration: str = param(
        "epsilon_greedy",
        "`constant`, `decay`: epsilon-greedy with a number or a schedule; `random_decay`: epsilon-greedy with a random"
        " final epsilon for each environment; `boltzmann`: softmax of values divided by the temperature",
        one_of(_BEHAVIOURS),
    )
    epsilon: ScheduleLike = param(
        Linear(1.0, 0.05, 10_000),
        "probability of a random action; follows `global_timestep`",
        schedule(at_least=0, at_most=1),
    )
    temperature: ScheduleLike = param(
        1.0,
        "temperature of `boltzmann`, in units of values; follows `global_timestep`; 0 is greedy",
        schedule(at_least=0),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        is_number = isinstance(make_schedule(self.epsilon), Constant)
        wanted = {"constant": "a number", "decay": "a schedule"}.get(self.exploration)
        if wanted is not None and is_number != (wanted == "a number"):
            message = f"exploration {self.exploration!r} needs {wanted} as epsilon, got {self.epsilon!r}"
            raise ArgumentError(message, "epsilon", self.epsilon)

    def behaviour(self, space: spaces.Discrete) -> Exploration:
        """The behaviour policy with these parameters."""
        match self.exploration:
            case "boltzmann":
                return explorations.Boltzmann(self.temperature, space)
            case "random_decay":
                return explorations.RandomDecay(self.epsilon, space)
            case "greedy":
                return explorations.Greedy()
        return explorations.EpsilonGreedy(1.0 if self.exploration == "random" else self.epsilon, space)


@dataclasses.dataclass(frozen=True, kw_only=True)
class WarmUpParams(Params):
    """The parameter of random first actions."""

    random_timesteps: int = param(
        0,
        "timesteps at the beginning of the run in which actions are uniformly random; usually `first_update`",
        integer(at_least=0),
    )

    def after_warm_up(self, exploration: Exploration, space: Any) -> Exploration:
        """The behaviour policy that acts at random first, then as ``exploration`` does."""
        if self.random_timesteps == 0:
            return exploration
        return explorations.RandomWarmUp(exploration, self.random_timesteps, space)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoiseParams(WarmUpParams):
    """The parameters of exploration by noise that is added to actions."""

    exploration: str = param(
        "ornstein_uhlenbeck",
        "noise added to actions: correlated in time, or independent (`gaussian`); `greedy` adds none, `random` ignores"
        " the policy",
        one_of(_NOISES),
    )
    sigma: ScheduleLike = param(
        0.3,
        "standard deviation of the noise drawn at each timestep, in the environment's units; follows `global_timestep`",
        schedule(at_least=0),
    )
    theta: float = param(
        0.15, "mean reversion of `ornstein_uhlenbeck` noise: share removed at each timestep", real(above=0, at_most=1)
    )

    def behaviour(self, space: spaces.Box, *, relative: bool = False) -> Exploration:
        """The behaviour policy with these parameters; ``relative``: sigma is in units of half an action's range."""
        policy: Exploration
        match self.exploration:
            case "gaussian":
                policy = explorations.GaussianNoise(self.sigma, space, relative)
            case "greedy":
                policy = explorations.Greedy()
            case "random":
                policy = explorations.Random(space)
            case _:
                policy = explorations.OrnsteinUhlenbeck(self.sigma, space, theta=self.theta, relative=relative)
        return self.after_warm_up(policy, space)
