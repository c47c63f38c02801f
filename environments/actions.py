"""Actions for environments: checked, clipped, and cast to the dtype of the action space.

Actions of Dict and Tuple spaces are flat dictionaries of arrays as input, and nested like the space as output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Tuple

from ..core.checks import all_finite
from ..core.errors import ArgumentError, BrokenEnvironmentError, NonFiniteError
from ..core.protocols import NO_LEGAL_ACTION, Array, ArraySpec
from . import spaces


class ArrayActions:
    """Converts a batch of actions [N, ...] to arguments of ``env.step``. The only place where actions are clipped.

    Args:
        space: one environment's action space, which is neither a Dict nor a Tuple.
        spec: spec of one action.
        num_envs: N.
    """

    def __init__(self, space: spaces.AnySpace, spec: ArraySpec, num_envs: int) -> None:
        self._space = space
        self._shape = (num_envs, *spec.shape)
        self._is_discrete = isinstance(space, Discrete)
        self._is_box = isinstance(space, Box)
        self._kinds = "f" if self._is_box else "iu"
        self._dtype: np.dtype[Any] = np.dtype(space.dtype)
        self._scalar = self._dtype.type
        limits: Any = (space.low, space.high) if isinstance(space, Box) else spaces.limits(space)
        self._low, self._high = limits

    def each(self, actions: Any) -> list[Any]:
        """One action per environment, of the type of ``space.sample()``: NumPy integers for Discrete, else arrays.

        Args:
            actions: [N, ...] in the environment's units.

        Raises:
            ArgumentError: wrong shape or dtype, or an action outside the space.
            NonFiniteError: an action is NaN, or infinite where its space is unbounded.
            BrokenEnvironmentError: an action is ``NO_LEGAL_ACTION``; names the environment.
        """
        if not self._is_discrete:
            batch = self.batch(actions)
            return [batch[i, ...] for i in range(len(batch))]
        self._check_kind(actions)
        low, high = self._low, self._high
        for value in actions.tolist():
            if not low <= value <= high:
                _check_legal(actions)
                raise self._outside(value)
        return list(actions.astype(self._dtype))

    def single(self, actions: Any) -> Any:
        """:meth:`each` for the only environment."""
        if self._is_discrete and actions.shape == (1,) and actions.dtype.kind == "i":
            value = actions.item()
            if self._low <= value <= self._high:
                return self._scalar(value)
        (one,) = self.each(actions)  # raises for invalid actions
        return one

    def batch(self, actions: Any, ignored: Array | None = None) -> Array:
        """A new array [N, ...] in the space's dtype, clipped for a Box; raises as :meth:`each`.

        Args:
            actions: [N, ...] in the environment's units.
            ignored: bool [N], rows whose action the environment ignores, and which need not be legal.
        """
        self._check_kind(actions)
        if self._is_box:
            array: Array = np.minimum(np.maximum(actions.astype(self._dtype), self._low), self._high)
            if not all_finite(array):
                raise NonFiniteError(f"an action for {self._space} is not finite: {actions.tolist()}")
            return array
        if ignored is not None:
            actions = actions.copy()
            actions[ignored] = self._low
        if self._is_discrete:  # Python compares a few numbers faster than NumPy
            each = actions.tolist()
            is_outside = min(each) < self._low or max(each) > self._high
        else:
            is_outside = bool(((actions < self._low) | (actions > self._high)).any())
        if is_outside:  # checked before the cast, which may overflow
            _check_legal(actions)
            raise self._outside(actions.tolist())
        made: Array = actions.astype(self._dtype)
        return made

    def _outside(self, actions: Any) -> ArgumentError:
        allowed = f", whose actions are {self._low} .. {self._high}" if self._is_discrete else ""
        return ArgumentError(f"the action {actions} is not in {self._space}{allowed}", "actions", actions)

    def _check_kind(self, actions: Array) -> None:
        if not isinstance(actions, np.ndarray):
            raise ArgumentError(f"actions for {self._space} must be an array, got {actions!r}", "actions", actions)
        if actions.shape != self._shape or actions.dtype.kind not in self._kinds:
            expected = f"{'a float' if self._is_box else 'an integer'} array of shape {self._shape}"
            found = f"{actions.dtype} {actions.shape}"
            raise ArgumentError(f"actions for {self._space} must be {expected}, got {found}", "actions", actions)


class CompositeActions:
    """:class:`ArrayActions` for a Dict or a Tuple space: actions are a flat dictionary of arrays [N, ...].

    Args:
        space: one environment's action space; ArgumentError if unsupported.
        num_envs: N.
    """

    def __init__(self, space: spaces.AnySpace, num_envs: int) -> None:
        self._space = space
        self._leaves = {
            leaf.name: ArrayActions(leaf.space, leaf.spec, num_envs) for leaf in spaces.leaves(space, "action")
        }

    def each(self, actions: Any) -> list[Any]:
        """One action per environment, of the type of ``space.sample()``; raises as :meth:`ArrayActions.each`."""
        self._check(actions)
        columns = [leaf.each(actions[name]) for name, leaf in self._leaves.items()]
        return [nest(self._space, dict(zip(self._leaves, row, strict=True))) for row in zip(*columns, strict=True)]

    def single(self, actions: Any) -> Any:
        """:meth:`each` for the only environment."""
        self._check(actions)
        return nest(self._space, {name: leaf.single(actions[name]) for name, leaf in self._leaves.items()})

    def batch(self, actions: Any, ignored: Array | None = None) -> Any:
        """New arrays [N, ...], nested for a vector environment; see :meth:`ArrayActions.batch`."""
        self._check(actions)
        return nest(self._space, {name: leaf.batch(actions[name], ignored) for name, leaf in self._leaves.items()})

    def _check(self, actions: Any) -> None:
        if not isinstance(actions, Mapping) or actions.keys() != self._leaves.keys():
            found = ", ".join(map(repr, actions)) if isinstance(actions, Mapping) else type(actions).__name__
            expected = ", ".join(map(repr, self._leaves))
            message = f"actions for {self._space} must be a mapping of {expected} to arrays, got {found}"
            raise ArgumentError(message, "actions", actions)


Actions: TypeAlias = ArrayActions | CompositeActions


def actions_for(space: spaces.AnySpace, num_envs: int) -> Actions:
    """Converter of a space's actions [N, ...] to arguments of ``env.step``; ArgumentError if unsupported."""
    spec = spaces.action_spec(space)
    return ArrayActions(space, spec, num_envs) if isinstance(spec, ArraySpec) else CompositeActions(space, num_envs)


def nest(space: spaces.AnySpace, values: Mapping[str, Any], prefix: str = "") -> Any:
    """Nest the values of a space's leaves, given by name, like the space."""
    if not isinstance(space, Dict | Tuple):
        return values[prefix]
    inside = {key: nest(part, values, f"{prefix}/{key}" if prefix else key) for key, part in spaces.parts(space)}
    return dict(zip(space.spaces, inside.values(), strict=True)) if isinstance(space, Dict) else tuple(inside.values())


def _check_legal(actions: Array) -> None:
    """Raise ``BrokenEnvironmentError`` for the first row whose mask allows no action."""
    without = (actions == NO_LEGAL_ACTION).reshape(len(actions), -1).any(axis=1)
    if without.any():
        row = int(without.argmax())
        raise BrokenEnvironmentError(f"the observation of environment {row} has a mask without a legal action", row)
