"""Agents by Tensorforce's class names."""

from __future__ import annotations

from typing import Any

from .agent import LearningAgent

__all__ = [
    "A2C",
    "AC",
    "DDPG",
    "DDQN",
    "DPG",
    "DQN",
    "PPO",
    "REINFORCE",
    "TRPO",
    "VPG",
    "A2CAgent",
    "ACAgent",
    "ActorCritic",
    "AdvantageActorCritic",
    "Agent",
    "ConstantAgent",
    "DDPGAgent",
    "DPGAgent",
    "DQNAgent",
    "DeepQNetwork",
    "DeterministicPolicyGradient",
    "DoubleDQN",
    "DoubleDQNAgent",
    "DuelingDQN",
    "DuelingDQNAgent",
    "PPOAgent",
    "ProximalPolicyOptimization",
    "RandomAgent",
    "TRPOAgent",
    "TensorforceAgent",
    "TrustRegionPolicyOptimization",
    "VPGAgent",
    "VanillaPolicyGradient",
]


class Agent(LearningAgent):
    """An agent of Tensorforce 0.5, on axonrl.

    :meth:`create` makes one. :meth:`act` and :meth:`observe` alternate in every parallel index, each of which is an
    episode of its own; updates run inside of ``observe``.

    Attributes:
        timesteps: acts so far.
        episodes: finished ones.
        updates: runs of the optimizer.
    """

    @staticmethod
    def create(agent: Any = "tensorforce", environment: Any = None, **kwargs: Any) -> Any:
        """An agent that is ready to act.

        Args:
            agent: a key (``"ppo"``), a dictionary or a JSON file with the key under ``agent`` or ``type``, a class, its
                dotted path, or an Agent.
            environment: gives ``states``, ``actions`` and ``max_episode_timesteps`` where they are not given.
            **kwargs: the agent's arguments; they win over those of a dictionary or a file.

        Raises:
            TensorforceError: an argument is unknown, missing or invalid.
        """
        from .creation import create

        return create(agent, environment, kwargs, _CLASSES)

    @staticmethod
    def load(
        directory: str | None = None,
        filename: str | None = None,
        format: str | None = None,
        environment: Any = None,
        **kwargs: Any,
    ) -> Any:
        """A saved agent.

        Args:
            directory: where it was saved; None for ``.``.
            filename: with or without the number that was appended and the extension; without a number the last one
                written in the format ``tensorflow``, or the highest one of the others. None for ``agent``.
            format: ``tensorflow``, ``numpy``, ``hdf5``, or ``pb-actonly`` for what only acts, without TensorFlow.
            environment: as for :meth:`create`.
            **kwargs: arguments that win over the saved ones.

        Raises:
            TensorforceError: there is none, or there are several formats and none is given.
        """
        from .loader import load

        directory, filename = "." if directory is None else directory, "agent" if filename is None else filename
        return load(directory, filename, format, environment, kwargs, _CLASSES)


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
DDQN = DoubleDQNAgent = DoubleDQN
DPG = DPGAgent = DDPG = DDPGAgent = DeterministicPolicyGradient
_CLASSES: dict[str, type[LearningAgent]] = {
    one.kind: one
    for one in (
        *(TensorforceAgent, PPO, DQN, DoubleDQN, DuelingDQN, A2C, AC, VPG, TRPO, DPG),
        *(ConstantAgent, RandomAgent),
    )
}
