"""Agents by Tensorforce's class names."""

from __future__ import annotations

from typing import Any

from ...common.exclusion import exclusive
from . import experience
from .agent import Agent as Agent


class TensorforceAgent(Agent):
    """The generic agent: its parts are its arguments. It learns, as do those of its classes."""

    kind = "tensorforce"

    @exclusive
    def experience(
        self,
        states: Any,
        actions: Any,
        terminal: Any,
        reward: Any,
        internals: Any = None,
        query: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Put timesteps into the memory that somebody else took. Counters stay, and no update runs.

        Args:
            states: arrays [T, ...], or the values of one timestep; masks among them.
            actions: likewise.
            terminal: bool or 0, 1, 2, [T] or one.
            reward: [T] or one.
            internals: with which the actions were chosen, [T, ...] by name; of an agent that has any.
            query: name of a value to return, or a list of names.
            **kwargs: values of parameters, for the query.

        Returns:
            None, or what ``query`` asks for. The last episode is stored once it has an end, perhaps by a later call.

        Raises:
            TensorforceError: an argument is wrong, or an episode is running.
        """
        experience.check_idle(self, "experience")
        asked = self.queries.checked("experience", query)
        overrides = self.queries.overrides("Agent.experience", kwargs)
        experience.feed(self, experience.read(self, states, actions, terminal, reward, internals))
        return None if asked is None else self.queries.observe(asked, self.counts, overrides)

    @exclusive
    def update(self, query: Any = None, **kwargs: Any) -> Any:
        """Exactly one update, whatever the schedule; it counts.

        Args:
            query: name of a value to return, or a list of names.
            **kwargs: values of parameters of this update, such as ``learning_rate``.

        Returns:
            None, or what ``query`` asks for.

        Raises:
            TensorforceError: too little is stored.
        """
        self.check_open("update")
        asked = self.queries.checked("update", query)
        overrides = self.queries.overrides("Agent.update", kwargs)
        experience.update(self, overrides)
        return None if asked is None else self.queries.observe(asked, self.counts, overrides)

    @exclusive
    def pretrain(self, directory: str, num_iterations: int, num_traces: int | None = 1, num_updates: int = 1) -> None:
        """Learn from recorded traces.

        Args:
            directory: with files ``trace-*.npz``.
            num_iterations: how often traces are drawn.
            num_traces: how many at a time; None for all.
            num_updates: after each draw.

        Raises:
            TensorforceError: there are none, they do not fit, or the agent has internal states, which traces lack.
        """
        experience.check_idle(self, "pretrain")
        experience.pretrain(self, directory, num_iterations, num_traces, num_updates)


class ProximalPolicyOptimization(TensorforceAgent):
    """PPO: a clipped ratio of probabilities."""

    kind = "ppo"


class DeepQNetwork(TensorforceAgent):
    """DQN: values of actions, and a target network."""

    kind = "dqn"


class DoubleDQN(TensorforceAgent):
    """DQN whose online network chooses the next action."""

    kind = "double_dqn"


class DuelingDQN(TensorforceAgent):
    """DQN with a value of the state and advantages of actions."""

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

__all__ = [name for name, one in vars().items() if isinstance(one, type) and issubclass(one, Agent)]
