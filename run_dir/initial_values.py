"""Initial values of a program's variables, as recorded by a run, to detect an edited program.

A checkpoint restores variables of the optimizer, including its learning rate: replacing ``Adam(1e-3)`` by
``Adam(1e-5)`` would silently have no effect.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ..core.protocols import Array

_SHOWN: Final = 3
"""Maximum number of variables to name; further ones are only counted."""


def digests(weights: Mapping[str, Array]) -> dict[str, Any]:
    """The value of each variable with a single number; a digest of the bytes of each other one."""
    return {name: _digest(np.asarray(value)) for name, value in weights.items()}


def _digest(value: Array) -> Any:
    if value.size == 1 and value.dtype.kind in "fiub":
        return value.reshape(()).item()
    return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]


def differences(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Describe differences between the recorded and the current initial values; None if there are none."""
    names = [name for name in now if name in recorded and recorded[name] != now[name]]
    if not names:
        return None
    arrays = {name for name in names if str in (type(recorded[name]), type(now[name]))}
    listed = [
        name if name in arrays else f"{name}, {recorded[name]:g} before and {now[name]:g} now"
        for name in sorted(names, key=arrays.__contains__)[:_SHOWN]
    ]
    more = len(names) - len(listed)
    return "; ".join(listed) + (f"; and {more} more" if more else "")
