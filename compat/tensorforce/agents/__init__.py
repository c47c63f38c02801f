"""Agents by Tensorforce's class names."""

from __future__ import annotations

from .agent import Agent as Agent
from .experience import TensorforceAgent as TensorforceAgent


class ProximalPolicyOptimization(TensorforceAgent):
    """PPO: a policy gradient with clipped probability ratios."""

    kind = "ppo"


class DeepQNetwork(TensorforceAgent):
    """DQN: action values with a target network."""

    kind = "dqn"


class DoubleDQN(TensorforceAgent):
    """Double DQN: the online network chooses the next action."""

    kind = "double_dqn"


class DuelingDQN(TensorforceAgent):
    """Dueling DQN: a state's value and advantages of actions."""

    kind = "dueling_dqn"


class AdvantageActorCritic(TensorforceAgent):
    """A2C: a policy gradient with advantages."""

    kind = "a2c"


class ActorCritic(TensorforceAgent):
    """AC: a policy gradient with estimated returns."""

    kind = "ac"


class VanillaPolicyGradient(TensorforceAgent):
    """VPG, also called REINFORCE."""

    kind = "vpg"


class TrustRegionPolicyOptimization(TensorforceAgent):
    """TRPO: a natural gradient with a line search."""

    kind = "trpo"


class DeterministicPolicyGradient(TensorforceAgent):
    """DPG: a policy without a distribution, improved by a critic."""

    kind = "dpg"


class ConstantAgent(Agent):
    """Constant actions."""

    kind = "constant"


class RandomAgent(Agent):
    """Uniformly random actions."""

    kind = "random"


PPO = PPOAgent = ProximalPolicyOptimization
DQN = DQNAgent = DeepQNetwork
DuelingDQNAgent = DuelingDQN
A2C = A2CAgent = AdvantageActorCritic
AC = ACAgent = ActorCritic
VPG = VPGAgent = REINFORCE = VanillaPolicyGradient
TRPO = TRPOAgent = TrustRegionPolicyOptimization
DDQN = DoubleDQNAgent = DoubleDQN
DPG = DPGAgent = DDPG = DDPGAgent = DeterministicPolicyGradient

__all__ = [name for name, one in vars().items() if isinstance(one, type) and issubclass(one, Agent)]
