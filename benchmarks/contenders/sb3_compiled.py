"""Stable-Baselines3 with ``torch.compile``, as its documentation shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from stable_baselines3 import PPO, SAC

from .sb3 import (
    PPO_LAYERS,
    dqn_model,
    gymnasium_copies,
    ppo_model,
    ppo_speed,
    sac_model,
    sac_speed,
    timesteps_per_second,
)


def compiled(network: Any) -> Any:
    return torch.compile(network, backend="inductor")


def dqn(update_frequency: int, timesteps: int) -> dict[str, float]:
    """Timesteps per second of ``DQN.learn``.

    Compiling the policy alone, as documented, would change nothing here: acting and learning call the networks inside.
    """
    model = dqn_model(update_frequency)
    for name in ("q_net", "q_net_target"):
        network = compiled(getattr(model.policy, name))
        setattr(model.policy, name, network)
        setattr(model, name, network)
    model.policy = compiled(model.policy)
    return {"": timesteps_per_second(model, timesteps)}


def ppo(env_id: str, num_envs: int, rollout: int, minibatch: int, rollouts: int) -> dict[str, float]:
    """Timesteps per second of ``PPO.learn``. Compiling the policy reaches acting only, so its losses' part is, too."""
    model = ppo_model(PPO, PPO_LAYERS, gymnasium_copies(env_id, num_envs), rollout, minibatch)
    model.policy.evaluate_actions = compiled(model.policy.evaluate_actions)
    model.policy = compiled(model.policy)
    return ppo_speed(model, rollouts)


def sac(hidden: Sequence[int], batch: int, timesteps: int) -> dict[str, float]:
    """Timesteps per second of ``SAC.learn``, with its three networks compiled."""
    model = sac_model(SAC, hidden, batch)
    model.actor.action_log_prob = compiled(model.actor.action_log_prob)
    model.critic.forward = compiled(model.critic.forward)
    model.critic_target.forward = compiled(model.critic_target.forward)
    model.policy = compiled(model.policy)
    return sac_speed(model, timesteps)
