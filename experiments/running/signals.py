"""SIGINT and SIGTERM stop a run after the current timestep and save it; a second signal stops it at once."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any, Protocol

from ...hooks import Hook
from ...hooks.events import BeginFacts, EndFacts, Session

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stoppable(Protocol):
    """A session, or several runs, which the first signal stops."""

    def request_stop(self, reason: str) -> None:
        """Stop as soon as the state is consistent."""


class StopOnSignal(Hook):
    """A hook, and a context in which the signals are handled. For the main thread.

    The first signal during a session requests a stop. A second signal, or one outside of a session, where there is
    nothing to save, raises KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        """The number of the last signal received."""
        self.began = False
        """Whether a session has begun; then something was saved."""
        self._session: Stoppable | None = None
        self._previous: list[Any] = []

    @property
    def name(self) -> str:
        """The last signal's name, for a log."""
        return signal.Signals(self.received or signal.SIGINT).name

    @property
    def title(self) -> str:
        """The last signal's name, as users know it."""
        return "Ctrl-C" if self.name == "SIGINT" else self.name

    @property
    def exit_code(self) -> int:
        """130 or 143, as in shells."""
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
        """Make signals stop this session."""
        self._session, self.began = session, True

    def end(self, session: Session, facts: EndFacts) -> None:
        """Forget the session."""
        self._session = None

    @contextlib.contextmanager
    def stopping(self, target: Stoppable) -> Iterator[None]:
        """Within the context, the first signal stops the target."""
        self._session, self.began = target, True
        try:
            yield
        finally:
            self._session = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        first, self.received = self.received is None, number
        if not first or self._session is None:
            raise KeyboardInterrupt
        self._session.request_stop(f"{self.name} received")
        # print is not used, as the signal may have interrupted it.
        with contextlib.suppress(OSError):  # the same Ctrl-C may have ended the reader
            os.write(2, f"\naxonrl: {self.title}: stopping and saving. Repeat to stop at once.\n".encode())
