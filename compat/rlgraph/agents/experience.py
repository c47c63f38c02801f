"""Observing and learning: records gather by environment, go to the memory, and updates draw from it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ....core.protocols import Array
from ...common.exclusion import exclusive
from ..spaces.columns import read_rewards
from ..spaces.readers import Record
from ..specs.normal import other_update
from ..utils.rlgraph_errors import known, mapping, refuse
from .action_calls import Acts
from .base import FIRST_ID
from .buffers import Buffer, columns_of, records_of
from .results import Loss

_KEYS: Final = ("states", "actions", "rewards", "terminals", "next_states")
_NAMES: Final = {"states": "preprocessed_states"}
"""Of what ``observe`` takes, where they differ."""
_WEIGHTS: Final = "importance_weights"


class Observes(Acts):
    """The part of an agent that stores and learns."""

    @exclusive
    def observe(
        self,
        preprocessed_states: Any,
        actions: Any,
        internals: Any,
        rewards: Any,
        next_states: Any,
        terminals: Any = False,
        env_id: str | None = None,
    ) -> None:
        """Store a record, or a batch of consecutive ones with a leading axis on everything.

        Records gather under ``env_id``. At ``buffer_size`` records, or after a terminal one, they go to the memory.

        Args:
            preprocessed_states: as the model sees them.
            actions: what was done.
            internals: of a recurrent agent; else [] or None.
            rewards: float.
            next_states: what followed, preprocessed: of a terminal record the last state of the episode.
            terminals: has the episode ended, other than by a time limit?
            env_id: which environment; None is ``"env_0"``.

        Raises:
            RLGraphError: an argument is wrong. Nothing is stored then.
        """
        where = self._begin("observe")
        name = self._id(where, FIRST_ID if env_id is None else env_id)
        del internals  # they are not learnt from
        usual = self._read_records.one(preprocessed_states, actions, rewards, next_states, terminals)
        if usual is None:
            given = (preprocessed_states, actions, rewards, terminals, next_states)
            columns, _ = self._columns("observe", dict(zip(_KEYS, given, strict=True)), _NAMES)
            records = records_of(columns)
        else:
            records = [usual]
        noted = self._noted(name, records[0])
        if not self.observe_spec["buffer_enabled"]:
            self._store(name, columns_of(records), [noted, *[None] * (len(records) - 1)])
        else:
            self._buffer(name, records, noted)
        for one in self._companions:
            for record in records:
                one.observed(self, name, record.reward, record.terminal)

    def _buffer(self, name: str, records: Sequence[Record], noted: dict[str, Array] | None) -> None:
        """Gather records; ``noted`` belongs to the first."""
        for record in records:
            if (buffer := self._buffers.get(name)) is None:
                buffer = self._buffers[name] = Buffer()
            buffer.append(record, noted)
            noted = None
            if record.terminal or len(buffer) >= self.observe_spec["buffer_size"]:
                self._flush(name)

    @exclusive
    def flush_env_buffers(self, env_id: str | None = None) -> None:
        """Store what an environment's buffer holds, as after a time limit: the last record is not terminal.

        Args:
            env_id: which; None: all.
        """
        where = self._begin("flush_env_buffers")
        for name in list(self._buffers) if env_id is None else [self._id(where, env_id)]:
            self._flush(name)
        for one in self._companions:
            one.cut(self, env_id)

    @exclusive
    def reset_env_buffers(self, env_id: str | None = None) -> None:
        """Drop what an environment's buffer holds; an unknown one has none.

        Args:
            env_id: which; None: all.
        """
        where = self._begin("reset_env_buffers")
        for name in list(self._buffers) if env_id is None else [self._id(where, env_id)]:
            self._buffers.pop(name, None)
            self._acts.pop(name, None)

    @exclusive
    def import_observations(self, observations: Any) -> int:
        """Store records of others, already preprocessed, as if a buffer had held them.

        Args:
            observations: arrays [B, ...] under ``states``, ``actions``, ``rewards``, ``terminals`` and
                ``next_states``; or a list of such dictionaries.

        Returns:
            The number of records.

        Raises:
            RLGraphError: something is missing or of another shape. Nothing is stored then.
        """
        where = self._begin("import_observations")
        parts = [observations] if isinstance(observations, Mapping) else observations
        if not isinstance(parts, list | tuple):
            refuse(f"{where}: observations", "must be a dictionary of arrays, or a list of such", observations)
        read = [self._batch("import_observations", "observations", part) for part in parts]
        for columns in read:
            self._store(None, columns, [None] * len(columns["reward"]))
        return sum(len(columns["reward"]) for columns in read)

    @exclusive
    def update(self, batch: Any = None) -> Loss | None:
        """One update.

        Args:
            batch: None: from the memory. Else arrays [B, ...] under ``states``, ``actions``, ``rewards``,
                ``terminals`` and ``next_states``, perhaps ``importance_weights``; it touches neither memory nor
                priorities.

        Returns:
            The mean loss, a float that also unpacks like a tuple: of DQNAgent into the loss and ``loss_per_item``.

        Raises:
            RLGraphError: the memory holds less than a batch, or the batch is wrong. Nothing is changed then.
        """
        self._begin("update")
        if batch is None:
            self._before_update()
            loss = self.core.update(self.updates)
        else:
            loss = self.core.learn(self.read_batch("update", batch), self.updates)
        self.updates += 1
        for one in self._companions:
            one.updated(self, loss)
        return loss

    @property
    def can_update(self) -> bool:
        """Has the memory what ``update()`` needs?"""
        return self.core.can_update

    @contextlib.contextmanager
    def updating(self, where: str, given: Any) -> Iterator[Mapping[str, Any]]:
        """Other entries of ``update_spec`` within a block.

        Args:
            where: their place, for messages.
            given: the entries; None: none.

        Raises:
            RLGraphError: an entry is unknown or wrong.
        """
        update = self.form["update_spec"]  # the core reads this very dictionary
        before, now = dict(update), other_update(where, self.form, given)
        update.update(now)
        try:
            yield update
        finally:
            update.update(before)

    def read_batch(self, method: str, batch: Any) -> dict[str, Any]:
        """A batch of the caller's, as the core takes it; RLGraphError if it is wrong."""
        place = f"{type(self).__name__}.{method}: batch"
        weights = mapping(place, batch).get(_WEIGHTS)
        columns = self._batch(method, "batch", {key: part for key, part in batch.items() if key != _WEIGHTS})
        count = len(columns["reward"])
        if weights is None:
            return {**columns, "weight": np.ones(count, np.float32)}
        weight = read_rewards(f"{place}[{_WEIGHTS!r}]", weights, count)
        if (weight < 0).any():
            refuse(f"{place}[{_WEIGHTS!r}]", f"must be at least 0, got {weight.min()}", weights)
        return {**columns, "weight": weight}

    def _batch(self, method: str, argument: str, given: Any) -> dict[str, Any]:
        """Columns of a dictionary with a leading axis on everything."""
        where = f"{type(self).__name__}.{method}: {argument}"
        given = mapping(where, given)
        known(where, given, [*_KEYS, _WEIGHTS] if argument == "batch" else _KEYS, what="entry")
        if missing := [name for name in _KEYS if name not in given]:
            refuse(where, f"has no {', '.join(missing)}; it needs {', '.join(_KEYS)}", list(given))
        columns, single = self._columns(method, given, {key: f"{argument}[{key!r}]" for key in _KEYS})
        if single:
            refuse(f"{where}['states']", "must be a batch, with a leading axis", given["states"])
        return columns

    def _columns(
        self, method: str, given: Mapping[str, Any], names: Mapping[str, str] | None = None
    ) -> tuple[dict[str, Any], bool]:
        """Records as arrays [B, ...], and whether they were one without a leading axis."""
        records, single = self._read_records(method, **given, names=names)
        return {
            "observation": records.states,
            "action": records.actions,
            "reward": records.rewards,
            "next_observation": records.next_states,
            "terminal": records.terminals,
        }, single

    def _flush(self, name: str) -> None:
        buffer = self._buffers.pop(name, None)
        if buffer:
            self._store(name, columns_of(buffer.records), buffer.noted)

    def _store(self, env_id: str | None, columns: Mapping[str, Any], noted: Sequence[dict[str, Array] | None]) -> None:
        """Put consecutive records of an environment into the memory; None: it is unknown, and nothing follows."""
        del env_id
        self.core.store(columns, noted)

    def _before_update(self) -> None:
        """What agents that learn from the newest records do."""
