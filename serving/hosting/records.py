"""Records: a journal's entries, one for each request that changed an agent."""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ...core.protocols import SpecTree
from ...memories.columns import FLAGS
from .transitions import flat

STEPS: Final = 0
END_EPISODE: Final = 1
NO_KEY: Final = b"\0" * 16
"""Digest of a request without an idempotency key."""
_HEAD: Final = struct.Struct("<BQd16s16sHHH")
"""Kind, number, time, digests of key and body, bytes of the environments' names modulo 65,536, steps, and the quotient
of those bytes."""
_FLAG: Final = np.dtype([("reward", "<f8"), ("flags", "u1"), ("environment", "<u2")])
_TERMINATED: Final = 1
_TRUNCATED: Final = 2
_UNRECORDED: Final = 4


@dataclasses.dataclass(frozen=True)
class Record:
    """One accepted request: steps, all or nothing, or the end of an episode.

    ``number`` counts an agent's records from 1. ``steps`` are transitions in the form of a memory of one lane, with
    rewards as Python floats; ``environments`` has the name of each step's environment. If a step lacks the values that
    an act records (log-probabilities, values), they depend on earlier steps and are computed when those are applied.
    """

    kind: int
    number: int
    time: float
    environments: tuple[str, ...]
    steps: tuple[Mapping[str, Any], ...] = ()
    key: bytes = NO_KEY
    body: bytes = NO_KEY


class Codec:
    """Encodes and decodes records for the transitions of one agent.

    Args:
        specs: specs of a transition, as for ``Memory.build``.
        recorded: names of the values that an act records; a step has all of them, or none.
    """

    def __init__(self, specs: Mapping[str, SpecTree], recorded: Sequence[str] = ()) -> None:
        self._recorded = frozenset(recorded)
        stored = {name: spec for name, spec in flat(specs).items() if name not in ("reward", *FLAGS)}
        self._leaves = [(*name.partition(":")[::2], spec) for name, spec in stored.items()]
        """Key, part of a Dict or an empty text, and spec of each column."""
        self._step_bytes = _FLAG.itemsize + sum(math.prod(one.shape) * one.dtype.itemsize for one in stored.values())

    def encode(self, record: Record) -> bytes:
        """The bytes of a record."""
        table = {name: index for index, name in enumerate(dict.fromkeys(record.environments))}
        names = "\0".join(table).encode()
        count = len(record.steps)
        more, few = divmod(len(names), 1 << 16)
        head = _HEAD.pack(record.kind, record.number, record.time, record.key, record.body, few, count, more)
        flags = np.zeros(count, _FLAG)
        for k, step in enumerate(record.steps):
            ended = _TERMINATED * bool(step["terminated"]) + _TRUNCATED * bool(step["truncated"])
            unrecorded = _UNRECORDED * any(name not in step for name in self._recorded)
            flags[k] = step["reward"], ended + unrecorded, table[record.environments[k]]
        parts = [head, names, flags.tobytes()]
        for key, part, spec in self._leaves:
            column = np.zeros((count, *spec.shape), spec.dtype)
            for k, step in enumerate(record.steps):
                if key in step:  # or it is one that the act has not recorded
                    column[k] = step[key][part] if part else step[key]
            parts.append(column.tobytes())
        return b"".join(parts)

    def decode(self, number: int, content: bytes) -> Record:
        """The record of this number; ``ValueError`` if these bytes are not this agent's."""
        kind, own, time, key, body, few, count, more = _head(content)
        names = few + (more << 16)
        if own != number or len(content) != _HEAD.size + names + count * self._step_bytes:
            raise ValueError(f"record {number} says that it is {own}, and has {len(content)} bytes")
        begin = _HEAD.size + names
        known = content[_HEAD.size : begin].decode().split("\0")
        flags = np.frombuffer(content, _FLAG, count, begin)
        begin += flags.nbytes
        steps: list[dict[str, Any]] = [
            {"reward": float(r), "terminated": bool(f & _TERMINATED), "truncated": bool(f & _TRUNCATED)}
            for r, f, _ in flags.tolist()
        ]
        for name, part, spec in self._leaves:
            column = np.frombuffer(content, spec.dtype, count * math.prod(spec.shape), begin).reshape(
                count, *spec.shape
            )
            for k, step in enumerate(steps):
                if name not in self._recorded or not flags["flags"][k] & _UNRECORDED:
                    parts = step.setdefault(name, {}) if part else step
                    parts[part or name] = column[k, ...]
            begin += column.nbytes
        environments = tuple(known[index] for index in flags["environment"].tolist()) if count else tuple(known)
        return Record(kind, number, time, environments, tuple(steps), key, body)


def steps_in(_: int, content: bytes) -> int:
    """Number of steps of a record, from its head alone; ``ValueError`` if it is not a record."""
    return int(_head(content)[-2])


def _head(content: bytes) -> tuple[Any, ...]:
    if len(content) < _HEAD.size:
        raise ValueError("a record is too short")
    return _HEAD.unpack_from(content)
