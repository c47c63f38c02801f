"""Stable-Baselines3's contributed algorithms."""

from __future__ import annotations

from typing import Any

from sb3_contrib import QRDQN, TRPO, RecurrentPPO

from .. import settings
from .sb3 import PPO_LAYERS, arguments, gymnasium_copies, ppo_model, ppo_speed, timesteps_per_second

ALGORITHMS: dict[str, Any] = {"QR-DQN": (QRDQN, {"n_quantiles": settings.QUANTILES})}


def q_learning(algorithm: str, update_frequency: int, timesteps: int) -> dict[str, float]:
    """Timesteps per second of ``learn``."""
    kind, policy = ALGORITHMS[algorithm]
    more = {"max_grad_norm": settings.MAX_GRADIENT_NORM, "policy_kwargs": {"net_arch": [64, 64], **policy}}
    model = kind("MlpPolicy", settings.cartpole(), **more, **arguments(update_frequency))
    return {"": timesteps_per_second(model, timesteps)}


def trpo(num_envs: int, rollout: int, minibatch: int, rollouts: int) -> dict[str, float]:
    """Timesteps per second of ``TRPO.learn``."""
    given = settings.TRPO
    model = TRPO(
        "MlpPolicy",
        gymnasium_copies("CartPole-v1", num_envs),
        learning_rate=given["learning_rate"],
        n_steps=rollout,
        batch_size=minibatch,
        gamma=settings.DISCOUNT,
        cg_max_steps=given["cg_iterations"],
        cg_damping=given["damping"],
        line_search_shrinking_factor=given["line_search_shrink"],
        line_search_max_iter=given["line_search_steps"],
        n_critic_updates=given["epochs"],
        gae_lambda=given["gae_lambda"],
        target_kl=given["max_kl"],
        policy_kwargs=PPO_LAYERS,
        seed=0,
        device="cpu",
    )
    return ppo_speed(model, rollouts)


def recurrent_ppo(num_envs: int, rollout: int, minibatch: int, rollouts: int, sequence: int) -> dict[str, float]:
    """Timesteps per second of ``RecurrentPPO.learn``, whose sequences have no length that could be set."""
    layers = {"lstm_hidden_size": settings.LSTM, "net_arch": {"pi": [64], "vf": [64]}}
    model = ppo_model(
        RecurrentPPO,
        layers,
        gymnasium_copies("CartPole-v1", num_envs),
        rollout,
        minibatch,
        policy="MlpLstmPolicy",
    )
    return ppo_speed(model, rollouts)
