"""``axonrl serve`` as a process of its own, for tests: started, killed, started again on the same port, and ended."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import socketserver
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from axonrl.serving import RemoteAgent

from .live import Server, agent, prepared, running

SMALL: Final[dict[str, Any]] = {"seed": 0, "hidden_layers": [8], "batch_size": 8, "buffer_size": 500}
FAULTS: Final = Path(__file__).with_name("faulty")


class Service(Server):
    """A server on a new data folder, with the user ``alice`` and two workers.

    Args:
        data: the folder; made here.
        programs: the folder of programs that are compiled already.
        options: more words for ``axonrl serve``.
        environment: more variables of the process.
        database: its address, if it is another one than SQLite's in the folder.
    """

    def __init__(
        self,
        data: Path,
        programs: Path,
        options: Sequence[str] = (),
        environment: dict[str, str] | None = None,
        database: str | None = None,
    ) -> None:
        options = [*options, *(() if database is None else ("--database", database))]
        super().__init__(data, "--workers", "2", *options, environment=environment)
        self.programs = programs
        self.token = prepared(data, programs, database=database)
        (data / "programs").symlink_to(programs)

    def worker_of(self, agent: str) -> int:
        """The process that has an agent in memory."""
        return int((self.folder(agent) / "lock.pid").read_text())

    def folder(self, agent: str) -> Path:
        """Of an agent."""
        found: str = self.agent(agent).info()["id"]
        return self.data / "agents" / found

    def agent(self, name: str, **more: Any) -> RemoteAgent:
        """A client of alice's agent."""
        return agent(self, self.token, name, **more)

    def ask(
        self, method: str, path: str, body: object = None, key: str | None = None, token: str | None = None
    ) -> tuple[int, dict[str, str], Any]:
        """A request without the client, sent once: status, headers, JSON."""
        head = {"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json"}
        head |= {} if key is None else {"Idempotency-Key": key}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
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


def serving(
    data: Path, programs: Path, options: Sequence[str] = (), environment: dict[str, str] | None = None
) -> contextlib.AbstractContextManager[Service]:
    """A started server, which is ended whatever happens."""
    return running(Service(data, programs, options, environment))


@contextlib.contextmanager
def quiet(service: Service) -> Iterator[None]:
    """Meanwhile no process of it says that something unexpected has happened."""
    before = service.log.stat().st_size
    yield
    assert "Traceback" not in service.log.read_bytes()[before:].decode()


def timesteps(agent: RemoteAgent) -> int:
    """That an agent has accepted."""
    found: int = agent.info()["counters"]["global_timestep"]
    return found


def is_there(pid: int) -> bool:
    """Is the process there, and no zombie?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(what: Callable[[], object], seconds: float = 60.0) -> None:
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
