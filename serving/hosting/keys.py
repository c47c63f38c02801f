"""Idempotency keys of accepted requests, so that none is applied twice."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from ...core.protocols import State
from .records import NO_KEY, Record

REMEMBERED: Final = 100_000
"""Number of steps whose keys are remembered."""


class Accepted(NamedTuple):
    """An accepted request: digest of its body, number of its steps, and number of the last one."""

    body: bytes
    steps: int
    seq: int


class Keys:
    """The keys of the last accepted requests."""

    def __init__(self) -> None:
        self._by_key: collections.OrderedDict[bytes, Accepted] = collections.OrderedDict()
        self._steps = 0

    def find(self, key: bytes) -> Accepted | None:
        """The request accepted with a key; None if there was none, or it is too old."""
        return self._by_key.get(key)

    def add(self, record: Record, seq: int) -> None:
        """Remember a record's key, and drop the oldest."""
        if record.key == NO_KEY:
            return
        count = len(record.steps)
        self._by_key[record.key] = Accepted(record.body, count, seq)
        self._steps += max(count, 1)
        while self._steps > REMEMBERED:
            _, oldest = self._by_key.popitem(last=False)
            self._steps -= max(oldest.steps, 1)

    def state_dict(self) -> State:
        """All keys, for a checkpoint."""
        values = self._by_key.values()
        return {
            "keys": _as_array(list(self._by_key)),
            "bodies": _as_array([value.body for value in values]),
            "counts": np.array([value.steps for value in values], np.int64),
            "seqs": np.array([value.seq for value in values], np.int64),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self._by_key.clear()
        counts, seqs = state["counts"].tolist(), state["seqs"].tolist()
        for k, key in enumerate(state["keys"]):
            self._by_key[key.tobytes()] = Accepted(state["bodies"][k].tobytes(), counts[k], seqs[k])
        self._steps = sum(max(count, 1) for count in counts)


def _as_array(digests: list[bytes]) -> Any:
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 16).copy()
