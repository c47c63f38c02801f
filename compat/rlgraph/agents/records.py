"""The memory: records in columns, the newest of them, drawn uniformly or by priority."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from ....core.protocols import Array, ArraySpec, State
from ....memories import Prioritized, Sampler, Uniform
from ..utils.rlgraph_errors import refuse

Columns: TypeAlias = "dict[str, Array | dict[str, Array]]"
"""Arrays [B, ...] by name; observations and composite actions are dictionaries of such."""


class Records:
    """A ring of records, each of which stands for itself.

    Args:
        capacity: records.
        specs: of one record: name to a spec, or to specs by name.
        sampler: decides which are drawn.
        rng: draws them.
    """

    def __init__(self, capacity: int, specs: Mapping[str, Any], sampler: Sampler, rng: np.random.Generator) -> None:
        self.capacity, self._rng = capacity, rng
        self._columns = _empty(capacity, specs)
        self._sampler = sampler
        self._drawn: Array = np.zeros(0, np.intp)
        self._next = self._size = 0
        sampler.build(self)

    def __len__(self) -> int:
        return self._size

    def places(self, index: Array) -> Array:
        """Where candidates are: all records are, at their places."""
        return index

    @property
    def is_prioritized(self) -> bool:
        """Do records have priorities?"""
        return isinstance(self._sampler, Prioritized)

    def insert(self, columns: Mapping[str, Any], count: int) -> None:
        """Store records [count, ...]; the oldest ones make room."""
        kept = min(count, self.capacity)
        places = (self._next + np.arange(count - kept, count)) % self.capacity
        if old := max(0, self._size + kept - self.capacity):
            self._sampler.removed(places[kept - old :])
        _write(self._columns, columns, places, slice(count - kept, count))
        self._next = (self._next + count) % self.capacity
        self._size = min(self._size + kept, self.capacity)
        self._sampler.added(places)

    def sample(self, count: int) -> tuple[Columns, Array | None]:
        """A batch [count, ...] drawn with replacement, and its importance weights, float32 [count], or None."""
        self._drawn = places = self._sampler.draw(count, self._rng)
        return self.read(places), self._sampler.weights()

    def read(self, places: Array) -> Columns:
        """Records at places [B]."""
        return {
            name: {key: part.take(places, 0) for key, part in column.items()}
            if isinstance(column, dict)
            else column.take(places, 0)
            for name, column in self._columns.items()
        }

    @property
    def drawn(self) -> Array:
        """The places of the batch that was drawn last."""
        places: Array = self._drawn.copy()
        return places

    def update_priorities(self, td_error: Array) -> None:
        """Give TD errors [B] to the batch that was drawn last."""
        self._sampler.update(td_error)

    def update_records(self, indices: Any, priorities: Any) -> None:
        """Give records new priorities.

        Args:
            indices: places [B] of records, as ``last_memory_batch["indices"]`` has them.
            priorities: at least 0, [B].

        Raises:
            RLGraphError: the memory has no priorities, or an index or a priority is wrong.
        """
        where = "memory.update_records"
        places, values = np.asarray(indices), np.asarray(priorities)
        if not self.is_prioritized:
            refuse(f"{where}: priorities", "are for a memory_spec of type prioritized_replay", priorities)
        if places.dtype.kind not in "iu" or places.ndim != 1 or not ((places >= 0) & (places < self._size)).all():
            refuse(f"{where}: indices", f"must be ints in 0 .. {self._size - 1}, got {indices!r:.200}", indices)
        if values.shape != places.shape or values.dtype.kind not in "iuf" or not (values >= 0).all():
            refuse(f"{where}: priorities", f"must be {len(places)} numbers, at least 0", priorities)
        self._sampler.put(places.astype(np.intp), values)

    # -- state --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """Everything but the generator."""
        order = np.arange(self._size)
        return {
            "columns": self.read(order),
            "next": self._next,
            "sampler": self._sampler.state_dict(),
        }

    def load_state_dict(self, state: State) -> None:
        """Take over what :meth:`state_dict` returned, of a memory with the same capacity and columns."""
        columns = state["columns"]
        size = len(_leaves(columns)[0])
        _write(self._columns, columns, np.arange(size), slice(None))
        self._next, self._size = state["next"], size
        self._sampler.load_state_dict(state["sampler"])


def make_sampler(spec: Mapping[str, Any]) -> Sampler:
    """The sampler of a memory in normal form."""
    if spec["type"] == "prioritized_replay":
        return Prioritized(spec["alpha"], spec["beta"])
    return Uniform()


def _empty(capacity: int, specs: Mapping[str, Any]) -> Columns:
    def of(spec: ArraySpec) -> Array:
        return np.zeros((capacity, *spec.shape), spec.dtype)

    return {
        name: of(spec) if isinstance(spec, ArraySpec) else {key: of(part) for key, part in spec.items()}
        for name, spec in specs.items()
    }


def _write(into: Columns, columns: Mapping[str, Any], places: Array, rows: slice) -> None:
    for name, column in into.items():
        given = columns[name]
        if isinstance(column, dict):
            for key, part in column.items():
                part[places] = given[key][rows]
        else:
            column[places] = given[rows]


def _leaves(columns: Mapping[str, Any]) -> list[Array]:
    return [leaf for c in columns.values() for leaf in (c.values() if isinstance(c, Mapping) else [c])]
