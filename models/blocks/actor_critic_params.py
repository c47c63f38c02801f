"""Parameters of policy and value networks, shared by on-policy and imitation algorithms."""

from __future__ import annotations

import dataclasses

from ...core.schedules import ScheduleLike
from .actions import BOX_POLICIES
from .networks import NetworkParams
from .observations import MaskParams
from .optimizers import OptimizerParams
from .params import Params, flag, integer, one_of, optional, param, real, schedule

VALUE, INTRINSIC_VALUE = "value", "intrinsic_value"
"""Heads of the value network: for the environment's rewards, and for intrinsic ones."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PolicyNetworkParams(MaskParams, OptimizerParams, NetworkParams):
    """The parameters of a policy network; by default without an LSTM, and not shared with a value."""

    activation: str = "tanh"
    initializer: str = "orthogonal"

    @property
    def lstm(self) -> int | None:
        """Units of an LSTM after the hidden layers."""
        return None

    @property
    def box_policy(self) -> str:
        """Kind of policy for Box actions, one of :data:`.actions.BOX_POLICIES`."""
        return "gaussian"

    @property
    def sde_resample_every(self) -> int | None:
        """Timesteps between redraws of state-dependent noise; None: once per episode."""
        return None

    @property
    def log_std(self) -> float:
        """Initial log standard deviation of Box actions."""
        return 0.0

    @property
    def shared(self) -> bool:
        """Whether policy and value share hidden layers, which requires one loss for both."""
        return False


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImitationParams(PolicyNetworkParams):
    """The parameters of a policy that maximises the likelihood of recorded actions."""

    box_policy: str = param(
        "gaussian",
        "distribution of Box actions: a Gaussian, or one `squashed` by tanh into the bounds of the Box",
        one_of(("gaussian", "squashed")),
    )
    log_std: float = param(
        0.0,
        "initial log standard deviation of Box actions: in the environment's units, or before squashing",
        real(at_least=-20, at_most=20),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PolicyParams(PolicyNetworkParams):
    """The parameters of a policy network, and of a value network of the same kind. Schedules count rollouts."""

    max_gradient_norm: float | None = 0.5
    lstm: int | None = param(
        None,
        "units of an LSTM after the hidden layers, for tasks that need memory; `null`: none",
        optional(integer(at_least=1)),
    )
    box_policy: str = param(
        "gaussian",
        "distribution of Box actions: a Gaussian, one `squashed` by tanh into the bounds of the Box, or gSDE"
        " (`state_dependent`), whose noise is a random function of the state, kept for many timesteps",
        one_of(BOX_POLICIES),
    )
    sde_resample_every: int | None = param(
        None,
        "timesteps after which gSDE redraws its noise function; `null`: once per episode",
        optional(integer(at_least=1)),
    )
    log_std: float = param(
        0.0,
        "initial log standard deviation of Box actions: in the environment's units, before squashing if `squashed`, per"
        " feature with gSDE",
        real(at_least=-20, at_most=20),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PolicyValueParams(PolicyParams):
    """The parameters of a policy and a value that are trained by one loss."""

    shared: bool = param(False, "one network with two heads for policy and value instead of two networks", flag())
    value_coefficient: float = param(0.5, "weight of the value loss", real(at_least=0))
    entropy_coefficient: ScheduleLike = param(0.0, "weight of the entropy bonus", schedule(at_least=0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdvantageParams(Params):
    """The parameters of generalized advantage estimation, and of the sequences into which a rollout is cut."""

    sequence_length: int = param(
        16,
        "timesteps over which an LSTM is unrolled in training; must divide each environment's timesteps in a rollout",
        integer(at_least=1),
    )
    normalize_advantages: bool = param(
        True, "scale the advantages of each step of the policy to mean 0 and standard deviation 1", flag()
    )
    gae_lambda: float = param(
        0.95, "lambda of GAE: from one-step TD errors (0) to discounted returns (1)", real(at_least=0, at_most=1)
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RNDParams(Params):
    """The parameters of intrinsic rewards by random network distillation (Burda et al. 2018)."""

    intrinsic_coefficient: float | None = param(
        None,
        "weight of the advantages of intrinsic rewards (random network distillation); `null`: no intrinsic rewards",
        optional(real(above=0)),
    )
    intrinsic_discount: float = param(
        0.99,
        "discount factor of intrinsic rewards, whose returns continue beyond the end of an episode",
        real(at_least=0, at_most=0.9999),
    )
    rnd_units: int = param(
        128, "units of the dense layers and of the output of RND's target and predictor", integer(at_least=1)
    )
    rnd_share: float = param(
        1.0, "share of a rollout's timesteps, drawn at random, that trains the predictor", real(above=0, at_most=1)
    )

    @property
    def values(self) -> tuple[str, ...]:
        """Heads of the value."""
        return (VALUE,) if self.intrinsic_coefficient is None else (VALUE, INTRINSIC_VALUE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ActorCriticParams(RNDParams, AdvantageParams, PolicyValueParams):
    """The parameters of algorithms with one loss over advantages."""
