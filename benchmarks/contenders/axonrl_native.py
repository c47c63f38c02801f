"""axonrl stepping its own vector environments."""

from __future__ import annotations

from axonrl.environments import make

from .axonrl_agent import ppo_in


def ppo(env_id: str, num_envs: int, rollout: int, minibatch: int, rollouts: int) -> dict[str, float]:
    """Timesteps per second of ``Agent.train`` with PPO."""
    env = make(env_id, num_envs, vectorization="native")
    return ppo_in(env, num_envs, rollout, minibatch, rollouts)
