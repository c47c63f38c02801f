"""Shared by several files: waiting, a terminal, a tracked run, a server that always answers the same, commands."""

from __future__ import annotations

import http.server
import io
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from axonrl.experiments.tracking.journal import TrackedRun
from axonrl.run_dir.checkpoints import CheckpointStore


def wait(condition: Callable[[], object], seconds: float = 240) -> None:
    """Wait until something is true, and fail if it takes too long."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def tracked_run(folder: Path) -> TrackedRun:
    run = TrackedRun(folder)
    run.read()
    return run


def files(folder: Path) -> dict[str, bytes]:
    """Path and content of every file below a folder."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def weights(folder: Path) -> dict[str, bytes]:
    loaded = CheckpointStore(folder).load()
    assert loaded is not None
    return {name: array.tobytes() for name, array in loaded[1]["weights"].items()}


def command(*arguments: str) -> list[str]:
    code = "import sys; from axonrl.experiments.commands.cli import main; sys.exit(main(sys.argv[1:]))"
    return [sys.executable, "-c", code, *arguments]


def tracking() -> dict[str, str]:
    """The environment of a process that tracks its runs."""
    return {name: value for name, value in os.environ.items() if name != "POLYAXON_NO_OP"}


class StubServer(http.server.ThreadingHTTPServer):
    """Answers every request with the same status, and the same body but for a run's statuses; keeps the requests."""

    def __init__(self, status: int, body: bytes = b"{}", statuses: bytes | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.body, self.statuses = status, body, body if statuses is None else statuses
        self.requests: list[tuple[str, str, str | None]] = []
        self.host = f"http://127.0.0.1:{self.server_port}"

    @contextmanager
    def running(self) -> Iterator[StubServer]:
        with self:
            thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            yield self
            self.shutdown()
            thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: StubServer

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append((self.command, self.path, self.headers.get("Authorization")))
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(self.server.statuses if self.path.endswith("/statuses") else self.server.body)

    do_GET = do_POST = answer  # noqa: N815 - the names of the base class

    def log_message(self, format: str, *args: object) -> None: ...
