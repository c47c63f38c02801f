"""Acrobot as arrays; the equations of Gymnasium's AcrobotEnv (from the book), in its order of operations."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from ...core.protocols import Array
from .elementwise import same_as_scalar, squared
from .vector import NativeVectorEnv, pick


class Acrobot(NativeVectorEnv):
    """N Acrobots; Sutton (1996). The initial state is rounded to float32; later states are float64."""

    def __init__(self, one: gymnasium.Env[Any, Any], num_envs: int) -> None:
        super().__init__(one, num_envs)
        env: Any = one.unwrapped
        self._state = np.zeros((4, num_envs))
        self._torques = np.array(env.AVAIL_TORQUE, np.float64)
        self._dt = env.dt
        self._bounds = np.array([[env.MAX_VEL_1], [env.MAX_VEL_2]])
        m1, m2, l1, l2 = env.LINK_MASS_1, env.LINK_MASS_2, env.LINK_LENGTH_1, env.LINK_COM_POS_2
        lc1, self._moment, gravity = env.LINK_COM_POS_1, env.LINK_MOI, 9.8
        # Products of constants, grouped as in Gymnasium's expressions.
        self._m2 = m2
        self._d1 = m1 * lc1**2, l1**2 + l2**2, 2 * l1 * l2
        self._d2 = l2**2, l1 * l2
        self._phi1 = -m2 * l1 * l2, 2 * m2 * l1 * l2, (m1 * lc1 + m2 * l1) * gravity
        self._phi2 = m2 * l2 * gravity
        self._coupling, self._inertia = m2 * l1 * l2, m2 * l2**2 + self._moment
        self._sin = same_as_scalar(np.sin, num_envs)
        self._cos, self._cos_of_three = same_as_scalar(np.cos, num_envs), same_as_scalar(np.cos, 3 * num_envs)
        self._sin_of_two, self._cos_of_two = (same_as_scalar(f, 2 * num_envs) for f in (np.sin, np.cos))

    def _advance(self, actions: Array) -> tuple[Array, Array, Array]:
        state, torque, dt = self._state, pick(self._torques, actions), self._dt
        half = dt / 2.0
        k1 = self._derivatives(state, torque)
        k2 = self._derivatives(state + half * k1, torque)
        k3 = self._derivatives(state + half * k2, torque)
        k4 = self._derivatives(state + dt * k3, torque)
        np.add(state, dt / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4), state)
        _wrap(state[:2])
        np.minimum(np.maximum(state[2:], -self._bounds), self._bounds, out=state[2:])
        n = self.num_envs
        sines, cosines, total = np.empty((2, n)), np.empty((2, n)), np.empty(n)
        self._sin_of_two(state[:2].reshape(-1), sines.reshape(-1))
        self._cos_of_two(state[:2].reshape(-1), cosines.reshape(-1))
        self._cos(state[1] + state[0], total)
        terminated: Array = -cosines[0] - total > 1.0
        observations = np.empty((n, 6), np.float32)
        observations[:, 0:4:2] = cosines.T
        observations[:, 1:4:2] = sines.T
        observations[:, 4:] = state[2:].T
        return observations, np.where(terminated, 0.0, -1.0), terminated

    def _derivatives(self, state: Array, torque: Array) -> Array:
        theta1, theta2, speed1, speed2 = state
        angles, cosines, sine = np.empty((3, self.num_envs)), np.empty((3, self.num_envs)), np.empty(self.num_envs)
        angles[0] = theta2
        angles[1] = theta1 + theta2 - np.pi / 2.0
        angles[2] = theta1 - np.pi / 2
        self._cos_of_three(angles.reshape(-1), cosines.reshape(-1))
        self._sin(theta2, sine)
        m2, moment = self._m2, self._moment
        d1 = self._d1[0] + m2 * (self._d1[1] + self._d1[2] * cosines[0]) + moment + moment
        d2 = m2 * (self._d2[0] + self._d2[1] * cosines[0]) + moment
        phi2 = self._phi2 * cosines[1]
        phi1 = (
            self._phi1[0] * np.array(squared(speed2)) * sine
            - self._phi1[1] * speed2 * speed1 * sine
            + self._phi1[2] * cosines[2]
            + phi2
        )
        derivatives = np.empty_like(state)
        derivatives[:2] = state[2:]
        acceleration2 = torque + d2 / d1 * phi1 - self._coupling * np.array(squared(speed1)) * sine - phi2
        acceleration2 /= self._inertia - np.array(squared(d2)) / d1
        derivatives[2] = -(d2 * acceleration2 + phi1) / d1
        derivatives[3] = acceleration2
        return derivatives


def _wrap(angles: Array) -> None:
    """Wrap angles into -pi .. pi in place, by adding or subtracting full turns one at a time."""
    turn = 2 * np.pi
    while (above := angles > np.pi).any():
        angles[above] -= turn
    while (below := angles < -np.pi).any():
        angles[below] += turn
