"""The behaviour policies of algorithms whose greedy action is continuous: that action, and noise."""

from __future__ import annotations

import dataclasses

from gymnasium import spaces

from ... import explorations
from ...contracts import Exploration
from ...schedules import ScheduleLike
from .params import Params, one_of, param, real, schedule

_NOISES = ("ornstein_uhlenbeck", "gaussian", "greedy", "random")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoiseParams(Params):
    """The parameters of exploration by noise that is added to actions."""

    exploration: str = param(
        "ornstein_uhlenbeck", "noise that is correlated in time, or `gaussian`, which is not", one_of(_NOISES)
    )
    sigma: ScheduleLike = param(
        0.3,
        "standard deviation of the noise that a timestep adds, in the environment's units; follows `global_timestep`",
        schedule(at_least=0),
    )
    theta: float = param(
        0.15, "share of `ornstein_uhlenbeck` noise that each timestep takes away", real(above=0, at_most=1)
    )

    def behaviour(self, space: spaces.Box, *, relative: bool = False) -> Exploration:
        """The behaviour policy that they describe; ``relative``: is sigma in units of half the range of actions?"""
        match self.exploration:
            case "gaussian":
                return explorations.GaussianNoise(self.sigma, space, relative)
            case "greedy":
                return explorations.Greedy()
            case "random":
                return explorations.Random(space)
        return explorations.OrnsteinUhlenbeck(self.sigma, space, theta=self.theta, relative=relative)
