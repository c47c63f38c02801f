"""Idempotency keys: what the journals of agents and the database of accounts have in common, and the keys of agents."""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from ..core.protocols import State
from .refusals import RefusedError, invalid

_LONGEST: Final = 255
REMEMBERED: Final = 100_000
"""Number of steps whose keys are remembered."""


def key_of(header: bytes | None) -> str | None:
    """The key in the header ``Idempotency-Key``; None without one.

    Raises:
        RefusedError: it is not of 1 to 255 printable ASCII characters.
    """
    if header is None:
        return None
    key = header.decode("latin-1")
    if not 1 <= len(key) <= _LONGEST or not key.isascii() or not key.isprintable():
        raise invalid("Idempotency-Key", f"must be 1 to {_LONGEST} printable ASCII characters")
    return key


def digest(content: bytes, secret: bytes = b"") -> bytes:
    """Digest of a key or a request, 16 bytes; with a secret, nobody else can try contents against it."""
    return hashlib.blake2b(content, digest_size=16, key=secret).digest()


def reused_key() -> RefusedError:
    """The refusal of a key that another request had."""
    detail = "this Idempotency-Key was used for another request: use a new key for each request"
    return RefusedError("idempotency_key_reused", detail, [("Idempotency-Key", detail)])


class Accepted(NamedTuple):
    """An accepted request: digest of its body, number of its steps, and number of the last one."""

    body: bytes
    steps: int
    seq: int


class Keys:
    """The keys of the requests that an agent accepted last, so that none is applied twice."""

    def __init__(self) -> None:
        self._by_key: collections.OrderedDict[bytes, Accepted] = collections.OrderedDict()
        self._steps = 0

    def find(self, key: bytes) -> Accepted | None:
        """The request accepted with a key; None if there was none, or it is too old."""
        return self._by_key.get(key)

    def add(self, key: bytes, request: Accepted) -> None:
        """Remember an accepted request, and forget the oldest."""
        self._by_key[key] = request
        self._steps += max(request.steps, 1)
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
