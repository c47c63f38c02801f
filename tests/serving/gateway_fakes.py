"""For tests of the gateway: workers and models that are none, real accounts, and requests without a network."""

import asyncio
import atexit
import contextlib
import dataclasses
import functools
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from axonrl.errors import ArgumentError
from axonrl.serving.accounts import Accounts, AgentRows, Audit, Database, Idempotency
from axonrl.serving.accounts.passwords import PARAMETERS
from axonrl.serving.catalogue import Recipe
from axonrl.serving.gateway.edge import Edge
from axonrl.serving.gateway.gateway import Gateway
from axonrl.serving.gateway.http_messages import Message, Receive
from axonrl.serving.gateway.settings import Settings, load
from axonrl.serving.workers.pool import WorkerResponse

IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where nothing is waited for: SQLite syncs each of its transactions."""
PASSWORD = "correct horse battery"
CARTPOLE = {"state_size": 4, "action_size": 2}
AGENTS = "/api/v1/agents"
STEP = {"step_data": {"state": [0, 0, 0, 0], "action": [1], "reward": 1, "next_state": [0, 0, 0, 0], "done": False}}


def failure(status: int, code: str, where: str = "", retry_after: int | None = None) -> WorkerResponse:
    errors = [{"where": where, "what": "is wrong"}] if where else []
    return WorkerResponse(
        status, json.dumps({"code": code, "detail": f"{where} is wrong", "errors": errors}).encode(), False, retry_after
    )


class FakePool:
    """Remembers what it was asked. ``answers`` has what it answers to a call instead of the usual."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, bytes, dict[str, Any]]] = []
        self.answers: dict[str, WorkerResponse] = {}
        self.steps: dict[str, int] = {}
        self.keys: dict[str, int] = {}
        self.held: asyncio.Event | None = None
        """What it waits for."""
        self.asking = asyncio.Event()

    async def start(self) -> None:
        pass

    async def stop(self, seconds: float) -> None:
        pass

    async def ask(self, agent: str, do: str, body: bytes = b"", **head: Any) -> WorkerResponse:
        self.asked.append((agent, do, body, head))
        self.asking.set()
        if self.held is not None:
            await self.held.wait()
        if do in self.answers:
            return self.answers[do]
        if do == "open":
            self.steps[agent] = 0
        if agent not in self.steps:
            return failure(404, "not_found")
        if do == "remove":
            del self.steps[agent]
        return self._answer(agent, do, body, head)

    def _answer(self, agent: str, do: str, body: bytes, head: Mapping[str, Any]) -> WorkerResponse:
        if do == "act":
            return WorkerResponse(200, b'{"action":[1]}')
        if do in ("step", "steps"):
            if head.get("key") in self.keys:
                return WorkerResponse(200, b'{"accepted":1,"seq":%d}' % self.keys[head["key"]], replayed=True)
            count = len(json.loads(body)["steps"]) if do == "steps" else 1
            self.steps[agent] += count
            if "key" in head:
                self.keys[head["key"]] = self.steps[agent]
            return WorkerResponse(200, b'{"accepted":%d,"seq":%d}' % (count, self.steps[agent]))
        if do in ("open", "info"):
            return WorkerResponse(200, json.dumps(self._info(agent)).encode())
        if do == "episodes":
            return WorkerResponse(200, b"[]")
        if do == "get_state":
            return WorkerResponse(200, json.dumps({**dict.fromkeys(SIX, ""), "state_size": 4}).encode())
        return WorkerResponse(200, b'{"lost":0}' if do == "patch" else b"{}")

    def _info(self, agent: str) -> dict[str, Any]:
        counters = {"global_timestep": self.steps[agent], "global_step": 0, "global_episode": 0}
        values: dict[str, Any] = {"status": "ready", "status_detail": None, "learning": True, "counters": counters}
        return {**values, "episode_return_mean": None, "bytes": 7, "executor": "litert", "config": {}}

    def last(self) -> tuple[str, str, bytes, dict[str, Any]]:
        return self.asked[-1]

    def done(self) -> list[str]:
        return [do for _, do, _, _ in self.asked]


SIX = ("model", "state_size", "action_size", "encoded_config", "encoded_network", "encoded_buffer")


class FakeCatalogue:
    """Hosts one model with one hyperparameter."""

    def recipe(self, model: str, config: Mapping[str, Any]) -> Recipe:
        if model.lower() != "dqn":
            raise ArgumentError(f"model must be dqn, got {model!r}", "model", model)
        for name in config:
            if name not in ("state_size", "action_size", "lr"):
                raise ArgumentError(f"there is no {name}", name)
        if config.get("lr", 1) <= 0:
            raise ArgumentError(f"lr must be above 0, got {config['lr']}", "lr", config["lr"])
        complete = {"discrete": True, "lr": 3e-4, "seed": 1, **config}
        return Recipe("dqn", complete, "dqn", {}, {"kind": "replay"}, 1, 1, {}, {}, "epsilon", False)

    def model_descriptions(self) -> list[dict[str, Any]]:
        return [{"model": "dqn", "summary": "", "actions": [], "noise": {}, "hyperparameters": []}]


@functools.cache
def _template() -> tuple[Path, dict[str, str]]:
    """A database with alice, bob and the administrator root, and a token of each that may all that its user may."""
    path = Path(tempfile.mkdtemp(prefix="axonrl-gateway-", dir=IN_MEMORY)) / "service.db"
    database = Database.open(path, migrate=True)
    with mock.patch.dict(PARAMETERS, memory_cost=8, time_cost=1):
        accounts, tokens = Accounts(database), {}
    for name in ("alice", "bob", "root"):
        accounts.add_user(name, PASSWORD, admin=name == "root")
        scopes = ["read", "act", "learn", "manage", *(["admin", "metrics"] if name == "root" else [])]
        tokens[name], _ = accounts.create_token(name, "test", scopes)
    database.close()
    atexit.register(shutil.rmtree, path.parent, ignore_errors=True)
    return path, tokens


def fake_gateway(folder: Path, settings: Settings, pool: Any, **more: Any) -> tuple[Gateway, Database, dict[str, str]]:
    """Real accounts, and tokens of three users."""
    path, tokens = _template()
    shutil.copy(path, folder / "service.db")
    database = Database.open(folder / "service.db")
    audit = Audit(database, folder)
    rows = AgentRows(database, audit=audit)
    accounts = Accounts(database, audit=audit, quotas=settings.quotas())
    gateway = Gateway(settings, accounts, rows, pool, FakeCatalogue(), audit, Idempotency(database), **more)
    return gateway, database, tokens


@dataclasses.dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        assert self.headers["content-type"] == "application/problem+json"
        assert self.json["request_id"] == self.headers["x-request-id"]
        assert self.json["status"] == self.status
        return str(self.json["code"])


class Service:
    """A gateway with fakes behind it, and its users' tokens."""

    def __init__(self, sets: Mapping[str, str] | None = None, **more: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="axonrl-gateway-", dir=IN_MEMORY)
        self.folder, settings = Path(self._folder.name), load(sets=sets)
        self.pool = FakePool()
        self.gateway, self._database, self.tokens = fake_gateway(self.folder, settings, self.pool, **more)
        self.app = Edge(self.gateway)
        self.loop = asyncio.new_event_loop()
        self.run(self.gateway.start)

    def run(self, function: Callable[[], Any]) -> Any:
        return self.loop.run_until_complete(function())

    def token(self, user: str, *scopes: str, agents: list[str] | None = None) -> str:
        text, _ = self.gateway.accounts.create_token(user, "test", scopes, agents)
        self.run(self.gateway.tokens.refresh)
        return text

    def __call__(self, method: str, path: str, body: Any = None, *, user: str | None = "alice", **more: Any) -> Reply:
        """A request. ``user`` is a name or a token; a body is bytes, or a ``receive``, or sent as JSON."""
        return self.run(lambda: self.request(method, path, body, user=user, **more))  # type: ignore[no-any-return]

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        user: str | None = "alice",
        headers: Any = (),
        peer: str = "1.2.3.4",
        taken: asyncio.Event | None = None,
    ) -> Reply:
        given = [(name.lower().encode(), value.encode("latin-1")) for name, value in dict(headers).items()]
        if user is not None:
            given.append((b"authorization", f"Bearer {self.tokens.get(user, user)}".encode()))
        receive = body
        if not callable(body):
            content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
            given.append((b"content-length", str(len(content)).encode()))
            receive = parts(content)
        target, _, query = path.partition("?")
        scope = {
            "type": "http", "method": method, "path": target, "raw_path": target.encode(), "state": {},
            "query_string": query.encode(), "headers": given, "scheme": "http", "client": (peer, 1),
            "http_version": "1.1", "root_path": "",
        }  # fmt: skip
        return await _called(self.app, scope, receive, taken)

    def holds_nothing(self) -> bool:
        """Is nothing of a body counted any more?"""
        return not self.gateway.bodies and not self.gateway.files

    def close(self) -> None:
        self.run(_settled)
        self.run(self.loop.shutdown_default_executor)
        self.gateway.threads.close()
        self.loop.close()
        self._database.close()
        self._folder.cleanup()


def gateway(sets: Mapping[str, str] | None = None, **more: Any) -> contextlib.closing[Service]:
    return contextlib.closing(Service(sets, **more))


@contextlib.contextmanager
def with_cart(settings: Mapping[str, str]) -> Iterator[Service]:
    """A service in which alice has an agent ``cart``."""
    with gateway(settings) as service:
        assert create(service).status == 201
        yield service


async def _settled() -> None:
    """What is written after answers is written."""
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))


def parts(*contents: bytes, more: bool = False) -> Receive:
    """A body in parts, of which nobody says how long it is; ``more``: the client goes away before its end."""
    pending = [{"type": "http.request", "body": one, "more_body": True} for one in contents]
    pending[-1]["more_body"] = more

    async def receive() -> Message:
        return pending.pop(0) if pending else {"type": "http.disconnect"}

    return receive


async def _called(app: Any, scope: dict[str, Any], receive: Receive, taken: asyncio.Event | None) -> Reply:
    """Call as uvicorn does, which waits with the next message until the client has ``taken`` the one before."""
    start: dict[str, Any] = {}
    pieces: list[bytes] = []

    async def send(message: Message) -> None:
        if pieces and taken is not None:
            await taken.wait()
        if message["type"] == "http.response.start":
            start.update(message)
        else:
            pieces.append(message.get("body", b""))

    await app(scope, receive, send)
    if not start:  # nobody is there
        return Reply(499, {}, b"")
    headers = {name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]}
    assert len(headers) == len(start["headers"]), "a header is there twice"
    return Reply(start["status"], headers, b"".join(pieces))


def create(service: Service, name: str = "cart", user: str = "alice", **more: Any) -> Reply:
    return service("POST", AGENTS, {"name": name, "model": "DQN", "config": CARTPOLE, **more}, user=user)
