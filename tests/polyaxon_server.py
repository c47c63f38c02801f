"""A real Polyaxon server for tests: ``haupt sandbox start`` on SQLite, from a virtual environment of its own.

The server asks for no token, compiles what is submitted and queues it; it runs nothing by itself. Its owner is called
``default``; projects must be created first. The artifacts of a run are in ``folder / uuid``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Final

from axonrl.tests.experiments.sharing import free_port

BIN: Final = Path(__file__).resolve().parent.parent / ".venv-polyaxon" / "bin"
STARTS_WITHIN: Final = 120.0
"""Seconds; about five on an idle machine."""


class PolyaxonServer:
    """A server on a free port, running while this is open; in an empty folder, for its home, its data and its log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "data"
        self.log = folder / "server.log"
        self._home = folder / "home"
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        """What ``POLYAXON_HOST`` is set to."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the server, the first time or again with the same port and data; it answers when this returns."""
        haupt = BIN / "haupt"
        if not haupt.exists():
            raise FileNotFoundError(f"the tests' Polyaxon server is not installed: make test-server ({haupt})")
        self.folder.mkdir(exist_ok=True)
        self._home.mkdir(exist_ok=True)
        # One worker: then the server is one process.
        command = [str(haupt), "sandbox", "start", "--host=127.0.0.1", f"--port={self._port}", "--workers=1"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, f"--path={self.folder}"],
                cwd=self._home,
                env={
                    "PATH": os.defpath,
                    "HOME": str(self._home),
                    "POLYAXON_UI_IN_SANDBOX": "true",  # serve the web page
                    "POLYAXON_UI_OFFLINE": "true",  # with scripts of its own instead of others' servers'
                    # A transaction that begins by reading fails where another thread has written since; the server's
                    # own do. This one waits for its turn.
                    "POLYAXON_DB_OPTIONS": '{"transaction_mode": "IMMEDIATE", "timeout": 20}',
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the tests, which then stop the server
            )
        deadline = time.monotonic() + STARTS_WITHIN
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"the Polyaxon server did not start:\n{self.log.read_text(errors='replace')}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop the server; connections to it are refused from now on."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.host}/healthz/", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def __enter__(self) -> PolyaxonServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
