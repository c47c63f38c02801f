"""What a space is: a box of numbers, or a dictionary or tuple of spaces."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ....core.protocols import Array
from .errors import refuse

Self = TypeVar("Self", bound="Space")
Size: TypeAlias = "int | tuple[int, ...] | None"
"""Of samples: one value, a batch, or several axes in front."""
Rank: TypeAlias = "bool | int"


class Space(ABC):
    """Which values states, actions or rewards have: shapes, dtypes and bounds.

    Spaces do not change once they are made. Two are equal if their kinds, shapes, dtypes and bounds are; whether they
    have a batch or time rank does not count.

    Attributes:
        has_batch_rank, has_time_rank, time_major: as given; they are kept and have no effect.
    """

    has_batch_rank: Rank
    has_time_rank: Rank
    time_major: bool
    _rng: np.random.Generator | None = None

    @classmethod
    def from_spec(cls: type[Self], spec: Any = None, **kwargs: Any) -> Self:
        """The space of a specification.

        Args:
            spec: ``"float"``, ``"int"``, ``"bool"`` or the type of that name; ``dict(type=, shape=, low=, high=)``; a
                dictionary or a tuple or list of such ones (a Dict, a Tuple); ``"FloatBox((256,))"``, the call of a
                class; or a Space or a space of Gymnasium.
            **kwargs: win over the entries of a dictionary with ``type``; also ``add_batch_rank``, ``add_time_rank`` and
                ``time_major``.

        Raises:
            RLGraphError: it is the specification of no space, or of none of the class that is called.
        """
        made: Any = _reads[0](cls, spec, kwargs)
        return made  # type: ignore[no-any-return]

    @property
    @abstractmethod
    def shape(self) -> tuple[Any, ...]:
        """Without batch and time; of a Dict or Tuple a tuple of shapes, keys sorted."""

    @property
    @abstractmethod
    def dtype(self) -> Any:
        """A NumPy dtype; of a Dict or Tuple one for each part."""

    @property
    @abstractmethod
    def rank(self) -> Any:
        """The number of axes; of a Dict or Tuple a tuple of these."""

    @property
    @abstractmethod
    def flat_dim(self) -> int:
        """How many numbers a value has."""

    @abstractmethod
    def sample(self, size: Size = None, *, rng: np.random.Generator | None = None) -> Any:
        """Random values: uniform within bounds, from N(0, 1) without any.

        Args:
            size: None for one value, or how many; a tuple of two puts two axes in front.
            rng: the generator to draw from; by default one of the space's own.
        """

    @abstractmethod
    def zeros(self, size: Size = None) -> Any:
        """Zeros of the space's shape and dtype; ``size`` as in :meth:`sample`."""

    @abstractmethod
    def contains(self, sample: Any) -> bool:
        """Whether one value, without a batch axis, is of the space's type and shape and within its bounds."""

    @abstractmethod
    def force_batch(self, samples: Any) -> Any:
        """A batch: of one value a batch of one, a batch unchanged."""

    @abstractmethod
    def flat(self) -> dict[str, Box]:
        """The boxes by flat name: ``""`` for a box alone, ``"a/b"`` within dictionaries, tuples' items ``"0"``, ...

        The order is that of the parts, with a Dict's keys sorted.
        """

    @abstractmethod
    def flatten(self, value: Any) -> dict[str, Any]:
        """A value, or a batch of values, by flat name; the parts are not checked.

        Raises:
            RLGraphError: it lacks a part or has one that is unknown.
        """

    @abstractmethod
    def unflatten(self, arrays: Mapping[str, Any]) -> Any:
        """The value whose parts these are by flat name: the opposite of :meth:`flatten`."""

    @abstractmethod
    def to_spec(self) -> Any:
        """The specification as JSON has it; ``Space.from_spec`` makes an equal space of it."""

    def with_extra_ranks(
        self: Self,
        add_batch_rank: Rank | None = True,
        add_time_rank: Rank | None = True,
        time_major: bool | None = None,
    ) -> Self:
        """A copy with these ranks; None leaves one as it is."""
        other = copy.copy(self)
        if add_batch_rank is not None:
            other.has_batch_rank = add_batch_rank
        if add_time_rank is not None:
            other.has_time_rank = add_time_rank
        if time_major is not None:
            other.time_major = time_major
        return other

    def with_batch_rank(self: Self, add_batch_rank: Rank = True) -> Self:
        """A copy with or without a batch rank."""
        return self.with_extra_ranks(add_batch_rank, None)

    def with_time_rank(self: Self, add_time_rank: Rank = True) -> Self:
        """A copy with or without a time rank."""
        return self.with_extra_ranks(None, add_time_rank)

    def __hash__(self) -> int:
        return hash(repr(self))

    def _set_ranks(self, add_batch_rank: Rank, add_time_rank: Rank, time_major: bool) -> None:
        given = {"add_batch_rank": add_batch_rank, "add_time_rank": add_time_rank, "time_major": time_major}
        for name, value in given.items():
            if not isinstance(value, bool | int):
                refuse(f"{type(self).__name__}: {name}", f"must be True, False or a number, got {value!r}", value)
        self.has_batch_rank, self.has_time_rank, self.time_major = add_batch_rank, add_time_rank, time_major

    def _generator(self, rng: np.random.Generator | None) -> np.random.Generator:
        if rng is not None:
            return rng
        if self._rng is None:
            self._rng = np.random.default_rng()
        return self._rng


class Box(Space):
    """Values of one shape and dtype.

    Attributes:
        low, high: the bounds, an array of shape () if all numbers have the same, else one of the space's shape.
    """

    low: Array
    high: Array
    _shape: tuple[int, ...]
    _dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """Without batch and time."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32, int32, uint8 or bool."""
        return self._dtype

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self._shape)

    @property
    def flat_dim(self) -> int:
        """How many numbers a value has."""
        return math.prod(self._shape)

    @property
    def bounds(self) -> tuple[Array, Array]:
        """``(low, high)``."""
        return self.low, self.high

    @property
    def unbounded(self) -> bool:
        """Have the numbers no bounds at all?"""
        return False

    def sample(self, size: Size = None, *, rng: np.random.Generator | None = None) -> Any:
        """Random values, arrays or NumPy scalars; see :meth:`Space.sample`."""
        return self._drawn((*leading(size), *self._shape), self._generator(rng)).astype(self._dtype)[()]

    def zeros(self, size: Size = None) -> Any:
        """Zeros, arrays or NumPy scalars; see :meth:`Space.sample`."""
        return np.zeros((*leading(size), *self._shape), self._dtype)[()]

    def contains(self, sample: Any) -> bool:
        """Whether one value is of this shape and within the bounds; numbers need not have the dtype."""
        try:
            array = np.asarray(sample)
        except (ValueError, TypeError):
            return False
        return array.shape == self._shape and not self.problem(array, bounded=True)

    def force_batch(self, samples: Any) -> Any:
        """A batch, an array [B, ...]; see :meth:`Space.force_batch`."""
        array = np.asarray(samples)
        return array[None] if array.ndim == len(self._shape) else array

    def flat(self) -> dict[str, Box]:
        """The box itself, under an empty name."""
        return {"": self}

    def flatten(self, value: Any) -> dict[str, Any]:
        """The value under an empty name."""
        return {"": value}

    def unflatten(self, arrays: Mapping[str, Any]) -> Any:
        """The array under the empty name."""
        return arrays[""]

    @abstractmethod
    def problem(self, array: Array, *, bounded: bool) -> str:
        """What is wrong with the numbers of an array of any shape, such as ``"must be finite"``; empty if nothing is.

        Args:
            array: one value or a batch, whose last axes are the space's.
            bounded: must floats be within the bounds? Integers always must.
        """

    @abstractmethod
    def _drawn(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array: ...

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Box) or type(other) is not type(self):
            return NotImplemented
        same = (self._shape, self._dtype, self.unbounded) == (other.shape, other.dtype, other.unbounded)
        return same and np.array_equal(self.low, other.low) and np.array_equal(self.high, other.high)

    __hash__ = Space.__hash__


Reader: TypeAlias = "Callable[[type[Space], Any, Mapping[str, Any]], Space]"
_reads: list[Reader] = []


def reads(function: Reader) -> Reader:
    """Decorates what ``Space.from_spec`` calls; it knows the subclasses, and so imports this module."""
    _reads[:] = [function]
    return function


def leading(size: Size) -> tuple[int, ...]:
    """The axes that a size puts in front."""
    return () if size is None else size if isinstance(size, tuple) else (size,)


def stacked(space: Space, values: list[Any]) -> Any:
    """A batch of the values of several lanes: arrays [B, ...], nested as the space is."""
    rows = [space.flatten(value) for value in values]
    return space.unflatten({name: np.stack([np.asarray(row[name]) for row in rows]) for name in space.flat()})
