"""The same for axonrl and RLlib: networks, hyperparameters, sizes."""

from __future__ import annotations

from typing import Any, Final

from ..settings import ALPHA, BETA, DISCOUNT, MEMORY_SIZE

__all__ = ["ALPHA", "BETA", "DISCOUNT", "MEMORY_SIZE"]

HIDDEN: Final = (64, 64)
LEARNING_RATE: Final = 5e-4
MAX_GRADIENT_NORM: Final = 40.0

ENVIRONMENTS: Final = 16
"""Environments of an actor, stepped together."""
UNROLL: Final = 50
"""Timesteps of each."""
ROLLOUT: Final = ENVIRONMENTS * UNROLL
VALUE_COEFFICIENT: Final = 0.5
ENTROPY_COEFFICIENT: Final = 0.01
AXONRL_IMPALA: Final[dict[str, Any]] = {
    "hidden": HIDDEN,
    "activation": "tanh",
    "shared": True,
    "learning_rate": LEARNING_RATE,
    "value_coefficient": VALUE_COEFFICIENT,
    "entropy_coefficient": ENTROPY_COEFFICIENT,
    "max_gradient_norm": MAX_GRADIENT_NORM,
}

DQN_ENVIRONMENTS: Final = 8
DQN_UNROLL: Final = 25
BATCH_SIZE: Final = 64
N_STEP: Final = 3
FIRST_UPDATE: Final = 1_000
UPDATE_FREQUENCY: Final = 8
"""Timesteps for an update: each timestep is trained on ``BATCH_SIZE / UPDATE_FREQUENCY`` times."""
TARGET_UPDATE_TIMESTEPS: Final = 500
AXONRL_DQN: Final[dict[str, Any]] = {
    "hidden": HIDDEN,
    "activation": "relu",
    "double": True,
    "dueling": "mean",
    "learning_rate": LEARNING_RATE,
    "max_gradient_norm": MAX_GRADIENT_NORM,
    "target_update_period": TARGET_UPDATE_TIMESTEPS // UPDATE_FREQUENCY,
}
