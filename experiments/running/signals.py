"""SIGINT and SIGTERM stop a run after its timestep, and it saves; a second one stops it at once."""

from __future__ import annotations

import contextlib
import os
import signal
from types import FrameType, TracebackType
from typing import Any

from ...facts import BeginFacts, EndFacts, Session
from ...hooks import Hook

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopOnSignal(Hook):
    """A hook, which knows the session, and a context, in which the signals are handled. For the main thread.

    The first signal during a session asks it to stop. The second, or one outside of a session, where nothing could be
    saved, raises KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        """The number of the last signal that came, None if none did."""
        self.began = False
        """Has a session begun? Then there is something that was saved."""
        self._session: Session | None = None
        self._previous: list[Any] = []

    @property
    def name(self) -> str:
        """Of the last signal."""
        return signal.Signals(self.received or signal.SIGINT).name

    @property
    def exit_code(self) -> int:
        """What a process that the signal stopped returns: 130 or 143."""
        return 128 + (self.received or signal.SIGINT)

    def __enter__(self) -> StopOnSignal:
        self._previous = [signal.signal(number, self._handle) for number in _SIGNALS]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in zip(_SIGNALS, self._previous, strict=True):
            signal.signal(number, handler)

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """From here on there is something to stop."""
        self._session, self.began = session, True

    def end(self, session: Session, facts: EndFacts) -> None:
        """From here on there is not."""
        self._session = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        first, self.received = self.received is None, number
        if not first or self._session is None:
            raise KeyboardInterrupt
        self._session.request_stop(f"{self.name} came")
        # Not print: the signal may have come in the middle of one.
        with contextlib.suppress(OSError):  # nobody reads: the same Ctrl-C has ended tee
            os.write(2, f"\naxonrl: {self.name}: stopping and saving; once more stops at once\n".encode())
