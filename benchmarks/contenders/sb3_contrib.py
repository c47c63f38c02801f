"""Stable-Baselines3's contributed algorithms."""

from __future__ import annotations

from sb3_contrib import QRDQN

from .. import settings
from .sb3 import arguments, timesteps_per_second


def q_learning(algorithm: str, update_frequency: int, timesteps: int) -> dict[str, float]:
    """Timesteps per second of ``learn``."""
    kinds = {"QR-DQN": (QRDQN, {"net_arch": [64, 64], "n_quantiles": settings.QUANTILES})}
    kind, policy = kinds[algorithm]
    more = {"max_grad_norm": settings.MAX_GRADIENT_NORM, "policy_kwargs": policy, **arguments(update_frequency)}
    return {"": timesteps_per_second(kind("MlpPolicy", settings.cartpole(), **more), timesteps)}
