"""Postpones Ctrl-C during atomic work."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Final

IDLE: Final = 0
"""Nothing is in progress."""
RUNNING: Final = 1
"""Atomic work, such as a timestep, is in progress; or it has failed and left an inconsistent state."""
UNDONE: Final = 2
"""A timestep has failed, and the state is as before it."""
SAVING: Final = 3
"""Atomic work is in progress, and a checkpoint is to be saved at its end."""
WAITING: Final = 4
"""Atomic work is in progress, and a checkpoint is to be saved before any further update."""
CLOSED: Final = 5
"""The session is over: no further atomic work."""


class Interrupts:
    """Defers Ctrl-C while ``phase`` says that atomic work is in progress; a second Ctrl-C raises at once.

    Only in the main thread, and only if Python's own handler is installed: other handlers are not replaced.
    """

    def __init__(self) -> None:
        self.phase = IDLE
        """Phase of the atomic work."""
        self.noted = False
        """Was an interrupt deferred?"""
        self._installed = False

    def release(self) -> None:
        """End atomic work; raises a deferred ``KeyboardInterrupt``."""
        self.phase = IDLE
        if self.noted:
            self.noted = False
            raise KeyboardInterrupt

    def __enter__(self) -> Interrupts:
        in_main_thread = threading.current_thread() is threading.main_thread()
        if in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handle)
            self._installed = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._installed = False

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.phase == IDLE:
            raise KeyboardInterrupt
        self.noted = True
