"""Agents by Tensorforce's class names."""

from __future__ import annotations

from .agent import Agent

__all__ = [
    "A2C", "AC", "DPG", "DQN", "PPO", "REINFORCE", "TRPO", "VPG", "A2CAgent", "ACAgent", "ActorCritic",
    "AdvantageActorCritic", "Agent", "ConstantAgent", "DDPG", "DPGAgent", "DQNAgent", "DeepQNetwork",
    "DeterministicPolicyGradient", "DoubleDQN", "DuelingDQN", "DuelingDQNAgent", "PPOAgent",
    "ProximalPolicyOptimization", "RandomAgent", "TRPOAgent", "TensorforceAgent", "TrustRegionPolicyOptimization",
    "VPGAgent", "VanillaPolicyGradient",
]


class TensorforceAgent(Agent):
    """The generic agent: its parts are its arguments."""

    kind = "tensorforce"


class ProximalPolicyOptimization(Agent):
    """PPO: a clipped ratio of probabilities."""

    kind = "ppo"


class DeepQNetwork(Agent):
    """DQN: values of actions, and a target network."""

    kind = "dqn"


class DoubleDQN(Agent):
    """DQN whose online network chooses the next action."""

    kind = "double_dqn"


class DuelingDQN(Agent):
    """DQN with a value of the state and advantages of actions."""

    kind = "dueling_dqn"


class AdvantageActorCritic(Agent):
    """A2C: a policy gradient with advantages."""

    kind = "a2c"


class ActorCritic(Agent):
    """AC: a policy gradient with estimated returns."""

    kind = "ac"


class VanillaPolicyGradient(Agent):
    """VPG, also called REINFORCE."""

    kind = "vpg"


class TrustRegionPolicyOptimization(Agent):
    """TRPO: a natural gradient with a line search."""

    kind = "trpo"


class DeterministicPolicyGradient(Agent):
    """DPG: a policy without a distribution, improved by a critic."""

    kind = "dpg"


class ConstantAgent(Agent):
    """Always the same action."""

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
DPG = DPGAgent = DDPG = DeterministicPolicyGradient
_CLASSES = {
    one.kind: one
    for one in (
        *(TensorforceAgent, PPO, DQN, DoubleDQN, DuelingDQN, A2C, AC, VPG, TRPO, DPG),
        *(ConstantAgent, RandomAgent),
    )
}


def class_of(kind: str) -> type[Agent]:
    """The class of a key of agents."""
    return _CLASSES[kind]
