"""CartPole as arrays; the equations of Gymnasium's CartPoleEnv, in its order of operations."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from ...core.protocols import Array
from .elementwise import same_as_scalar
from .vector import NativeVectorEnv, pick


class CartPole(NativeVectorEnv):
    """N CartPoles; Barto, Sutton and Anderson (1983).

    Constants are 0-d arrays, and results go to preallocated arrays: both are faster for few lanes.
    """

    arguments = ("sutton_barto_reward",)

    def __init__(self, one: gymnasium.Env[Any, Any], num_envs: int) -> None:
        super().__init__(one, num_envs)
        env: Any = one.unwrapped
        # Cart and pole: positions, velocities, accelerations. The first four rows change by tau times the last four.
        self._rows = np.zeros((6, num_envs))
        self._state, self._change = self._rows[:4], self._rows[2:]
        self._in_order = self._state.reshape(2, 2, num_envs).transpose(2, 1, 0)  # lane; cart, pole; position, velocity
        self._positions = self._state[:2]
        self._bounds = np.array([[env.x_threshold], [env.theta_threshold_radians]])
        self._forces = np.array([-env.force_mag, env.force_mag])
        self._gravity, self._total_mass = np.array(env.gravity), np.array(env.total_mass)
        self._polemass_length, self._masspole = np.array(env.polemass_length), np.array(env.masspole)
        self._length, self._tau, self._four_thirds = np.array(env.length), np.array(env.tau), np.array(4.0 / 3.0)
        self._sin, self._cos = same_as_scalar(np.sin, num_envs), same_as_scalar(np.cos, num_envs)
        self._sine, self._cosine, self._temp, self._a, self._b = np.empty((5, num_envs))
        self._step = np.empty((4, num_envs))
        self._distances = np.empty((2, num_envs))
        self._is_outside = np.empty((2, num_envs), np.bool_)
        of_the_book = one.spec is not None and one.spec.kwargs.get("sutton_barto_reward", False)
        self._rewards = np.zeros(num_envs) if of_the_book else np.ones(num_envs)
        self._last_reward = -1.0 if of_the_book else 1.0

    def _advance(self, actions: Array) -> tuple[Array, Array, Array]:
        multiply, divide, subtract, add = np.multiply, np.divide, np.subtract, np.add
        _, theta, _, theta_dot, x_acceleration, theta_acceleration = self._rows
        sine, cosine, temp, a, b = self._sine, self._cosine, self._temp, self._a, self._b
        self._sin(theta, sine)
        self._cos(theta, cosine)
        # temp = (force + polemass_length * theta_dot² * sin) / total_mass
        multiply(theta_dot, theta_dot, temp)
        multiply(self._polemass_length, temp, temp)
        multiply(temp, sine, temp)
        add(pick(self._forces, actions), temp, temp)
        divide(temp, self._total_mass, temp)
        # theta'' = (gravity * sin - cos * temp) / (length * (4/3 - masspole * cos² / total_mass))
        multiply(self._gravity, sine, a)
        multiply(cosine, temp, b)
        subtract(a, b, a)
        multiply(cosine, cosine, b)
        multiply(self._masspole, b, b)
        divide(b, self._total_mass, b)
        subtract(self._four_thirds, b, b)
        multiply(self._length, b, b)
        divide(a, b, theta_acceleration)
        # x'' = temp - polemass_length * theta'' * cos / total_mass
        multiply(self._polemass_length, theta_acceleration, a)
        multiply(a, cosine, a)
        divide(a, self._total_mass, a)
        subtract(temp, a, x_acceleration)
        multiply(self._tau, self._change, self._step)
        add(self._state, self._step, self._state)
        np.absolute(self._positions, self._distances)
        np.greater(self._distances, self._bounds, self._is_outside)
        terminated: Array = np.logical_or(*self._is_outside)
        rewards = self._rewards.copy()
        if self._last_reward < 0:
            rewards[terminated] = self._last_reward
        return self._observe(), rewards, terminated

    def _observe(self) -> Array:
        observations = np.empty((self.num_envs, 2, 2), np.float32)
        observations[...] = self._in_order
        return observations.reshape(self.num_envs, 4)

    def _put(self, lane: int, state: Any) -> None:
        self._in_order[lane] = state.reshape(2, 2)
