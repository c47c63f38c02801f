"""SBX: Stable-Baselines3's loop and buffer, on JAX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flax
from sbx import DDPG, DQN, PPO, SAC, TD3

from .. import settings
from .sb3 import (
    arguments,
    deterministic_with,
    gymnasium_copies,
    ppo_model,
    ppo_speed,
    sac_model,
    sac_speed,
    timesteps_per_second,
    update_with,
)

PPO_LAYERS = {"net_arch": {"pi": [64, 64], "vf": [64, 64]}, "activation_fn": flax.linen.tanh}


def dqn(update_frequency: int, timesteps: int) -> dict[str, float]:
    """Timesteps per second of ``DQN.learn``. It does not clip gradients."""
    more = {"policy_kwargs": {"net_arch": [64, 64]}, **arguments(update_frequency)}
    return {"": timesteps_per_second(DQN("MlpPolicy", settings.cartpole(), **more), timesteps)}


def ppo(env_id: str, num_envs: int, rollout: int, minibatch: int, rollouts: int) -> dict[str, float]:
    """Timesteps per second of ``PPO.learn``."""
    env = gymnasium_copies(env_id, num_envs)
    return ppo_speed(ppo_model(PPO, PPO_LAYERS, env, rollout, minibatch), rollouts)


def sac(hidden: Sequence[int], batch: int, timesteps: int) -> dict[str, float]:
    """Timesteps per second of ``SAC.learn``."""
    return sac_speed(sac_model(SAC, hidden, batch), timesteps)


def deterministic(algorithm: str, hidden: Sequence[int], batch: int, timesteps: int) -> dict[str, float]:
    """Timesteps per second of ``TD3.learn`` or ``DDPG.learn``. Its critics learn at their default rate, 1e-3, too."""
    return deterministic_with({"td3": TD3, "ddpg": DDPG}[algorithm], hidden, batch, timesteps)


def update(networks: Sequence[Sequence[Any]], seconds: float) -> dict[str, float]:
    """Microseconds of ``DQN.train``."""
    return update_with(DQN, lambda layers: {"net_arch": layers or [512]}, networks, seconds)
