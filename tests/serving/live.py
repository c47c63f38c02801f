"""A service as its users run it: `axonrl serve` in a process of its own, which ends with the tests."""

import contextlib
import os
import queue
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from axonrl.serving import RemoteAgent
from axonrl.serving.accounts import Accounts, open_service
from axonrl.serving.catalogue import Recipe

from .for_accounts import PASSWORD

_READY: Final = "axonrl serving at "
_SECONDS: Final = 60
CLI: Final = [sys.executable, "-c", "import sys; from axonrl.experiments.commands.cli import main; sys.exit(main())"]
MORE_THAN_ANY_TEST: Final = ("limits.transfers_per_minute=0", "limits.creations_per_minute=0")


class Server:
    """One `axonrl serve`.

    Args:
        data: its folder.
        *options: of the command.
    """

    def __init__(self, data: Path, *options: str) -> None:
        self.data, self._options = data, options
        self._process: subprocess.Popen[str] | None = None
        self.url = ""
        self.log = data.with_name(f"{data.name}-{secrets.token_hex(4)}.log")

    def start(self) -> "Server":
        """Start it, and wait until it is ready."""
        sets = [word for one in MORE_THAN_ANY_TEST for word in ("--set", one)]
        command = [*CLI, "serve", "--port", "0", "--data", str(self.data), "--workers", "1", *sets, *self._options]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        lines: queue.Queue[str] = queue.Queue()
        stdout = self._process.stdout
        assert stdout is not None
        threading.Thread(target=lambda: lines.put(stdout.readline()), daemon=True).start()
        line = lines.get(timeout=_SECONDS)
        assert line.startswith(_READY), self.log.read_text()
        self.url = line.removeprefix(_READY).strip()
        return self

    @property
    def pid(self) -> int:
        """Of the gateway."""
        assert self._process is not None
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the gateway."""
        assert self._process is not None
        self._process.send_signal(number)

    def workers(self) -> list[int]:
        """The process ids of its children."""
        return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]

    def wait(self) -> int:
        """The exit code."""
        assert self._process is not None
        code = self._process.wait(_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        return code

    def stop(self) -> int:
        """Have it save everything and end."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """As if the machine had failed; workers end when they see it."""
        if self._process is not None:
            self._process.kill()
            self.wait()

    def end(self) -> None:
        """Kill it, whatever state it is in, with its workers."""
        if self._process is not None:
            children = self.workers()
            self.kill()
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)


@contextlib.contextmanager
def served(data: Path, *options: str) -> Iterator[Server]:
    """A server that is ready, and is gone at the end."""
    server = Server(data, *options)
    try:
        yield server.start()
    finally:
        server.end()


def prepared(data: Path, programs: Path, *recipes: Recipe, database: str | None = None) -> str:
    """A data folder with the account alice, and with programs, so that no TensorFlow is loaded.

    Returns:
        A token of hers.
    """
    opened = open_service(data, database)
    try:
        accounts = Accounts(opened)
        accounts.add_user("alice", PASSWORD)
        text, _ = accounts.create_token("alice", "tests", ["read", "act", "learn", "manage"], None, None)
    finally:
        opened.close()
    for recipe in recipes:
        shutil.copytree(programs / recipe.digest, data / "programs" / recipe.digest)
    return text


def agent(server: Server, token: str, name: str = "cart", **more: Any) -> RemoteAgent:
    """A client of alice's agent."""
    return RemoteAgent(name, url=server.url, access_token=token, environment="e", **more)


def axonrl(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """A command of axonrl, in a process of its own."""
    return subprocess.run([*CLI, *words], capture_output=True, text=True, timeout=_SECONDS, check=check)
