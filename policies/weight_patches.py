"""Programs whose weights are constants: they are changed by writing over the bytes of the LiteRT file.

LiteRT is fastest where weights are constants, which no signature can set. Converting anew takes a second or more; to
write over the bytes and to make a new interpreter takes milliseconds, and gives what a conversion would have given.
Where the bytes are is found, and proved, when a program is converted (``frozen.py``). Loads no TensorFlow.
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
    """One place where a weight is in a file. A weight may have several.

    Args:
        name: the weight's.
        offset: of its first byte.
        permutation: of its axes; LiteRT keeps dense kernels as [out, in], convolutions as [out, height, width, in].
        factor: by which it is multiplied, in its own dtype: a division of the inputs that was moved into the weight.
    """

    name: str
    offset: int
    permutation: tuple[int, ...]
    factor: float = 1.0

    def encode(self, weight: Array) -> bytes:
        """What the file holds for this weight."""
        array = weight.transpose(self.permutation)
        if self.factor != 1:
            array = array * array.dtype.type(self.factor)
        return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


@dataclasses.dataclass(frozen=True)
class FrozenProgram:
    """A LiteRT file with constant weights, and where these are.

    Args:
        content: of the file.
        placements: of the weights that it depends on.
    """

    content: bytes
    placements: tuple[Placement, ...]

    def with_weights(self, weights: Mapping[str, Array]) -> bytes:
        """The content of the file with other weights, of the same names, shapes and dtypes."""
        content = bytearray(self.content)
        for place in self.placements:
            encoded = place.encode(weights[place.name])
            content[place.offset : place.offset + len(encoded)] = encoded
        return bytes(content)


class FrozenActor:
    """Acts with a frozen program; pays where there are many actions between two changes of the weights.

    Args:
        program: the frozen program, with the signature ``act``.
        predictions: names of what it predicts.
        state: names of the recurrent state's parts, or None.
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
        """Act with these weights from now on."""
        lite = LiteProgram(self._program.with_weights(weights), self._num_threads)
        self._act = ActSignature(lite.signatures["act"], *self._details)

    def act(self, features: Features, draws: Sequence[Array] = ()) -> Acted:
        """Predictions [N, ...] for a batch of observations, and the next recurrent state of a model that has one.

        There are no ``draws``: a frozen program takes no noise.

        Raises:
            ValueError: it has no weights yet.
        """
        if self._act is None:
            raise ValueError("set_weights comes before act")
        return self._act(features)


def to_json(placements: Iterable[Placement]) -> list[list[Any]]:
    """Placements as a JSON value."""
    return [[place.name, place.offset, list(place.permutation), place.factor] for place in placements]


def from_json(value: Iterable[Sequence[Any]]) -> tuple[Placement, ...]:
    """The placements that :func:`to_json` described.

    Raises:
        TypeError, ValueError: it is no such description.
    """
    return tuple(
        Placement(str(name), int(offset), tuple(int(axis) for axis in permutation), float(factor))
        for name, offset, permutation, factor in value
    )
