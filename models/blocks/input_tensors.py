"""Encode observations of any space into the single input tensor of a network."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from gymnasium import Space, spaces

from ...core.errors import ArgumentError
from ...core.tensorflow_import import tf

Tensor: TypeAlias = Any


class JoinedShape(tuple[int, ...]):
    """The shape of a flat encoding, ``(size,)``, with the shapes of the parts joined in it."""

    parts: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, parts: list[tuple[int, ...]]) -> JoinedShape:
        """The shape of joined parts; nested parts are listed individually."""
        shape = cls([sum(map(math.prod, parts))])
        shape.parts = tuple(leaf for part in parts for leaf in getattr(part, "parts", (part,)))
        return shape


def encoded_shape(space: Space[Any] | None) -> tuple[int, ...]:
    """Shape of a space's encoded observations, without the batch axis; a :class:`JoinedShape` for Dict and Tuple.

    Raises:
        ArgumentError: observations of this space cannot be encoded.
    """
    match space:
        case spaces.Box() | spaces.MultiBinary():
            return tuple(space.shape)
        case spaces.Discrete():
            return (int(space.n),)
        case spaces.MultiDiscrete():
            return (int(np.sum(space.nvec)),)
        case spaces.Dict() | spaces.Tuple():
            return JoinedShape.of([encoded_shape(part) for _, part in _parts(space)])
    raise ArgumentError(
        "a built-in network needs Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple observations, got"
        f" {space!r}",
        "observation_space",
        space,
    )


def encode(observation: Any, space: Space[Any] | None) -> Tensor:
    """Encode observations as the float32 input tensor of a network.

    Bytes (uint8 frames) are scaled to 0 .. 1; discrete values become one-hot; the parts of a Dict are flattened and
    concatenated in the order of their sorted keys, those of a Tuple in their order.

    Args:
        observation: tensor [B, ...], or for a Dict or a Tuple space a mapping of tensors, with nested keys joined by
            ``/``.
        space: one environment's observation space.

    Returns:
        float32 [B, *encoded_shape(space)].

    Raises:
        ArgumentError: observations of this space cannot be encoded.
    """
    match space:
        case spaces.Dict() | spaces.Tuple():
            parts = [encode(part_of(observation, key), part) for key, part in _parts(space)]
            return tf.concat([tf.reshape(part, [-1, math.prod(part.shape[1:])]) for part in parts], axis=-1)
        case spaces.Discrete():
            return tf.one_hot(observation - int(space.start), int(space.n), dtype=tf.float32)
        case spaces.MultiDiscrete():
            indices = tf.reshape(tf.cast(observation, tf.int32) - space.start.astype(np.int32), [-1, space.nvec.size])
            one_hots = [tf.one_hot(indices[:, i], int(n), dtype=tf.float32) for i, n in enumerate(space.nvec.flat)]
            return tf.concat(one_hots, axis=-1)
    encoded_shape(space)  # raises for every other space
    values = tf.cast(observation, tf.float32)
    return values / 255.0 if observation.dtype == tf.uint8 else values


def part_of(observation: Mapping[str, Any], key: str) -> Any:
    """A part of an observation: an array, or a mapping of its own parts, which are ``key/name`` in ``observation``."""
    if key in observation:
        return observation[key]
    start = f"{key}/"
    return {name.removeprefix(start): value for name, value in observation.items() if name.startswith(start)}


def _parts(space: spaces.Dict | spaces.Tuple[Any]) -> list[tuple[str, Space[Any]]]:
    if isinstance(space, spaces.Dict):
        return sorted((str(key), part) for key, part in space.spaces.items())
    return [(str(index), part) for index, part in enumerate(space.spaces)]
