"""Observing and learning: records gather by environment, go to the memory, and updates draw from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ....contracts import Array
from ..values.errors import known, mapping, refuse
from .acting import Acts
from .base import FIRST_ID
from .buffers import Buffer, Record, columns_of
from .results import Loss

_KEYS: Final = ("states", "actions", "rewards", "terminals", "next_states")
_WEIGHTS: Final = "importance_weights"


class Observes(Acts):
    """The part of an agent that stores and learns."""

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
        given = (preprocessed_states, actions, rewards, terminals, next_states)
        columns, _ = self._columns(where, dict(zip(_KEYS, given, strict=True)))
        records = [
            Record(
                {key: part[k] for key, part in columns["observation"].items()},
                {key: part[k] for key, part in columns["action"].items()},
                float(columns["reward"][k]),
                {key: part[k] for key, part in columns["next_observation"].items()},
                bool(columns["terminal"][k]),
            )
            for k in range(len(columns["reward"]))
        ]
        noted = self._noted(name, records[0])
        if not self.observe_spec["buffer_enabled"]:
            self.core.store(columns, [noted, *[None] * (len(records) - 1)])
            return
        buffer = self._buffers.setdefault(name, Buffer())
        for record in records:
            buffer.append(record, noted)
            noted = None
            if record.terminal or len(buffer) >= self.observe_spec["buffer_size"]:
                self._flush(name)

    def flush_env_buffers(self, env_id: str | None = None) -> None:
        """Store what an environment's buffer holds, as after a time limit: the last record is not terminal.

        Args:
            env_id: which; None: all.
        """
        where = self._begin("flush_env_buffers")
        for name in list(self._buffers) if env_id is None else [self._id(where, env_id)]:
            self._flush(name)

    def reset_env_buffers(self, env_id: str | None = None) -> None:
        """Drop what an environment's buffer holds; an unknown one has none.

        Args:
            env_id: which; None: all.
        """
        where = self._begin("reset_env_buffers")
        for name in list(self._buffers) if env_id is None else [self._id(where, env_id)]:
            self._buffers.pop(name, None)
            self._acts.pop(name, None)

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
        read = [self._batch(f"{where}: observations", part) for part in parts]
        for columns in read:
            self.core.store(columns, [None] * len(columns["reward"]))
        return sum(len(columns["reward"]) for columns in read)

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
        where = self._begin("update")
        if batch is None:
            self._before_update()
            loss = self.core.update(self.updates)
        else:
            loss = self.core.learn(self.read_batch(f"{where}: batch", batch), self.updates)
        self.updates += 1
        return loss

    def read_batch(self, where: str, batch: Any) -> dict[str, Any]:
        """A batch of the caller's, as the core takes it; RLGraphError if it is wrong."""
        weights = mapping(where, batch).get(_WEIGHTS)
        columns = self._batch(where, {name: part for name, part in batch.items() if name != _WEIGHTS}, (_WEIGHTS,))
        count = len(columns["reward"])
        weight = np.ones(count, np.float32) if weights is None else self._numbers(where, _WEIGHTS, weights, count)
        if (weight < 0).any():
            refuse(f"{where}[{_WEIGHTS!r}]", f"must be at least 0, got {weight.min()}", weights)
        return {**columns, "weight": weight}

    def _batch(self, where: str, given: Any, more: Sequence[str] = ()) -> dict[str, Any]:
        """Columns of a dictionary with a leading axis on everything."""
        given = mapping(where, given)
        known(where, given, [*_KEYS, *more], what="entry")
        if missing := [name for name in _KEYS if name not in given]:
            refuse(where, f"has no {', '.join(missing)}; it needs {', '.join(_KEYS)}", list(given))
        columns, single = self._columns(where, given)
        if single:
            refuse(f"{where}['states']", "must be a batch, with a leading axis", given["states"])
        return columns

    def _columns(self, where: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Records as arrays [B, ...], and whether they were one without a leading axis."""
        states, single = self._read_preprocessed(where, given["states"], "states")
        after, single_after = self._read_preprocessed(where, given["next_states"], "next_states")
        count, count_after = (len(next(iter(part.values()))) for part in (states, after))
        if single_after != single or count_after != count:
            refuse(f"{where}: next_states", f"must be {_counted(count, single)}, as the states are", count_after)
        terminal = given["terminals"]
        if terminal is False and not single:
            terminal = np.zeros(count, np.bool_)  # the default holds for all
        return {
            "observation": states,
            "action": self._read_actions(where, given["actions"], count, single),
            "reward": self._numbers(where, "rewards", given["rewards"], count, single=single),
            "next_observation": after,
            "terminal": _flags(where, terminal, count, single),
        }, single

    def _numbers(self, where: str, name: str, given: Any, count: int, *, single: bool = False) -> Array:
        """Finite numbers, float32 [B]."""
        array = np.asarray(given)
        if (
            array.dtype.kind not in "fiub"
            or array.size != count
            or (array.shape not in ((count,), () if single else (count,)))
        ):
            refuse(f"{where}: {name}", f"must be {_counted(count, single)} number(s), got {given!r:.200}", given)
        numbers: Array = array.reshape(count).astype(np.float32)
        if not np.isfinite(numbers).all():
            refuse(f"{where}: {name}", f"must be finite as float32, got {given!r:.200}", given)
        return numbers

    def _flush(self, name: str) -> None:
        buffer = self._buffers.pop(name, None)
        if buffer:
            self.core.store(columns_of(buffer.records), buffer.noted)

    def _before_update(self) -> None:
        """What agents that learn from the newest records do."""


def _flags(where: str, given: Any, count: int, single: bool) -> Array:
    array = np.asarray(given)
    if array.dtype.kind not in "biu" or array.shape != (() if single else (count,)) or not np.isin(array, (0, 1)).all():
        refuse(f"{where}: terminals", f"must be {_counted(count, single)} bool(s), got {given!r:.200}", given)
    flags: Array = array.reshape(count).astype(np.bool_)
    return flags


def _counted(count: int, single: bool) -> str:
    return "one, without a leading axis" if single else str(count)
