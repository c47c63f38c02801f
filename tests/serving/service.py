"""``axonrl serve`` as a process of its own, for tests: started, killed, started again on the same port, and ended."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from axonrl.serving import RemoteAgent
from axonrl.serving.accounts import Accounts, open_service, passwords

PASSWORD = "correct horse battery"
UNLIMITED = ("transfers_per_minute", "creations_per_minute", "steps_per_second", "requests_per_minute")
CLI = "import sys; from axonrl.experiments.commands.cli import main; sys.exit(main())"
_START_SECONDS = 60.0


class Service:
    """A server on a data folder, with the user ``alice``.

    Args:
        data: the folder; made here.
        programs: the folder of programs that are compiled already.
        options: more words for ``axonrl serve``.
        environment: more variables of the process.
    """

    def __init__(
        self, data: Path, programs: Path, options: Sequence[str] = (), environment: dict[str, str] | None = None
    ) -> None:
        self.data = data
        self.log = data.with_name(f"{data.name}.log")
        self.options = [word for name in UNLIMITED for word in ("--set", f"limits.{name}=0")]
        self.options += ["--set", "http.connections_per_address=0", "--workers", "2", *options]
        self.environment = environment or {}
        self.process: subprocess.Popen[str] | None = None
        self.port = 0
        self.longest_start = 0.0
        """Seconds that a later start may take: 5, but on a busy machine twice as long as the first one."""
        self.token = _prepared(data, programs)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> Service:
        """Returns when the server has said where it is; after the first time, on the same port."""
        began = time.monotonic()
        command = [sys.executable, "-c", CLI, "serve", "--data", str(self.data), "--port", str(self.port)]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [*command, *self.options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
                env={**os.environ, **self.environment},
            )  # fmt: skip
        line = self._first_line()
        assert line.startswith("axonrl serving at http://127.0.0.1:"), f"{line!r}; {self.log.read_text()[-4000:]}"
        self.port = int(line.rsplit(":", 1)[1])
        self.longest_start = self.longest_start or max(5.0, 2 * (time.monotonic() - began))
        return self

    def _first_line(self) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        timer = threading.Timer(_START_SECONDS, self.process.kill)
        timer.start()
        try:
            return self.process.stdout.readline()
        finally:
            timer.cancel()

    def kill(self, *, workers: bool = True) -> None:
        """Kill -9 the gateway, and its workers too."""
        pids = [self.pid, *(self.children() if workers else ())]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._reap()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it in good order; its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self._reap()

    def end(self) -> None:
        """Whatever happened, no process remains."""
        if self.process is not None and self.process.poll() is None:
            self.kill()

    def _reap(self) -> int:
        assert self.process is not None
        assert self.process.stdout is not None
        code = self.process.wait(60)
        self.process.stdout.close()
        return code

    def children(self) -> list[int]:
        """Workers and builder."""
        return children(self.pid)

    def worker_of(self, agent: str) -> int:
        """The process that has an agent in memory."""
        return int((self.folder(agent) / "lock.pid").read_text())

    def folder(self, agent: str) -> Path:
        """Of an agent."""
        found: str = self.agent(agent).info()["id"]
        return self.data / "agents" / found

    def agent(self, name: str, **more: Any) -> RemoteAgent:
        """A client of alice's agent."""
        return RemoteAgent(name, **{"url": self.url, "access_token": self.token, "environment": "e", **more})

    def ask(
        self, method: str, path: str, body: object = None, key: str | None = None, token: str | None = None
    ) -> tuple[int, dict[str, str], Any]:
        """A request without the client, sent once: status, headers, JSON."""
        head = {"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json"}
        head |= {} if key is None else {"Idempotency-Key": key}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            connection.request(method, path, sent, head)
            answer = connection.getresponse()
            content = answer.read()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, headers, json.loads(content) if content else None
        finally:
            connection.close()

    def ready(self) -> int:
        """The status of ``/readyz``."""
        return self.ask("GET", "/readyz")[0]


def _prepared(data: Path, programs: Path) -> str:
    """A folder with alice; a token of hers that may do everything."""
    with mock.patch.dict(passwords.PARAMETERS, {"memory_cost": 8, "time_cost": 1}):
        data.mkdir(mode=0o700)
        database = open_service(data)
        try:
            accounts = Accounts(database)
            accounts.add_user("alice", PASSWORD)
            token, _ = accounts.create_token("alice", "tests", ["read", "act", "learn", "manage"])
        finally:
            database.close()
    (data / "programs").symlink_to(programs)
    return token


@contextlib.contextmanager
def serving(
    data: Path, programs: Path, options: Sequence[str] = (), environment: dict[str, str] | None = None
) -> Iterator[Service]:
    """A started server, which is ended whatever happens."""
    service = Service(data, programs, options, environment)
    try:
        yield service.start()
    finally:
        service.end()


def children(pid: int) -> list[int]:
    """The processes that a process has started, and that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == pid and state not in "ZX":
                found.append(int(path.parent.name))
    return found


def is_there(pid: int) -> bool:
    """Is the process there, and no zombie?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(what: Callable[[], object], seconds: float = 10.0) -> None:
    """Until something holds; an AssertionError after so many seconds."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come to hold"
        time.sleep(0.01)


class _Forwarding(http.server.BaseHTTPRequestHandler):
    """Hands each request on, and drops the answers to some of them."""

    protocol_version = "HTTP/1.1"
    server: _Proxy

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = urllib.request.Request(
            self.server.target + self.path, body or None, dict(self.headers), method="POST"
        )
        self._forward(request)

    def do_GET(self) -> None:
        self._forward(urllib.request.Request(self.server.target + self.path, None, dict(self.headers)))

    def _forward(self, request: urllib.request.Request) -> None:
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                status, content = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                status, content = error.code, error.read()
        except OSError:
            self.close_connection = True
            return
        with self.server.guard:
            self.server.answers += 1
            dropped = self.server.answers % 3 == 0
        if dropped:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *what: object) -> None:
        pass


class _Proxy(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Forwarding)
        self.target = target
        self.answers = 0
        self.guard = threading.Lock()


@contextlib.contextmanager
def dropping(target: str) -> Iterator[tuple[str, _Proxy]]:
    """A proxy in front of a server that drops every third answer: its address, and itself."""
    proxy = _Proxy(target)
    thread = threading.Thread(target=proxy.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{proxy.server_port}", proxy
    finally:
        proxy.shutdown()
        thread.join()
        proxy.server_close()
