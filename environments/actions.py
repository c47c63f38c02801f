"""Actions for environments: checked, clipped, and cast to the dtype of the action space."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from ..checks import all_finite
from ..contracts import Array
from ..errors import ArgumentError, NonFiniteError
from . import spaces


class Actions:
    """Turns a batch of actions [N, ...] into arguments of ``env.step``. The only place where actions are clipped.

    Args:
        space: one environment's action space; ArgumentError if unsupported.
        num_envs: N.
    """

    def __init__(self, space: spaces.AnySpace, num_envs: int) -> None:
        spec = spaces.action_spec(space)
        self._space = space
        self._shape = (num_envs, *spec.shape)
        self._is_discrete = isinstance(space, Discrete)
        self._is_box = isinstance(space, Box)
        self._kinds = "f" if self._is_box else "iu"
        self._dtype: np.dtype[Any] = np.dtype(space.dtype)
        self._scalar = self._dtype.type
        limits: Any = (space.low, space.high) if isinstance(space, Box) else spaces.limits(space)
        self._low, self._high = limits

    def each(self, actions: Array) -> list[Any]:
        """One action per environment, of the type of ``space.sample()``: NumPy integers for Discrete, else arrays.

        Args:
            actions: [N, ...] in the environment's units.

        Raises:
            ArgumentError: wrong shape or dtype, or an action outside the space.
            NonFiniteError: an action is NaN, or infinite where its space is unbounded.
        """
        if not self._is_discrete:
            batch = self.batch(actions)
            return [batch[i, ...] for i in range(len(batch))]
        self._check_kind(actions)
        low, high = self._low, self._high
        for value in actions.tolist():
            if not low <= value <= high:
                raise ArgumentError(f"the action {value} is not in {self._space}", "actions", actions)
        return list(actions.astype(self._dtype))

    def single(self, actions: Array) -> Any:
        """:meth:`each` for the only environment."""
        if self._is_discrete and actions.shape == (1,) and actions.dtype.kind == "i":
            value = actions.item()
            if self._low <= value <= self._high:
                return self._scalar(value)
        (one,) = self.each(actions)  # raises for invalid actions
        return one

    def batch(self, actions: Array) -> Array:
        """A new array [N, ...] in the space's dtype, clipped for a Box; raises as :meth:`each`."""
        self._check_kind(actions)
        if self._is_box:
            array: Array = np.minimum(np.maximum(actions.astype(self._dtype), self._low), self._high)
            if not all_finite(array):
                raise NonFiniteError(f"an action for {self._space} is not finite: {actions.tolist()}")
            return array
        if bool(((actions < self._low) | (actions > self._high)).any()):  # before the cast, which may wrap around
            raise ArgumentError(f"an action of {actions.tolist()} is not in {self._space}", "actions", actions)
        return actions.astype(self._dtype)

    def _check_kind(self, actions: Array) -> None:
        if not isinstance(actions, np.ndarray):
            raise ArgumentError(f"actions for {self._space} must be an array, got {actions!r}", "actions", actions)
        if actions.shape != self._shape or actions.dtype.kind not in self._kinds:
            expected = f"{'float' if self._is_box else 'integer'} array of shape {self._shape}"
            found = f"{actions.dtype} {actions.shape}"
            raise ArgumentError(f"actions for {self._space} must be an {expected}, got {found}", "actions", actions)
