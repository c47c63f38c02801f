"""Programs with constant weights that are changed by overwriting bytes of the LiteRT file.

LiteRT is fastest with constant weights, which no signature can set. Converting again takes a second or more;
overwriting bytes and making a new interpreter takes milliseconds, with the same result as a conversion. The places
are found and verified when a program is converted (``frozen.py``). Loads no TensorFlow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.protocols import Array
from .executors import Acted, Features
from .interpreter import ActSignature, LiteProgram


@dataclasses.dataclass(frozen=True)
class Placement:
    """A place of a weight in a file. A weight may have several.

    Args:
        name: name of the weight.
        offset: of its first byte.
        permutation: of its axes; LiteRT stores dense kernels as [out, in], convolutions as [out, height, width, in].
        factor: multiplier, in the weight's dtype, from a division of the inputs that was moved into the weight.
    """

    name: str
    offset: int
    permutation: tuple[int, ...]
    factor: float = 1.0

    def encode(self, weight: Array) -> bytes:
        """Bytes of this weight in the file."""
        array = weight.transpose(self.permutation)
        if self.factor != 1:
            array = array * array.dtype.type(self.factor)
        return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


@dataclasses.dataclass(frozen=True)
class FrozenProgram:
    """A LiteRT file with constant weights, and their places in it.

    Args:
        content: the file.
        placements: places of the weights on which it depends.
    """

    content: bytes
    placements: tuple[Placement, ...]

    def with_weights(self, weights: Mapping[str, Array]) -> bytes:
        """Content of the file with other weights, of the same names, shapes and dtypes."""
        content = bytearray(self.content)
        for place in self.placements:
            encoded = place.encode(weights[place.name])
            content[place.offset : place.offset + len(encoded)] = encoded
        return bytes(content)


class FrozenActor:
    """Acts with a frozen program; pays if many actions are taken between changes of the weights.

    Args:
        program: the frozen program, with the signature ``act``.
        predictions: names of the predictions.
        state: names of recurrent state arrays, or None.
        num_threads: for LiteRT.
    """

    def __init__(
        self, program: FrozenProgram, predictions: Sequence[str], state: Sequence[str] | None, num_threads: int = 1
    ) -> None:
        self._program = program
        self._details = predictions, state
        self._num_threads = num_threads
        self._act: ActSignature | None = None

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set the weights for acting."""
        lite = LiteProgram(self._program.with_weights(weights), self._num_threads)
        self._act = ActSignature(lite.signatures["act"], *self._details)

    def act(self, features: Features, draws: Sequence[Array] = ()) -> Acted:
        """Predictions [N, ...] for a batch of observations, and the next recurrent state, if the model has one.

        ``draws`` are not supported: a frozen program takes no noise.

        Raises:
            ValueError: it has no weights yet.
        """
        if self._act is None:
            raise ValueError("call set_weights before act")
        return self._act(features)


def to_json(placements: Iterable[Placement]) -> list[list[Any]]:
    """Placements as a JSON value."""
    return [[place.name, place.offset, list(place.permutation), place.factor] for place in placements]


def from_json(value: Iterable[Sequence[Any]]) -> tuple[Placement, ...]:
    """Decode placements of :func:`to_json`.

    Raises:
        TypeError, ValueError: the value is invalid.
    """
    return tuple(
        Placement(str(name), int(offset), tuple(int(axis) for axis in permutation), float(factor))
        for name, offset, permutation, factor in value
    )
