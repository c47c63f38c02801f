"""Postpones Ctrl-C during atomic work."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class Interrupts:
    """Defers Ctrl-C between :meth:`hold` and :meth:`release`, which raises it; a second Ctrl-C raises at once.

    Only in the main thread, and only if Python's own handler is installed: others are kept.
    """

    def __init__(self) -> None:
        self.held = False
        """Is atomic work in progress? Stays True if an exception interrupts it."""
        self.noted = False
        """Was an interrupt deferred?"""
        self._installed = False

    def hold(self) -> None:
        """Begin atomic work."""
        self.held = True

    def release(self) -> None:
        """End atomic work; raises a deferred ``KeyboardInterrupt``."""
        self.held = False
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
        if not self.held:
            raise KeyboardInterrupt
        self.noted = True
