"""SBX stepping EnvPool."""

from __future__ import annotations

from sbx import PPO

from .sb3 import ppo_model, ppo_speed
from .sb3_envpool import Copies
from .sbx import PPO_LAYERS


def ppo(env_id: str, num_envs: int, rollout: int, minibatch: int, rollouts: int) -> dict[str, float]:
    """Timesteps per second of ``PPO.learn``."""
    return ppo_speed(ppo_model(PPO, PPO_LAYERS, Copies(env_id, num_envs), rollout, minibatch), rollouts)
