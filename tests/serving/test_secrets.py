"""Passwords and tokens that were used, looked for wherever a service writes something."""

import base64
import contextlib
import json
import signal
import urllib.parse
from pathlib import Path
from typing import Any

import pytest

from axonrl.serving.accounts import Accounts, open_service

from .for_accounts import PASSWORD
from .hosted import DQN, Built
from .live import Server, agent, prepared, running
from .service import SMALL

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("quick_hashes")]

NEW, BOBS, WRONG, SHORT = "a new and longer secret", "his very own secret", "guessed-secret-17", "Zq7short"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
TOKEN_OF_NOBODY = "axp_" + "Q7" * 23


class Client:
    """Sends requests, and remembers what was answered to those that were refused."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.refusals: dict[str, bytes] = {}

    def ask(self, method: str, path: str, body: Any = None, token: str | None = None, **head: str) -> Any:
        status, headers, found = self._server.ask(method, path, body, token=token, **head)
        self.cookie = headers.get("set-cookie", "").partition(";")[0]
        if status >= 400:
            self.refusals[f"{len(self.refusals)} {method} {path}"] = json.dumps([found, headers]).encode()
        return found

    def log_in(self, user: str, password: str, path: str = "/api/v1/login/access-token") -> Any:
        form = urllib.parse.urlencode({"username": user, "password": password}).encode()
        return self.ask("POST", path, form, **FORM)


def used(client: Client, token: str, administrator: str) -> set[str]:
    """Log in, change passwords and make tokens, well and badly; the secrets that nobody may find anywhere."""
    ask, login = client.ask, client.log_in("alice", PASSWORD)["access_token"]
    made = ask("POST", "/api/v1/tokens", {"name": "game", "scopes": ["act"], "agents": ["a"]}, login)["token"]
    client.log_in("alice", PASSWORD, "/login")
    cookie = client.cookie.partition("=")[2]
    assert ask("GET", "/api/v1/users/me", Cookie=client.cookie)["name"] == "alice"
    ask("POST", "/api/v1/users", {"name": "bob", "password": BOBS}, administrator)
    secrets = {PASSWORD, NEW, BOBS, WRONG, SHORT, TOKEN_OF_NOBODY, token, administrator, login, made, cookie}
    assert all(len(secret) >= len(SHORT) for secret in secrets)
    assert client.refusals == {}
    client.log_in("alice", WRONG)
    client.log_in("alice", WRONG, "/login")
    client.log_in(WRONG, WRONG)
    query = urllib.parse.urlencode({"username": "alice", "password": PASSWORD, "access_token": token})
    ask("POST", f"/api/v1/login/access-token?{query}", b"", **FORM)
    ask("POST", "/api/v1/login/access-token", {"username": "alice", "password": PASSWORD})
    ask("GET", f"/api/v1/agents?{query}")
    ask("GET", f"/api/v1/agents?token={token}", token=token)
    basic = base64.b64encode(f"alice:{PASSWORD}".encode()).decode()
    ask("GET", "/api/v1/agents", Authorization=f"Basic {basic}")
    for one in (TOKEN_OF_NOBODY, f"{token}x", token[:-1]):
        ask("GET", "/api/v1/agents", token=one)
        ask("GET", f"/api/v1/agents/{one}", token=token)
        ask("POST", f"/api/v1/agents/{one}/act", [0.0] * 4, token)
        ask("GET", f"/{one}", token=token)
    for body in (
        {"name": "carol", "password": SHORT},
        {"name": "carol", "password": [WRONG]},
        {"name": "carol", "password": {WRONG: WRONG}},
        {"name": "carol", "nosuch": WRONG, "password": BOBS},
        {"name": "carol", "role": WRONG, "password": BOBS},
        {"name": "no name", "password": BOBS},
        json.dumps({"name": "carol", "password": BOBS}).encode()[:-1],
        WRONG.encode(),
    ):
        ask("POST", "/api/v1/users", body, administrator)
    for current, new in ((WRONG, NEW), (PASSWORD, SHORT), (PASSWORD, [WRONG])):
        ask("POST", "/api/v1/users/me/password", {"current": current, "new": new}, login)
    ask("PATCH", "/api/v1/users/bob", {"password": SHORT}, administrator)
    ask("POST", "/api/v1/tokens", {"name": "n", "scopes": [WRONG]}, login)
    assert len(client.refusals) > 25
    assert ask("POST", "/api/v1/users/me/password", {"current": PASSWORD, "new": NEW}, login) == b""
    return secrets | {basic}


def test_no_password_and_no_token_is_written_anywhere(built: Built, programs: Path, tmp_path: Path) -> None:
    token = prepared(tmp_path / "data", programs, built("dqn", DQN))
    with contextlib.closing(open_service(tmp_path / "data", None)) as database:
        accounts = Accounts(database)
        accounts.add_user("root", BOBS + BOBS, admin=True)
        administrator, _ = accounts.create_token("root", "tests", ["read", "manage", "admin", "metrics"])
    with running(Server(tmp_path / "data", "--set", "log.level=debug")) as server:
        client = Client(server)
        secrets = used(client, token, administrator)
        with agent(server, token, **SMALL) as cart:
            cart.create_agent(4, 2, "dqn")
            cart.act([0.0] * 4)
        metrics = client.ask("GET", "/metrics", token=administrator)
        assert b"axonrl_requests_total" in metrics
        audit = json.dumps(client.ask("GET", "/api/v1/audit", token=administrator)).encode()
        assert b"invalid_credentials" in audit
        places = {**client.refusals, "/metrics": metrics, "/audit": audit}
        for pid in (server.pid, *server.children()):
            places[f"arguments of {pid}"] = Path(f"/proc/{pid}/cmdline").read_bytes()
            assert b"axonrl" in places[f"arguments of {pid}"]
        process = server.process
        assert process is not None
        assert process.stdout is not None
        process.send_signal(signal.SIGTERM)
        places["standard output"] = process.stdout.read().encode()
        assert server.stop() == 143
    places["standard error"] = server.log.read_bytes()
    assert places["standard error"].count(b"\n") > 3
    assert b"Traceback" not in places["standard error"]
    places |= {str(path): path.read_bytes() for path in server.data.rglob("*") if path.is_file()}
    assert str(server.data / "audit.jsonl") in places
    found = [(place, secret) for place, content in places.items() for secret in secrets if secret.encode() in content]
    assert found == []
