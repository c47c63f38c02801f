"""Encoding of observations for a model: the input of its networks, and the mask of legal actions."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

import numpy as np
from gymnasium import Space, spaces

from ...core.errors import ArgumentError
from ...core.protocols import ACTION_MASK
from ...core.tensorflow_import import tf
from .input_tensors import encode, encoded_shape, part_of
from .params import Params, param, text

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskParams(Params):
    """The parameter of algorithms with masks."""

    action_mask: str = param(
        ACTION_MASK, "name of the entry of a Dict observation that masks legal actions, if there is one", text()
    )


class Observations:
    """Encoding of observations: the input of the networks, and the mask if there is one.

    The mask is not an input of a network. If it leaves one entry of the Dict, the network gets that entry alone.

    Args:
        space: space of one observation.
        action_space: space of the masked actions.
        name: name of the entry with the mask; must exist if it is not the default.

    Raises:
        ArgumentError: the spaces do not fit a network, or the mask does not fit the actions.
    """

    def __init__(self, space: Space[Any] | None, action_space: Space[Any] | None, name: str = ACTION_MASK) -> None:
        self._keys: tuple[str, ...] = ()  # of the only remaining entry
        entries = dict(space.spaces) if isinstance(space, spaces.Dict) else {}
        self._mask = name if name in entries else None
        if self._mask is None and name != ACTION_MASK:
            message = f"action_mask names {name!r}, which is no entry of the observation space {space!r}"
            raise ArgumentError(message, "action_mask", name)
        if self._mask is not None:
            _check_mask(name, entries.pop(name), action_space)
            if not entries:
                message = f"the observation space {space!r} has nothing but the mask: a network needs another entry"
                raise ArgumentError(message, "observation_space", space)
            self._keys = tuple(map(str, entries)) if len(entries) == 1 else ()
            space = next(iter(entries.values())) if self._keys else spaces.Dict(entries)
        self._space = space
        self.shape = encoded_shape(space)
        """Shape of an encoded observation, without the batch axis."""

    def encode(self, observation: Any) -> Tensor:
        """The input of the networks, float32 [B, *shape], without the mask."""
        for key in self._keys:
            observation = part_of(observation, key)
        return encode(observation, self._space)

    def mask(self, observation: Any) -> Tensor | None:
        """Mask of legal actions, bool [B, A]; None if observations have no mask."""
        return None if self._mask is None else tf.cast(observation[self._mask], tf.float32) > 0.5

    def masks(self, observation: Any) -> dict[str, Tensor]:
        """The mask under the name that explorations and distributions read; empty if there is none."""
        mask = self.mask(observation)
        return {} if mask is None else {ACTION_MASK: mask}


def _check_mask(name: str, space: Space[Any], action_space: Any) -> None:
    match action_space:
        case spaces.Discrete():
            size = int(action_space.n)
        case spaces.MultiDiscrete():
            size = int(np.sum(action_space.nvec))
        case _:
            message = (
                f"observation[{name!r}] masks Discrete and MultiDiscrete actions, and the action space is"
                f" {action_space!r}: give that entry another name"
            )
            raise ArgumentError(message, "action_space", action_space)
    bits = isinstance(space, spaces.MultiBinary) or (
        isinstance(space, spaces.Box)
        and space.dtype.kind in "biu"
        and bool((space.low == 0).all() and (space.high == 1).all())
    )
    if not bits or space.shape != (size,):
        message = (
            f"observation[{name!r}] must be a mask of {size} actions, MultiBinary({size}) or a Box of bool or integers"
            f" in 0 .. 1 of shape ({size},), got {space!r}"
        )
        raise ArgumentError(message, "observation_space", space)
