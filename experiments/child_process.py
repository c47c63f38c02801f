"""Child processes in Python, which exchange lines of JSON with their parent."""

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
"""Warn the user."""
STOP: Final = "stop"
"""Stop the run; the text is the reason."""

WAIT: Final = "wait"
"""Tell the user, and the waiting process, that ending takes longer than expected."""


class Message(NamedTuple):
    """One line: ``{"type": "stop", "text": "..."}``."""

    type: str
    text: str


Tell: TypeAlias = Callable[[Message], None]


def start_process(main: Callable[..., object], arguments: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a Python process that calls ``main(arguments)``, a module's function, which returns the exit code.

    Its standard input closes when this process ends, for whatever reason. Ctrl-C reaches only this process.

    Args:
        main: what it calls.
        arguments: text.
        **options: of ``subprocess.Popen``.

    Raises:
        OSError: it could not be started.
    """
    # The child has the same import path, as a model function or a tracker may be the user's own.
    name, module = main.__name__, main.__module__
    code = f"import sys; sys.path[:] = {sys.path}; from {module} import {name}; sys.exit({name}(sys.argv[1:]))"
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        **options,
    )


class Parent:
    """The process that started this one and reads its standard output. Anything else printed goes to standard error."""

    def __init__(self) -> None:
        self._file, self._lock = os.dup(1), threading.RLock()
        sys.stdout.flush()
        os.dup2(2, 1)

    def tell(self, **values: Any) -> None:
        """Write a line of JSON, from any thread. It is not an error if the reader has ended."""
        data = json.dumps(values, default=str).encode() + b"\n"
        with self._lock, contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._file, data) :]


class WarningRelay(logging.Handler):
    """Sends warnings of the log to the parent, as nobody reads this process's standard error or a run's output."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        """Send the warning."""
        self._tell(self.format(record))


class Child:
    """A child process; both sides send lines of JSON.

    Args:
        main: the function that it calls; see :func:`start_process`.
        arguments: text.
        take: called with the values of each line, in another thread. A line that is not JSON, for example from a
            library, becomes a warning with this text.
        **options: arguments of ``subprocess.Popen``; by default standard error is discarded.

    Raises:
        OSError: it could not be started.
    """

    def __init__(
        self,
        main: Callable[..., object],
        arguments: Sequence[str],
        take: Callable[[dict[str, Any]], object],
        **options: Any,
    ) -> None:
        usual = {"stderr": subprocess.DEVNULL, "env": {**os.environ, "PYTHONWARNINGS": "ignore"}}
        self.process, self._take = start_process(main, arguments, **{**usual, **options}), take
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def tell(self, **values: Any) -> None:
        """Send a line. It is not an error if the process has ended."""
        stdin = cast("IO[bytes]", self.process.stdin)
        with contextlib.suppress(OSError, ValueError):
            stdin.write(json.dumps(values).encode() + b"\n")
            stdin.flush()

    def end(self, seconds: float | None = None, reading: float | None = None) -> int:
        """Close its input, and wait for its end.

        Args:
            seconds: maximum time to wait; None for no limit.
            reading: maximum time to continue reading after its end, as one of its children may hold its output open.

        Returns:
            The exit code.

        Raises:
            TimeoutExpired: it still runs.
        """
        with contextlib.suppress(OSError):
            cast("IO[bytes]", self.process.stdin).close()
        code = self.process.wait(seconds)
        self._reader.join(reading)
        return code

    def _listen(self) -> None:
        with cast("IO[bytes]", self.process.stdout) as output:
            for line in output:
                self._take(parse(line.decode(errors="replace").strip()))
        self.process.wait()  # so that it does not remain a zombie if nobody waits for it


def parse(line: str) -> dict[str, Any]:
    """The values of a line; a warning if the line is not a JSON mapping."""
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(value := json.loads(line), dict):
            return value
    return Message(WARNING, line)._asdict()


class StopOnRequest(Hook):
    """Stops a run when another process asks for it: see :data:`STOP`."""

    def __init__(self) -> None:
        self.reason = ""
        """Why the run was stopped; empty if it was not."""
        self._session: Session | None = None

    def request_stop(self, reason: str) -> None:
        """Stop the run, once it trains; from any thread."""
        self.reason = reason
        if self._session is not None:
            self._session.request_stop(reason)

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Stop this session on a request."""
        self._session = session
        if self.reason:
            session.request_stop(self.reason)

    def end(self, session: Session, facts: EndFacts) -> None:
        """Forget the session."""
        self._session = None
