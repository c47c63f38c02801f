"""Spaces of spaces: dictionaries and tuples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ....core.checks import did_you_mean, shortened
from ..utils.rlgraph_errors import mapping, refuse
from .box_space import BoxSpace
from .space import Rank, Size, Space, leading

Container = TypeVar("Container", bound="_Container")


class _Container(Space):
    """A space of spaces: parts by key, in order."""

    _parts: dict[str, Space]

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(part.shape for part in self._parts.values())

    def get_shape(
        self,
        with_batch_rank: Rank = False,
        with_time_rank: Rank = False,
        time_major: bool | None = None,
        with_category_rank: bool = False,
    ) -> tuple[Any, ...]:
        ranks = (with_batch_rank, with_time_rank, time_major, with_category_rank)
        return tuple(part.get_shape(*ranks) for part in self._parts.values())

    @property
    def dtype(self) -> Any:
        return self._nested({key: part.dtype for key, part in self._parts.items()})

    @property
    def rank(self) -> tuple[Any, ...]:
        return tuple(part.rank for part in self._parts.values())

    @property
    def flat_dim(self) -> int:
        return sum(part.flat_dim for part in self._parts.values())

    def sample(self, size: Size = None, horizontal: bool = False, *, rng: np.random.Generator | None = None) -> Any:
        drawn = self._generator(rng)
        if horizontal:
            found = np.empty(leading(1 if size is None else size), np.object_)
            for place in np.ndindex(found.shape):
                found[place] = self.sample(rng=drawn)
            return found
        return self._nested({key: part.sample(size, rng=drawn) for key, part in self._parts.items()})

    def zeros(self, size: Size = None) -> Any:
        return self._nested({key: part.zeros(size) for key, part in self._parts.items()})

    def contains(self, sample: Any) -> bool:
        values = self._split(sample)
        if values is None or values.keys() != self._parts.keys():
            return False
        return all(part.contains(values[key]) for key, part in self._parts.items())

    def force_batch(self, samples: Any) -> Any:
        values = self._values(samples)
        return self._nested({key: part.force_batch(values[key]) for key, part in self._parts.items()})

    def flat(self) -> dict[str, BoxSpace]:
        return {_joined(key, name): box for key, part in self._parts.items() for name, box in part.flat().items()}

    def flatten(self, value: Any) -> dict[str, Any]:
        values = self._values(value)
        return {
            _joined(key, name): inner
            for key, part in self._parts.items()
            for name, inner in part.flatten(values[key]).items()
        }

    def unflatten(self, arrays: Mapping[str, Any]) -> Any:
        found = {}
        for key, part in self._parts.items():
            found[key] = part.unflatten({name: arrays[_joined(key, name)] for name in part.flat()})
        return self._nested(found)

    def with_extra_ranks(
        self: Container,
        add_batch_rank: Rank | None = True,
        add_time_rank: Rank | None = True,
        time_major: bool | None = None,
    ) -> Container:
        other = super().with_extra_ranks(add_batch_rank, add_time_rank, time_major)
        ranks = (add_batch_rank, add_time_rank, time_major)
        vars(other)["_parts"] = {key: part.with_extra_ranks(*ranks) for key, part in self._parts.items()}
        return other

    def __len__(self) -> int:
        return len(self._parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Container) and type(other) is type(self) and self.to_spec() == other.to_spec()

    __hash__ = Space.__hash__

    def _nested(self, parts: dict[str, Any]) -> Any:
        raise NotImplementedError

    def _split(self, value: Any) -> dict[Any, Any] | None:
        """The parts of a value by key; None if it cannot have any."""
        raise NotImplementedError

    def _values(self, value: Any) -> dict[Any, Any]:
        """The parts of a value, one for each of the space."""
        values, name = self._split(value), type(self).__name__
        if values is None:
            refuse(name, f"takes {self._wanted()}; got {shortened(value)}", value)
        for key in self._parts:
            if key not in values:
                refuse(name, f"takes {self._wanted()}; the value has no {key!r}", value)
        for key in values:
            if key not in self._parts:
                near = did_you_mean(key, self._parts)
                refuse(name, f"takes {self._wanted()}; the value has the unknown part {key!r}{near}", value)
        return values

    def _wanted(self) -> str:
        return f"a dictionary with {', '.join(self._parts)}"


ContainerSpace: TypeAlias = _Container
"""What a Dict and a Tuple are."""


class Dict(_Container):
    """A dictionary of spaces, with sorted keys.

    Args:
        spec: spaces, or their specifications, by key; keys are strings without ``/``.
        add_batch_rank: kept as ``has_batch_rank``, also of the parts; it has no effect. The same goes for
            ``add_time_rank`` and ``time_major``.
        **parts: the same as ``spec``, as keywords.

    Raises:
        RLGraphError: a key or a specification is invalid, or there is none.
    """

    def __init__(
        self,
        spec: Mapping[str, Any] | None = None,
        add_batch_rank: Rank = False,
        add_time_rank: Rank = False,
        time_major: bool = False,
        **parts: Any,
    ) -> None:
        self._set_ranks(add_batch_rank, add_time_rank, time_major)
        given = parts if spec is None else {**mapping("Dict: spec", spec), **parts}
        for key in given:
            if not key or "/" in key:
                refuse("Dict: spec", f"has the key {key!r}; keys must not be empty nor contain '/'", key)
        if not given:
            refuse("Dict: spec", "must have at least one part", given)
        ranks = (add_batch_rank, add_time_rank, time_major)
        self._parts = {key: Space.from_spec(given[key]).with_extra_ranks(*ranks) for key in sorted(given)}

    def __getitem__(self, key: str) -> Any:
        return self._parts[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def keys(self) -> Any:
        """Sorted."""
        return self._parts.keys()

    def values(self) -> Any:
        """The spaces, sorted by key."""
        return self._parts.values()

    def items(self) -> Any:
        """Keys and spaces, sorted."""
        return self._parts.items()

    def to_spec(self) -> dict[str, Any]:
        """A dictionary of the parts' specifications."""
        return {key: part.to_spec() for key, part in self._parts.items()}

    def __repr__(self) -> str:
        return f"Dict({self._parts!r})"

    def _nested(self, parts: dict[str, Any]) -> Any:
        return parts

    def _split(self, value: Any) -> dict[Any, Any] | None:
        return dict(value) if isinstance(value, Mapping) else None


class Tuple(_Container):
    """A tuple of spaces.

    Args:
        *components: spaces or their specifications; or one list or tuple of these.
        add_batch_rank: kept as ``has_batch_rank``, also of the parts; it has no effect. The same goes for
            ``add_time_rank`` and ``time_major``.

    Raises:
        RLGraphError: a specification is invalid, or there is none.
    """

    def __init__(
        self, *components: Any, add_batch_rank: Rank = False, add_time_rank: Rank = False, time_major: bool = False
    ) -> None:
        self._set_ranks(add_batch_rank, add_time_rank, time_major)
        if len(components) == 1 and isinstance(components[0], tuple | list):
            components = tuple(components[0])
        if not components:
            refuse("Tuple: components", "must be at least one space", components)
        ranks = (add_batch_rank, add_time_rank, time_major)
        self._parts = {
            str(index): Space.from_spec(part).with_extra_ranks(*ranks) for index, part in enumerate(components)
        }

    def __getitem__(self, index: int) -> Any:
        return list(self._parts.values())[index]

    def __iter__(self) -> Iterator[Space]:
        return iter(self._parts.values())

    def to_spec(self) -> list[Any]:
        """A list of the parts' specifications."""
        return [part.to_spec() for part in self._parts.values()]

    def __repr__(self) -> str:
        return f"Tuple({', '.join(map(repr, self._parts.values()))})"

    def _nested(self, parts: dict[str, Any]) -> Any:
        return tuple(parts.values())

    def _split(self, value: Any) -> dict[Any, Any] | None:
        if not isinstance(value, tuple | list):
            return None
        return {str(index): part for index, part in enumerate(value)}

    def _wanted(self) -> str:
        return f"a tuple of {len(self._parts)} parts"


def _joined(key: str, name: str) -> str:
    return f"{key}/{name}" if name else key
