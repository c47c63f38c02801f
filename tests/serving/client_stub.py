"""A service that answers as a test says, and remembers what it was asked."""

import base64
import contextlib
import http.server
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from axonrl.serving import RemoteAgent
from axonrl.serving.client import logins

AGENT = {
    "id": "1",
    "name": "a",
    "model": "dqn",
    "description": "",
    "config": {"state_size": 4, "action_size": 2, "lr": 0.001, "hidden_layers": [64, 64], "using_double_q": True},
    "is_active": True,
    "status": "ready",
    "discrete": True,
    "counters": {"global_timestep": 0, "global_step": 0, "global_episode": 0},
}


class Asked(NamedTuple):
    method: str
    path: str
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def key(self) -> str | None:
        found: str | None = self.headers.get("Idempotency-Key")
        return found

    @property
    def token(self) -> str | None:
        found: str | None = self.headers.get("Authorization")
        return found and found.removeprefix("Bearer ")


class Reply(NamedTuple):
    """``lost``: the connection is closed instead. ``after``: waited for before."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = MappingProxyType({})
    lost: bool = False
    after: threading.Event | None = None


LOST = Reply(lost=True)
ACCEPTED = Reply(200, {"accepted": 1, "seq": 1})
STATE = [0.1, 0.2, 0.3, 0.4]
CONFIG: dict[str, Any] = AGENT["config"]  # type: ignore[assignment]
SNAPSHOT = {
    "model": "dqn",
    "state_size": 4,
    "action_size": 2,
    "encoded_config": base64.b64encode(b'{"lr": 0.001}').decode(),
    "encoded_network": "bmV0",
    "encoded_buffer": "YnVm",
}


def problem(status: int, code: str, detail: str = "", **more: Any) -> Reply:
    retry = {"Retry-After": str(more.pop("retry_after"))} if "retry_after" in more else {}
    body = {"type": "about:blank", "title": code, "status": status, "code": code, "detail": detail, **more}
    return Reply(status, body, {"Content-Type": "application/problem+json", "X-Request-Id": "r1", **retry})


class Stub:
    """``replies`` are used up in order, then ``default`` is asked."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.ended: dict[str | None, str] = {}
        """Tokens that are refused, and with which code."""
        self.replies: deque[Reply] = deque()
        self.default: Callable[[Asked], Reply] = lambda asked: problem(500, "internal")
        self.arrived = threading.Semaphore(0)
        self.connections = 0
        stub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                stub.connections += 1
                super().setup()

            def handle_one_request(self) -> None:
                with contextlib.suppress(ConnectionError):
                    super().handle_one_request()

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                asked = Asked(self.command, self.path, self.headers, body)
                stub.asked.append(asked)
                refused = stub.ended.get(asked.token)
                reply = stub.replies.popleft() if stub.replies else stub.default(asked)
                reply = reply if refused is None else problem(401, refused)
                stub.arrived.release()
                if reply.after is not None:
                    reply.after.wait(60)
                if reply.lost:
                    self.close_connection = True
                    return
                content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                self.send_response(reply.status)
                for name, value in {"Content-Length": str(len(content)), **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815

            def log_message(self, *args: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def paths(self) -> list[str]:
        """Method and path without ``/api/v1``."""
        return [f"{asked.method} {asked.path.removeprefix('/api/v1')}" for asked in self.asked]


class Clock:
    """In the place of a module's ``time``: it goes on while somebody sleeps, and does not let him wait."""

    def __init__(self) -> None:
        self.now, self.slept = 1000.0, list[float]()

    def __call__(self) -> float:
        return self.now

    monotonic = time = perf_counter = __call__

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@contextlib.contextmanager
def running() -> Iterator[Stub]:
    stub = Stub()
    thread = threading.Thread(target=stub.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        stub.server.shutdown()
        thread.join()
        stub.server.server_close()
        logins._OPEN.clear()  # the next one may have its port


def connect(stub: Stub, **more: Any) -> RemoteAgent:
    return RemoteAgent("a", url=stub.url, access_token="axp_secret", **more)


def told(stub: Stub, **more: Any) -> RemoteAgent:
    """One that need not ask for anything."""
    return connect(stub, **{"state_size": 4, "action_size": 2, "agent_model": "dqn", **more})


def agent_of(stub: Stub, **changes: Any) -> RemoteAgent:
    """One that knows its agent, with the question forgotten."""
    stub.replies.append(Reply(200, {**AGENT, **changes}))
    agent = connect(stub, environment="e")
    agent.sync()
    stub.asked.clear()
    return agent
