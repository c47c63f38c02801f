"""axonrl stepping EnvPool."""

from __future__ import annotations

from axonrl.environments import make

from .. import settings
from .axonrl_agent import ppo_in


def ppo(env_id: str, num_envs: int, rollout: int, minibatch: int, rollouts: int) -> dict[str, float]:
    """Timesteps per second of ``Agent.train`` with PPO; EnvPool has as many threads as this process may."""
    env = make(env_id, num_envs, vectorization="envpool", num_threads=settings.threads())
    return ppo_in(env, num_envs, rollout, minibatch, rollouts)
