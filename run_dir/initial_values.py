"""The values with which a program's variables begin, as a run records them: an edited program is noticed by them.

A checkpoint brings back what an optimizer keeps in variables, its learning rate too: ``Adam(1e-5)`` in the place of
``Adam(1e-3)`` would change nothing, and nobody would be told.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ..core.protocols import Array

_SHOWN: Final = 3
"""Variables that are named; of more there is the number."""


def digests(weights: Mapping[str, Array]) -> dict[str, Any]:
    """Each variable's value, where it is one number; else a digest of its bytes."""
    return {name: _digest(np.asarray(value)) for name, value in weights.items()}


def _digest(value: Array) -> Any:
    if value.size == 1 and value.dtype.kind in "fiub":
        return value.reshape(()).item()
    return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]


def differences(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """What differs between the values that a run began with and the program's now, in words; None if nothing does."""
    names = [name for name in now if name in recorded and recorded[name] != now[name]]
    if not names:
        return None
    told = [
        name if isinstance(now[name], str) else f"{name}, {recorded[name]:g} then and {now[name]:g} now"
        for name in sorted(names, key=lambda name: isinstance(now[name], str))[:_SHOWN]
    ]
    more = len(names) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more else "")
