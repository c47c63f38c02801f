"""Python processes that axonrl starts beside its own, and lines of JSON between them."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import IO, Any, Final, NamedTuple, TypeAlias, cast

from ..hooks import Hook
from ..hooks.events import BeginFacts, EndFacts, Session

WARNING: Final = "warning"
"""For the user."""
STOP: Final = "stop"
"""Stop the run; the text is the reason."""

WAIT: Final = "wait"
"""For the user, and for the waiting process: the end comes later than expected."""


class Message(NamedTuple):
    """One line: ``{"type": "stop", "text": "..."}``."""

    type: str
    text: str


Tell: TypeAlias = Callable[[Message], None]


def started(main: Callable[..., object], arguments: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a Python process that calls ``main(arguments)``, a function of a module; what it returns is the exit code.

    Its standard input closes when this process ends, whatever ends it. Ctrl-C reaches this process alone.

    Args:
        main: what it calls.
        arguments: text.
        **options: of ``subprocess.Popen``.

    Raises:
        OSError: it could not be started.
    """
    # What can be imported here can be imported there: a model function or a tracker may be the user's own.
    name, module = main.__name__, main.__module__
    code = f"import sys; sys.path[:] = {sys.path}; from {module} import {name}; sys.exit({name}(sys.argv[1:]))"
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        **options,
    )


def send(process: subprocess.Popen[bytes], **values: Any) -> None:
    """Write a line of JSON to the standard input of a process; that it has ended is no error."""
    stdin = cast("IO[bytes]", process.stdin)
    with contextlib.suppress(OSError, ValueError):
        stdin.write(json.dumps(values).encode() + b"\n")
        stdin.flush()


class Parent:
    """The process that started this one and reads its standard output. All else that is printed goes to errors."""

    def __init__(self) -> None:
        self._file, self._lock = os.dup(1), threading.RLock()
        sys.stdout.flush()
        os.dup2(2, 1)

    def tell(self, **values: Any) -> None:
        """Write a line of JSON; that the reader has ended is no error. From any thread."""
        data = json.dumps(values, default=str).encode() + b"\n"
        with self._lock, contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._file, data) :]


class WarningRelay(logging.Handler):
    """Tells the warnings of the log: nobody reads the standard error of this process, or what a run printed."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        """Tell the warning."""
        self._tell(self.format(record))


def parse(line: str) -> Message:
    """The message of a line. Anything else, from a library for example, is a warning in its own words."""
    try:
        return Message(**json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return Message(WARNING, line)


class StopOnRequest(Hook):
    """Stops a run when another process asks for it: see :data:`STOP`."""

    def __init__(self) -> None:
        self.reason = ""
        """Why the run was stopped; empty if it was not."""
        self._session: Session | None = None

    def request_stop(self, reason: str) -> None:
        """Stop, once it trains. From any thread."""
        self.reason = reason
        if self._session is not None:
            self._session.request_stop(reason)

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Stop the session from now on."""
        self._session = session
        if self.reason:
            session.request_stop(self.reason)

    def end(self, session: Session, facts: EndFacts) -> None:
        """Forget the session."""
        self._session = None
