"""The same for every contender: networks, hyperparameters, observations, environments."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LEARNING_RATE: Final = 1e-3
DISCOUNT: Final = 0.99
MAX_GRADIENT_NORM: Final = 10.0
EPSILON: Final = 0.05
MEMORY_SIZE: Final = 50_000
BATCH_SIZE: Final = 32
FIRST_UPDATE: Final = 100
TARGET_UPDATE_TIMESTEPS: Final = 500
WARM_UP_TIMESTEPS: Final = 1_000
"""DQN's timesteps before the measured ones: everything is compiled, and epsilon is down to ``EPSILON``."""
EPSILON_TIMESTEPS: Final = 50

ALPHA: Final = 0.6
BETA: Final = 0.4
PRIORITY_EPSILON: Final = 1e-6
"""Prioritized replay, with axonrl's defaults."""

C51: Final[dict[str, Any]] = {"atoms": 51, "v_min": 0.0, "v_max": 100.0}
QUANTILES: Final = 10
"""Quantiles of QR-DQN: rl-zoo's number for CartPole."""

PPO: Final = {"learning_rate": 3e-4, "epochs": 10, "clip": 0.2, "gae_lambda": 0.95, "max_gradient_norm": 0.5}
SAC: Final = {"learning_rate": 1e-3, "target_update_rate": 0.005}
NOISE: Final = 0.1
"""Standard deviation of TD3's and DDPG's exploration, of actions in -1 .. 1."""
TRPO: Final[dict[str, Any]] = {
    "learning_rate": 1e-3,
    "epochs": 10,
    "gae_lambda": 0.95,
    "max_kl": 0.01,
    "cg_iterations": 15,
    "damping": 0.1,
    "line_search_steps": 10,
    "line_search_shrink": 0.8,
}
"""SB3-Contrib's defaults; epochs are the value's."""
LSTM: Final = 64
SAC_FIRST_UPDATE: Final = 300
SAC_WARM_UP: Final = SAC_FIRST_UPDATE + 100
"""Timesteps before the measured ones."""


@dataclasses.dataclass(frozen=True)
class Network:
    """A Q network: dense layers, after the three convolutions of Nature's DQN if observations are frames."""

    shape: tuple[int, ...]
    hidden: tuple[int, ...]
    actions: int

    @property
    def has_frames(self) -> bool:
        return len(self.shape) == 3

    @property
    def dtype(self) -> Any:
        return np.uint8 if self.has_frames else np.float32


NETWORKS: Final = {
    "2x64": Network((4,), (64, 64), 2),
    "2x256": Network((4,), (256, 256), 2),
    "Nature CNN": Network((84, 84, 4), (512,), 6),
}
CONVOLUTIONS: Final = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Filters, kernel and stride of Mnih et al. 2015."""


def threads() -> int:
    """Number of threads of this process."""
    return int(os.environ.get("OMP_NUM_THREADS", "1"))


def observations(network: Network, batch: int) -> Array:
    """A batch of observations; frames have channels last."""
    rng = np.random.default_rng(batch)
    if network.has_frames:
        return rng.integers(0, 256, (batch, *network.shape), np.uint8)
    return rng.normal(size=(batch, *network.shape)).astype(np.float32)


def transitions(network: Network, batch: int) -> dict[str, Array]:
    """A batch of transitions, for contenders that are timed without a memory."""
    rng = np.random.default_rng(0)
    return {
        "observation": observations(network, batch),
        "action": rng.integers(0, network.actions, batch, np.int64),
        "reward": rng.normal(size=batch).astype(np.float32),
        "terminated": (rng.random(batch) < 0.1).astype(np.float32),
        "next_observation": observations(network, batch + 1)[:batch],
    }


def td_errors() -> Iterator[Array]:
    """Absolute TD errors [B] of batches, without end."""
    return itertools.cycle(np.abs(np.random.default_rng(0).normal(size=(100, BATCH_SIZE)).astype(np.float32)))


def cartpole() -> Any:
    """CartPole without Gymnasium's checker, which axonrl leaves out as well."""
    import gymnasium

    return gymnasium.make("CartPole-v1", disable_env_checker=True)


ATARI: Final = "ALE/Pong-v5"
ATARI_OPTIONS: Final[dict[str, Any]] = {"frameskip": 1, "repeat_action_probability": 0.0}
"""AtariPreprocessing skips frames."""
FRAME_STACK: Final = 4
ATARI_MEMORY_SIZE: Final = 10_000
ATARI_UPDATE_FREQUENCY: Final = 4


def vector_actions(copies: int) -> Array:
    """Random actions of CartPole [T, N]."""
    return np.random.default_rng(0).integers(0, 2, (1_000, copies))


def environment_for(network: Network) -> Any:
    """An environment with the observations of this network: CartPole, or frames drawn beforehand."""
    if not network.has_frames:
        return cartpole()
    import gymnasium

    class Frames(gymnasium.Env[Array, np.int64]):
        """Episodes of 100 timesteps of noise."""

        observation_space = gymnasium.spaces.Box(0, 255, network.shape, np.uint8)
        action_space = gymnasium.spaces.Discrete(network.actions)
        frames = observations(network, 101)
        time = 0

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
            super().reset(seed=seed)
            self.time = 0
            return self.frames[0], {}

        def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
            self.time += 1
            return self.frames[self.time], 1.0, self.time == 100, False, {}

    return Frames()
