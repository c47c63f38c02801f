"""Ctrl-C, put off while something is under way that must not be torn."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class Interrupts:
    """While open, Ctrl-C between :meth:`hold` and :meth:`release` is raised by ``release``; a second one at once.

    Only in the main thread and only in place of Python's own handler: whoever installed another keeps it.
    """

    def __init__(self) -> None:
        self.held = False
        """Is something under way? Still True after an exception has ended it."""
        self.noted = False
        """Has one been put off?"""
        self._installed = False

    def hold(self) -> None:
        """Something begins that must not be torn."""
        self.held = True

    def release(self) -> None:
        """It is whole again; raises the ``KeyboardInterrupt`` that was put off."""
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
