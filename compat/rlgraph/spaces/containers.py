"""Spaces of spaces: dictionaries and tuples."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from ....core.checks import did_you_mean, shortened
from ..utils.rlgraph_errors import mapping, refuse
from .box_space import BoxSpace
from .space import Rank, Space

Container = TypeVar("Container", bound="_Container")


class _Container(Space):
    """A space made of spaces: parts by key, in order."""

    _parts: dict[str, Space]
    _what: ClassVar[str]

    def flat(self) -> dict[str, BoxSpace]:
        return {_flat_name(key, name): box for key, part in self._parts.items() for name, box in part.flat().items()}

    def flatten(self, value: Any) -> dict[str, Any]:
        values = self._values(value)
        parts = ((key, part.flatten(values[key])) for key, part in self._parts.items())
        return {_flat_name(key, name): inner for key, found in parts for name, inner in found.items()}

    def unflatten(self, arrays: Mapping[str, Any]) -> Any:
        return self._nest(
            {
                key: part.unflatten({name: arrays[_flat_name(key, name)] for name in part.flat()})
                for key, part in self._parts.items()
            }
        )

    def with_extra_ranks(
        self: Container,
        add_batch_rank: Rank | None = True,
        add_time_rank: Rank | None = True,
        time_major: bool | None = None,
    ) -> Container:
        ranks = (add_batch_rank, add_time_rank, time_major)
        other = super().with_extra_ranks(*ranks)
        vars(other)["_parts"] = {key: part.with_extra_ranks(*ranks) for key, part in self._parts.items()}
        return other

    def __len__(self) -> int:
        return len(self._parts)

    def map_boxes(self, function: Callable[[Any], Any]) -> Any:
        return tuple(part.map_boxes(function) for part in self._parts.values())

    def _set_parts(self, parts: Mapping[str, Any], *ranks: Any) -> None:
        self._set_ranks(*ranks)
        self._parts = {key: Space.from_spec(part).with_extra_ranks(*ranks) for key, part in parts.items()}

    @abstractmethod
    def _nest(self, parts: dict[str, Any]) -> Any:
        """The value with these parts by key."""

    @abstractmethod
    def _split(self, value: Any) -> dict[Any, Any] | None:
        """The parts of a value by key; None if it cannot have parts."""

    def _values(self, value: Any) -> dict[Any, Any]:
        """The parts of a value, one for each part of the space."""
        values, takes = self._split(value), f"takes a {self._what} of {', '.join(self._parts)}"
        if values is None:
            refuse(type(self).__name__, f"{takes}; got {shortened(value)}", value)
        for key in (*self._parts, *values):
            if key not in values:
                refuse(type(self).__name__, f"{takes}; the value has no {key!r}", value)
            if key not in self._parts:
                near = did_you_mean(key, self._parts)
                refuse(type(self).__name__, f"{takes}; the value has the unknown part {key!r}{near}", value)
        return values


class Dict(_Container):
    """A dictionary of spaces, with sorted keys.

    Args:
        spec: spaces, or their specifications, by key; keys are strings without ``/``.
        add_batch_rank, add_time_rank, time_major: stored as attributes, also of the parts, without effect.
        **parts: the same as ``spec``, as keywords.

    Raises:
        RLGraphError: a key or a specification is invalid, or there are no parts.
    """

    _what: ClassVar[str] = "dictionary"

    def __init__(
        self,
        spec: Mapping[str, Any] | None = None,
        add_batch_rank: Rank = False,
        add_time_rank: Rank = False,
        time_major: bool = False,
        **parts: Any,
    ) -> None:
        given = parts if spec is None else {**mapping("Dict: spec", spec), **parts}
        for key in given:
            if not key or "/" in key:
                refuse("Dict: spec", f"has the key {key!r}; keys must not be empty nor contain '/'", key)
        if not given:
            refuse("Dict: spec", "must have at least one part", given)
        self._set_parts(dict(sorted(given.items())), add_batch_rank, add_time_rank, time_major)

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

    def _nest(self, parts: dict[str, Any]) -> Any:
        return parts

    def _split(self, value: Any) -> dict[Any, Any] | None:
        return dict(value) if isinstance(value, Mapping) else None


class Tuple(_Container):
    """A tuple of spaces.

    Args:
        *components: spaces or their specifications; or one list or tuple of these.
        add_batch_rank, add_time_rank, time_major: stored as attributes, also of the parts, without effect.

    Raises:
        RLGraphError: a specification is invalid, or there are no parts.
    """

    _what: ClassVar[str] = "tuple"

    def __init__(
        self, *components: Any, add_batch_rank: Rank = False, add_time_rank: Rank = False, time_major: bool = False
    ) -> None:
        if len(components) == 1 and isinstance(components[0], tuple | list):
            components = tuple(components[0])
        if not components:
            refuse("Tuple: components", "must be at least one space", components)
        parts = {str(index): part for index, part in enumerate(components)}
        self._set_parts(parts, add_batch_rank, add_time_rank, time_major)

    def __getitem__(self, index: int) -> Any:
        return list(self._parts.values())[index]

    def __iter__(self) -> Iterator[Space]:
        return iter(self._parts.values())

    def to_spec(self) -> list[Any]:
        """A list of the parts' specifications."""
        return [part.to_spec() for part in self._parts.values()]

    def __repr__(self) -> str:
        return f"Tuple({', '.join(map(repr, self._parts.values()))})"

    def _nest(self, parts: dict[str, Any]) -> Any:
        return tuple(parts.values())

    def _split(self, value: Any) -> dict[Any, Any] | None:
        return {str(index): part for index, part in enumerate(value)} if isinstance(value, tuple | list) else None


def _flat_name(key: str, name: str) -> str:
    return f"{key}/{name}" if name else key
