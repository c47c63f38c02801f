"""Stable-Baselines3's contributed algorithms."""

from __future__ import annotations

from typing import Any

from sb3_contrib import QRDQN

from .. import settings
from .sb3 import arguments, timesteps_per_second

ALGORITHMS: dict[str, Any] = {"QR-DQN": (QRDQN, {"n_quantiles": settings.QUANTILES})}


def q_learning(algorithm: str, update_frequency: int, timesteps: int) -> dict[str, float]:
    """Timesteps per second of ``learn``."""
    kind, policy = ALGORITHMS[algorithm]
    more = {"max_grad_norm": settings.MAX_GRADIENT_NORM, "policy_kwargs": {"net_arch": [64, 64], **policy}}
    model = kind("MlpPolicy", settings.cartpole(), **more, **arguments(update_frequency))
    return {"": timesteps_per_second(model, timesteps)}
