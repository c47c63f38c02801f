"""MountainCar and MountainCarContinuous as arrays, with the equations and the precision of Gymnasium's environments."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np

from ...core.protocols import Array
from .elementwise import math_cos
from .vector import NativeVectorEnv, pick


class MountainCar(NativeVectorEnv):
    """N MountainCars; Moore (1990). Everything is float64."""

    arguments = ("goal_velocity",)

    def __init__(self, one: gymnasium.Env[Any, Any], num_envs: int) -> None:
        super().__init__(one, num_envs)
        env: Any = one.unwrapped
        self._env = env
        self._state = np.zeros((2, num_envs))
        self._pushes = np.array([(action - 1) * env.force for action in range(3)])
        self._pull = np.array(-env.gravity)
        self._goal_velocity = float(env.goal_velocity)

    def _advance(self, actions: Array) -> tuple[Array, Array, Array]:
        env = self._env
        position, velocity = self._state
        pull = np.array(math_cos(position * 3))
        np.multiply(pull, self._pull, pull)
        np.add(pick(self._pushes, actions), pull, pull)
        np.add(velocity, pull, velocity)
        np.minimum(np.maximum(velocity, -env.max_speed), env.max_speed, out=velocity)
        np.add(position, velocity, position)
        np.minimum(np.maximum(position, env.min_position), env.max_position, out=position)
        _stop(position == env.min_position, velocity)
        terminated: Array = (position >= env.goal_position) & (velocity >= self._goal_velocity)
        return self._state.T.astype(np.float32), np.full(self.num_envs, -1.0), terminated


class MountainCarContinuous(NativeVectorEnv):
    """N MountainCarContinuous; Moore (1990).

    Gymnasium's environment begins an episode with a float64 state; later states are float32. It clips an action beyond
    its bounds to a Python number, which is not rounded to float32. Lanes with such a state or action are computed one
    by one.
    """

    arguments = ("goal_velocity",)

    def __init__(self, one: gymnasium.Env[Any, Any], num_envs: int) -> None:
        super().__init__(one, num_envs)
        env: Any = one.unwrapped
        self._env = env
        self._state = np.zeros((2, num_envs), np.float32)
        self._first: dict[int, Array] = {}
        """Lanes at the beginning of an episode, with their states in float64."""

    def _advance(self, actions: Array) -> tuple[Array, Array, Array]:
        env = self._env
        action: Array = np.asarray(actions, np.float32)[:, 0]
        force: Array = np.minimum(np.maximum(action, np.float32(env.min_action)), np.float32(env.max_action))
        alone = list(self._first)
        if not np.array_equal(force, action):
            alone += [lane for lane in np.flatnonzero(force != action).tolist() if lane not in self._first]
        results = [self._advance_one(lane, action[lane]) for lane in alone]
        position, velocity = self._state
        pull = 0.0025 * np.array(math_cos(position * np.float32(3)))
        np.add(velocity, force * np.float32(env.power) - pull.astype(np.float32), velocity)
        fastest = np.float32(env.max_speed)
        np.maximum(np.minimum(velocity, fastest), -fastest, out=velocity)
        np.add(position, velocity, position)
        lowest = np.float32(env.min_position)
        np.maximum(np.minimum(position, np.float32(env.max_position)), lowest, out=position)
        _stop(position == lowest, velocity)
        terminated: Array = (position >= np.float32(env.goal_position)) & (velocity >= np.float32(env.goal_velocity))
        for lane, (state, is_there) in zip(alone, results, strict=True):
            self._state[:, lane], terminated[lane] = state, is_there
        self._first.clear()
        costs = np.array([math.pow(one, 2) for one in action.tolist()])
        rewards = np.where(terminated, 100.0, 0.0) - costs * 0.1
        return self._state.T.copy(), rewards, terminated

    def _advance_one(self, lane: int, action: Any) -> tuple[tuple[Any, Any], bool]:
        """The next state of one lane, with the number types of Gymnasium's environment: NumPy's or Python's."""
        env = self._env
        position, velocity = self._first.get(lane, self._state[:, lane])
        force = min(max(action, env.min_action), env.max_action)
        velocity = velocity + (force * env.power - 0.0025 * math.cos(3 * position))
        velocity = max(min(velocity, env.max_speed), -env.max_speed)
        position = position + velocity
        position = max(min(position, env.max_position), env.min_position)
        if position == env.min_position and velocity < 0:
            velocity = 0.0
        return (position, velocity), bool(position >= env.goal_position and velocity >= env.goal_velocity)

    def _put(self, lane: int, state: Any) -> None:
        self._first[lane] = state.copy()
        self._state[:, lane] = state

    def _state_copy(self) -> Any:
        first = np.full((2, self.num_envs), np.nan)
        for lane, state in self._first.items():
            first[:, lane] = state
        return {"state": self._state.copy(), "first": first}

    def _restore(self, saved: Any) -> None:
        self._state[...] = saved["state"]
        first = saved["first"]
        self._first = {lane: first[:, lane].copy() for lane in np.flatnonzero(~np.isnan(first[0])).tolist()}


def _stop(is_lowest: Array, velocity: Array) -> None:
    """Stop cars that reach the left end."""
    if is_lowest.any():
        velocity[is_lowest & (velocity < 0)] = 0.0
