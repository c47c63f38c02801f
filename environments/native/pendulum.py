"""Pendulum as arrays; the equations of Gymnasium's PendulumEnv, in its order of operations."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from ...core.protocols import Array
from .elementwise import same_as_scalar, squared
from .vector import NativeVectorEnv


class Pendulum(NativeVectorEnv):
    """N Pendulums. States are float64; the torque and its cost are float32."""

    arguments = ("g",)

    def __init__(self, one: gymnasium.Env[Any, Any], num_envs: int) -> None:
        super().__init__(one, num_envs)
        env: Any = one.unwrapped
        self._state = np.zeros((2, num_envs))
        self._dt, self._max_speed, self._max_torque = env.dt, float(env.max_speed), np.float32(env.max_torque)
        self._pull = 3 * env.g / (2 * env.l)
        self._push = np.float32(3.0 / (env.m * env.l**2))
        self._sin, self._cos = same_as_scalar(np.sin, num_envs), same_as_scalar(np.cos, num_envs)
        self._trigonometric = np.zeros((2, num_envs))
        self._sine_is_known = False

    def _advance(self, actions: Array) -> tuple[Array, Array, Array]:
        angle, speed = self._state
        torque: Array = np.minimum(
            np.maximum(np.asarray(actions, np.float32)[:, 0], -self._max_torque), self._max_torque
        )
        normal = np.remainder(angle + np.pi, 2 * np.pi) - np.pi
        costs = np.array(squared(normal)) + 0.1 * np.array(squared(speed))
        costs += np.float32(0.001) * np.array(squared(torque))
        _, sine = self._trigonometric
        if not self._sine_is_known:
            self._sin(angle, sine)
        np.add(speed, (self._pull * sine + self._push * torque) * self._dt, speed)
        np.minimum(np.maximum(speed, -self._max_speed), self._max_speed, out=speed)
        np.add(angle, speed * self._dt, angle)
        observations = np.empty((self.num_envs, 3), np.float32)
        cosine, sine = self._trigonometric
        self._cos(angle, cosine)
        self._sin(angle, sine)
        self._sine_is_known = True
        observations[:, :2] = self._trigonometric.T
        observations[:, 2] = speed
        return observations, -costs, np.zeros(self.num_envs, np.bool_)

    def _put(self, lane: int, state: Any) -> None:
        super()._put(lane, state)
        self._sine_is_known = False

    def _restore(self, saved: Any) -> None:
        super()._restore(saved)
        self._sine_is_known = False
