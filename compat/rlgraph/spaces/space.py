"""Spaces: trees whose leaves are boxes of numbers, and whose inner nodes are dictionaries or tuples."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..utils.rlgraph_errors import RLGraphError, refuse

Self = TypeVar("Self", bound="Space")
Size: TypeAlias = "int | tuple[int, ...] | None"
"""Size of samples: one value, a batch, or several axes in front."""
Rank: TypeAlias = "bool | int"


class Space(ABC):
    """Set of the values of states, actions or rewards: shapes, dtypes and bounds.

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
    def shape(self) -> Any:
        """Shape without batch and time; of a Dict or Tuple a tuple of shapes, keys sorted."""
        return self.map_boxes(lambda box: box.shape)

    def get_shape(
        self,
        with_batch_rank: Rank = False,
        with_time_rank: Rank = False,
        time_major: bool | None = None,
        with_category_rank: bool = False,
    ) -> tuple[Any, ...]:
        """The shape with the ranks that the space has and that are asked for.

        Args:
            with_batch_rank: True puts None in front, a number that number.
            with_time_rank: likewise.
            time_major: does time come first? None: as the space has it.
            with_category_rank: add an axis for the values of integers.
        """
        ranks = (with_batch_rank, with_time_rank, time_major, with_category_rank)
        shape: tuple[Any, ...] = self.map_boxes(lambda box: box.get_shape(*ranks))
        return shape

    @property
    def dtype(self) -> Any:
        """A NumPy dtype: float32, int32, uint8 or bool; of a Dict or Tuple one for each part."""
        return self._each(lambda box: box.dtype)

    @property
    def rank(self) -> Any:
        """The number of axes; of a Dict or Tuple a tuple of these."""
        return self.map_boxes(lambda box: len(box.shape))

    @property
    def flat_dim(self) -> int:
        """Count of numbers in a value."""
        return sum(int(np.prod(box.shape)) for box in self.flat().values())

    def sample(self, size: Size = None, horizontal: bool = False, *, rng: np.random.Generator | None = None) -> Any:
        """Random values: uniform within bounds, from N(0, 1) without any; arrays or NumPy scalars.

        Args:
            size: None for one value, or how many; a tuple of two puts two axes in front.
            horizontal: of a Dict or Tuple: an array of ``size`` values, 1 for None, in the place of a value of arrays.
            rng: the generator to draw from; by default one of the space's own.
        """
        if rng is None:
            rng = self._rng = np.random.default_rng() if self._rng is None else self._rng
        if horizontal and not self._is_box:
            found = np.empty(leading(1 if size is None else size), np.object_)
            for place in np.ndindex(found.shape):
                found[place] = self.sample(rng=rng)
            return found
        return self._each(lambda box: box.draw((*leading(size), *box.shape), rng).astype(box.dtype)[()])

    def zeros(self, size: Size = None) -> Any:
        """Zeros of the space's shape and dtype; ``size`` as in :meth:`sample`."""
        return self._each(lambda box: np.zeros((*leading(size), *box.shape), box.dtype)[()])

    def contains(self, sample: Any) -> bool:
        """Whether one value, without a batch axis, is of the space's type and shape and within its bounds.

        Numbers need not have the dtype.
        """
        return self.fits(sample, bounded=True)

    def fits(self, sample: Any, *, bounded: bool) -> bool:
        """See ``contains``; floats may be beyond their bounds without ``bounded``."""
        try:
            arrays = {name: np.asarray(part) for name, part in self.flatten(sample).items()}
        except (RLGraphError, ValueError, TypeError):
            return False
        return all(
            arrays[name].shape == box.shape and not box.problem(arrays[name], bounded=bounded)
            for name, box in self.flat().items()
        )

    def force_batch(self, samples: Any) -> Any:
        """A batch, arrays [B, ...]: of one value a batch of one, a batch unchanged."""
        flat = self.flat()
        arrays = {name: np.asarray(part) for name, part in self.flatten(samples).items()}
        return self.unflatten({n: x[None] if x.ndim == len(flat[n].shape) else x for n, x in arrays.items()})

    @abstractmethod
    def flat(self) -> dict[str, Any]:
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
        """The specification as JSON has it, with infinite bounds as strings; ``Space.from_spec`` makes an equal space
        of it.
        """  # noqa: D205

    def with_extra_ranks(
        self: Self,
        add_batch_rank: Rank | None = True,
        add_time_rank: Rank | None = True,
        time_major: bool | None = None,
    ) -> Self:
        """A copy with these ranks; None leaves one as it is."""
        other = copy.copy(self)
        ranks = {"has_batch_rank": add_batch_rank, "has_time_rank": add_time_rank, "time_major": time_major}
        vars(other).update({name: rank for name, rank in ranks.items() if rank is not None})
        return other

    def with_batch_rank(self: Self, add_batch_rank: Rank = True) -> Self:
        """A copy with or without a batch rank."""
        return self.with_extra_ranks(add_batch_rank, None)

    def with_time_rank(self: Self, add_time_rank: Rank = True) -> Self:
        """A copy with or without a time rank."""
        return self.with_extra_ranks(None, add_time_rank)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Space) and self.to_spec() == other.to_spec()

    def __hash__(self) -> int:
        return hash(repr(self))

    @property
    def _is_box(self) -> bool:
        return "" in self.flat()

    def _each(self, function: Callable[[Any], Any]) -> Any:
        """Results of a function of each box, nested as the space is."""
        return self.unflatten({name: function(box) for name, box in self.flat().items()})

    @abstractmethod
    def map_boxes(self, function: Callable[[Any], Any]) -> Any:
        """Results of a function of each box, in nested tuples."""

    def _set_ranks(self, add_batch_rank: Rank, add_time_rank: Rank, time_major: bool) -> None:
        given = {"add_batch_rank": add_batch_rank, "add_time_rank": add_time_rank, "time_major": time_major}
        for name, value in given.items():
            if not isinstance(value, bool | int):
                refuse(f"{type(self).__name__}: {name}", f"must be True, False or a number, got {value!r}", value)
        self.has_batch_rank, self.has_time_rank, self.time_major = add_batch_rank, add_time_rank, time_major


Reader: TypeAlias = "Callable[[type[Space], Any, Mapping[str, Any]], Space]"
_reads: list[Reader] = []


def reads(function: Reader) -> Reader:
    """Register what ``Space.from_spec`` calls; it knows the subclasses, and so imports this module."""
    _reads[:] = [function]
    return function


def leading(size: Size) -> tuple[int, ...]:
    """The axes that a size puts in front."""
    return () if size is None else size if isinstance(size, tuple) else (size,)


def stacked(space: Space, values: list[Any]) -> Any:
    """A batch of the values of several lanes: arrays [B, ...], nested as the space is."""
    rows = [space.flatten(value) for value in values]
    return space.unflatten({name: np.stack([np.asarray(row[name]) for row in rows]) for name in space.flat()})
