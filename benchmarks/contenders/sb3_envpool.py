"""Stable-Baselines3 stepping EnvPool, which steps in C++."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import envpool
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv

from .. import settings
from ..settings import Array
from .sb3 import PPO_LAYERS, ppo_model, ppo_speed


class Copies(VecEnv):  # type: ignore[misc]
    """EnvPool's copies with the interface of Stable-Baselines3: an episode that ended begins again at once."""

    def __init__(self, env_id: str, num_envs: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # bounds as float32
            self._envs: Any = envpool.make_gymnasium(env_id, num_envs=num_envs, num_threads=settings.threads(), seed=0)
        self._copies = np.arange(num_envs, dtype=np.int32)
        self._dtype = np.int32 if np.issubdtype(self._envs.action_space.dtype, np.integer) else np.float64
        self._actions: Array = self._copies
        super().__init__(num_envs, self._envs.observation_space, self._envs.action_space)

    def reset(self) -> Array:
        observations, _ = self._envs.reset()
        return self._as_floats(observations)

    def _as_floats(self, observations: Array) -> Array:
        return observations.astype(np.float32, copy=False)

    def step_async(self, actions: Array) -> None:
        self._actions = actions.astype(self._dtype, copy=False)

    def step_wait(self) -> Any:
        observations, rewards, terminated, truncated, _ = self._envs.step(self._actions)
        done = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if done.any():
            observations = observations.copy()
            for copy in np.flatnonzero(done):
                infos[copy]["terminal_observation"] = self._as_floats(observations[copy])
                infos[copy]["TimeLimit.truncated"] = bool(truncated[copy] and not terminated[copy])
            first, _ = self._envs.reset(self._copies[done])
            observations[done] = first
        return self._as_floats(observations), rewards.astype(np.float32, copy=False), done, infos

    def close(self) -> None:
        self._envs.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError(attr_name)

    def env_method(self, method_name: str, *given: Any, indices: Any = None, **more: Any) -> list[Any]:
        raise NotImplementedError(method_name)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        return [None] * self.num_envs  # it was seeded when it was made


def ppo(env_id: str, num_envs: int, rollout: int, minibatch: int, rollouts: int) -> dict[str, float]:
    """Timesteps per second of ``PPO.learn``."""
    return ppo_speed(ppo_model(PPO, PPO_LAYERS, Copies(env_id, num_envs), rollout, minibatch), rollouts)
