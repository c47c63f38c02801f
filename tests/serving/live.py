"""A service as its users run it: `axonrl serve` in a process of its own, which ends with the tests."""

import contextlib
import http.client
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar
from unittest import mock

from axonrl.serving import RemoteAgent
from axonrl.serving.accounts import Accounts, AgentRows, open_service, passwords
from axonrl.serving.accounts.tables import Agent
from axonrl.serving.catalogue import Recipe
from axonrl.serving.hosting.programs import program_of

from .for_accounts import PASSWORD

_Server = TypeVar("_Server", bound="Server")
_READY: Final = "axonrl serving at "
_SECONDS: Final = 120
CLI: Final = [sys.executable, "-c", "import sys; from axonrl.experiments.commands.cli import main; sys.exit(main())"]
UNLIMITED: Final = (
    *("limits.transfers_per_minute", "limits.creations_per_minute", "limits.steps_per_second"),
    *("limits.requests_per_minute", "limits.changes_per_minute", "http.connections_per_address"),
)


class Server:
    """One `axonrl serve`, which may be killed and started again on the same port.

    Args:
        data: its folder.
        *options: of the command.
        environment: more variables of the process.
    """

    def __init__(self, data: Path, *options: str, environment: Mapping[str, str] | None = None) -> None:
        self.data, self._environment = data, environment or {}
        self._options = [*(word for name in UNLIMITED for word in ("--set", f"{name}=0")), "--workers", "1", *options]
        self.process: subprocess.Popen[str] | None = None
        self.port, self.scheme = 0, "http"
        self.log = data.with_name(f"{data.name}-{secrets.token_hex(4)}.log")

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def command(self) -> list[str]:
        return [*CLI, "serve", "--data", str(self.data), "--port", str(self.port), *self._options]

    def start(self: _Server) -> _Server:
        """Returns when the server has said where it is; after the first time, on the same port."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
                env={**os.environ, **self._environment},
            )  # fmt: skip
        line = self._first_line()
        found = re.fullmatch(rf"{_READY}(https?)://127\.0\.0\.1:(\d+)\n", line)
        assert found, f"{line!r}; {self.log.read_text()[-4000:]}"
        self.scheme, self.port = found[1], int(found[2])
        return self

    def _first_line(self) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        timer = threading.Timer(_SECONDS, self.process.kill)
        timer.start()
        try:
            return self.process.stdout.readline()
        finally:
            timer.cancel()

    def children(self) -> list[int]:
        """Workers and builder."""
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, parent = path.read_text().rpartition(")")[2].split()[:2]
                if int(parent) == self.pid and state not in "ZX":
                    found.append(int(path.parent.name))
        return found

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Have it save everything and end; its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.ended()

    def kill(self, *, workers: bool = True) -> None:
        """Kill -9 the gateway, as if the machine had failed, and its workers too; else they end when they see it."""
        for pid in [self.pid, *(self.children() if workers else ())]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.ended()

    def ask(
        self, method: str, path: str, body: object = None, key: str | None = None, token: str | None = None, **more: str
    ) -> tuple[int, dict[str, str], Any]:
        """A request without the client, sent once: status, headers, JSON or bytes."""
        head = {"Content-Type": "application/json", **more}
        head |= {} if token is None else {"Authorization": f"Bearer {token}"}
        head |= {} if key is None else {"Idempotency-Key": key}
        sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=240)) as connection:
            connection.request(method, path, sent, head)
            answer = connection.getresponse()
            content, headers = answer.read(), {name.lower(): value for name, value in answer.getheaders()}
        is_json = content and "json" in headers.get("content-type", "")
        return answer.status, headers, json.loads(content) if is_json else content

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()

    def ended(self) -> int:
        assert self.process is not None
        assert self.process.stdout is not None
        code = self.process.wait(_SECONDS)
        self.process.stdout.close()
        return code


@contextlib.contextmanager
def running(server: _Server) -> Iterator[_Server]:
    """A server that is ready, and is gone at the end."""
    try:
        yield server.start()
    finally:
        server.end()


def prepared(data: Path, programs: Path, *recipes: Recipe, database: str | None = None) -> str:
    """A data folder with the account alice, and with programs, so that no TensorFlow is loaded.

    Returns:
        A token of hers.
    """
    cheap = mock.patch.dict(passwords.PARAMETERS, memory_cost=8, time_cost=1)
    with cheap, contextlib.closing(open_service(data, database)) as opened:
        accounts = Accounts(opened)
        accounts.add_user("alice", PASSWORD)
        text, _ = accounts.create_token("alice", "tests", ["read", "act", "learn", "manage"])
    for recipe in recipes:
        copy_program(recipe, programs, data)
    return text


def with_agent(data: Path) -> Agent:
    """The row of alice's agent ``cart``, which has no folder yet."""
    with contextlib.closing(open_service(data)) as opened:
        rows = AgentRows(opened)
        agent = rows.add(Accounts(opened).user("alice").id, "cart", "dqn", "", {})
        rows.set_ready(agent.id)
        return agent


def copy_program(recipe: Recipe, programs: Path, data: Path) -> None:
    """The program that serves a recipe, which may be another one's."""
    directory = program_of(recipe, programs).directory
    shutil.copytree(directory, data / "programs" / directory.name, dirs_exist_ok=True)


def agent(server: Server, token: str, name: str = "cart", **more: Any) -> RemoteAgent:
    return RemoteAgent(name, **{"url": server.url, "access_token": token, "environment": "e", **more})
