"""How the C library hands out memory in a process that hosts many agents."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from typing import Final

_M_MMAP_THRESHOLD: Final = -3
_BYTES: Final = 128 * 1024


def keep_large_arrays_apart() -> None:
    """Take each large array from the machine by itself, and give it back at once. With glibc; else nothing is done.

    An agent's memory is zeros that take no room until they are written. Without this, glibc raises its limit when the
    first large array is freed, and then takes such arrays from its heap, where it has to write the zeros: 7 MB for a
    DQN with an empty memory of 100,000 transitions instead of 1.4 MB.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _BYTES)
