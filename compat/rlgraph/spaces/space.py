"""Spaces: trees whose leaves are boxes of numbers, and whose inner nodes are dictionaries or tuples."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..utils.rlgraph_errors import RLGraphError, as_array, refuse

Self = TypeVar("Self", bound="Space")
Size: TypeAlias = "int | tuple[int, ...] | None"
"""Size of samples: one value, a batch, or several leading axes."""
Rank: TypeAlias = "bool | int"


class Space(ABC):
    """Set of the values of states, actions or rewards: shapes, dtypes and bounds.

    Spaces are immutable. Two are equal if their kinds, shapes, dtypes and bounds are; batch and time ranks do not
    matter.

    Attributes:
        has_batch_rank, has_time_rank, time_major: as given, without effect.
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
                dictionary (a Dict), or a tuple or list (a Tuple) of these; ``"FloatBox((256,))"``, the call of a class;
                or a Space or a space of Gymnasium.
            **kwargs: override the entries of a dictionary with ``type``; also ``add_batch_rank``, ``add_time_rank`` and
                ``time_major``.

        Raises:
            RLGraphError: the specification is not of a space, or not of the class that this is called on.
        """
        made: Any = _reads[0](cls, spec, kwargs)
        return made  # type: ignore[no-any-return]

    @property
    def shape(self) -> Any:
        """Shape without batch and time axes; for a Dict or Tuple a tuple of shapes, keys sorted."""
        return self.map_boxes(lambda box: box.shape)

    def get_shape(
        self,
        with_batch_rank: Rank = False,
        with_time_rank: Rank = False,
        time_major: bool | None = None,
        with_category_rank: bool = False,
    ) -> tuple[Any, ...]:
        """The shape, with the requested ranks that the space has.

        Args:
            with_batch_rank: add a batch axis: None for True, or the given number.
            with_time_rank: add a time axis: None for True, or the given number.
            time_major: does time come first? None: the space's ``time_major``.
            with_category_rank: add an axis for the values of integers.
        """
        ranks = (with_batch_rank, with_time_rank, time_major, with_category_rank)
        shape: tuple[Any, ...] = self.map_boxes(lambda box: box.get_shape(*ranks))
        return shape

    @property
    def dtype(self) -> Any:
        """A NumPy dtype: float32, int32, uint8 or bool; for a Dict or Tuple one for each part."""
        return self._each(lambda box: box.dtype)

    @property
    def rank(self) -> Any:
        """The number of axes; for a Dict or Tuple a tuple of these."""
        return self.map_boxes(lambda box: len(box.shape))

    @property
    def flat_dim(self) -> int:
        """How many numbers a value has."""
        return sum(int(np.prod(box.shape)) for box in self.flat().values())

    def sample(self, size: Size = None, horizontal: bool = False, *, rng: np.random.Generator | None = None) -> Any:
        """Random values: uniform within bounds, or from N(0, 1) if unbounded; arrays or NumPy scalars.

        Args:
            size: None for one value, or the number of values; a tuple of two adds two leading axes.
            horizontal: for a Dict or Tuple: return an array of ``size`` values (one for None), not a value of arrays.
            rng: the generator to draw from; by default the space's own.
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
        """Is a single value of the space's type and shape, and within its bounds?

        Numbers may have another dtype.
        """
        return self.fits(sample, bounded=True)

    def fits(self, sample: Any, *, bounded: bool) -> bool:
        """See ``contains``; without ``bounded``, floats may exceed their bounds."""
        try:
            arrays = {name: np.asarray(part) for name, part in self.flatten(sample).items()}
        except (RLGraphError, ValueError, TypeError):
            return False
        return all(
            arrays[name].shape == box.shape and not box.problem(arrays[name], bounded=bounded)
            for name, box in self.flat().items()
        )

    def force_batch(self, samples: Any) -> Any:
        """A batch, arrays [B, ...]: one value becomes a batch of one, a batch is unchanged."""
        flat = self.flat()
        place = f"{type(self).__name__}.force_batch: samples"
        arrays = {name: as_array(place, part) for name, part in self.flatten(samples).items()}
        return self.unflatten({n: x[None] if x.ndim == len(flat[n].shape) else x for n, x in arrays.items()})

    @abstractmethod
    def flat(self) -> dict[str, Any]:
        """The boxes by flat name, in order, with a Dict's keys sorted.

        Names are ``""`` for a box alone, ``"a/b"`` within dictionaries, and ``"0"``, ... for a tuple's items.
        """

    @abstractmethod
    def flatten(self, value: Any) -> dict[str, Any]:
        """A value, or a batch of values, by flat name; the parts are not checked.

        Raises:
            RLGraphError: a part is missing or unknown.
        """

    @abstractmethod
    def unflatten(self, arrays: Mapping[str, Any]) -> Any:
        """The value with these parts by flat name: the inverse of :meth:`flatten`."""

    @abstractmethod
    def to_spec(self) -> Any:
        """The specification in JSON types, with infinite bounds as strings; ``Space.from_spec`` makes an equal space
        from it.
        """  # noqa: D205

    def with_extra_ranks(
        self: Self,
        add_batch_rank: Rank | None = True,
        add_time_rank: Rank | None = True,
        time_major: bool | None = None,
    ) -> Self:
        """A copy with these ranks; None keeps a rank as it is."""
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
    """Register the function behind ``Space.from_spec``, whose module imports this one."""
    _reads[:] = [function]
    return function


def leading(size: Size) -> tuple[int, ...]:
    """The leading axes of a size."""
    return () if size is None else size if isinstance(size, tuple) else (size,)


def stacked(space: Space, values: list[Any]) -> Any:
    """A batch of the values of several lanes: arrays [B, ...], nested as the space is."""
    rows = [space.flatten(value) for value in values]
    return space.unflatten({name: np.stack([np.asarray(row[name]) for row in rows]) for name in space.flat()})
