"""``Idempotency-Key`` for an account: the first answer again, and nothing secret that is kept for it."""

import asyncio
import hashlib
import json
import sqlite3

import pytest

from axonrl.serving.gateway import replays

from .gateway_fakes import AGENTS, CARTPOLE, PASSWORD, Reply, Service
from .test_gateway_accounts import API, NEW, login


def test_a_creation_with_a_key_is_answered_again(service: Service) -> None:
    body = {"name": "cart", "model": "dqn", "config": CARTPOLE}
    first = service("POST", AGENTS, body, headers={"Idempotency-Key": "k"})
    again = service("POST", AGENTS, body, headers={"Idempotency-Key": "k"})
    assert (again.status, again.json) == (201, first.json)
    assert (again.headers["idempotent-replayed"], service.pool.done()) == ("true", ["open"])
    other = service("POST", AGENTS, {**body, "name": "b"}, headers={"Idempotency-Key": "k"})
    assert (other.status, other.code) == (422, "idempotency_key_reused")
    assert service("POST", AGENTS, body, headers={"Idempotency-Key": "\x80"}).code == "invalid_value"
    assert service("POST", AGENTS, body, user="bob", headers={"Idempotency-Key": "k"}).status == 201


def test_a_refused_request_s_key_may_be_used_again(service: Service) -> None:
    wrong = {"name": "cart", "model": "dqn", "config": {**CARTPOLE, "lr": 0}}
    for _ in range(2):
        refused = service("POST", AGENTS, wrong, headers={"Idempotency-Key": "k"})
        assert (refused.status, refused.json["errors"][0]["where"]) == (422, "config.lr")


def test_the_same_creation_twice_at_once_is_carried_out_once(service: Service) -> None:
    body = {"name": "cart", "model": "dqn", "config": CARTPOLE}

    async def both() -> tuple[Reply, Reply]:
        service.pool.held = asyncio.Event()
        first = asyncio.ensure_future(service.request("POST", AGENTS, body, headers={"Idempotency-Key": "k"}))
        while not service.pool.asked:
            await asyncio.sleep(0.001)
        second = await service.request("POST", AGENTS, body, headers={"Idempotency-Key": "k"})
        service.pool.held.set()
        return await first, second

    first, second = service.run(both)
    assert (first.status, second.code, second.headers["retry-after"]) == (201, "unavailable", "1")
    assert service.pool.done() == ["open"]


def test_another_password_is_another_request(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    body, key = {"name": "eve", "password": PASSWORD}, {"Idempotency-Key": "k"}
    first = service("POST", f"{API}/users", body, user="root", headers=key)
    again = service("POST", f"{API}/users", body, user="root", headers=key)
    assert (again.status, again.json, again.headers["idempotent-replayed"]) == (201, first.json, "true")
    other = service("POST", f"{API}/users", {**body, "password": NEW}, user="root", headers=key)
    assert (other.status, other.code) == (422, "idempotency_key_reused")
    assert login(service, "eve").status == 200
    token = login(service).json["access_token"]
    change = {"current": PASSWORD, "new": NEW}
    for wanted in (None, "true"):
        changed = service("POST", f"{API}/users/me/password", change, user=token, headers=key)
        assert (changed.status, changed.headers.get("idempotent-replayed")) == (204, wanted)
    for differs in ({"current": NEW}, {"new": PASSWORD}):
        other = service("POST", f"{API}/users/me/password", {**change, **differs}, user=token, headers=key)
        assert other.code == "idempotency_key_reused"
    monkeypatch.setattr(replays, "_PROCESS", "00000000")  # it was started again, and has another key
    monkeypatch.setattr(replays, "_KEY", b"another")
    again = service("POST", f"{API}/users", body, user="root", headers=key)
    assert (again.status, again.headers["idempotent-replayed"]) == (201, "true")
    other = service("POST", f"{API}/users", {**body, "name": "eva"}, user="root", headers=key)
    assert other.code == "idempotency_key_reused"


def test_what_is_remembered_has_no_secret(service: Service) -> None:
    key = {"Idempotency-Key": "k"}
    login_token = login(service).json["access_token"]
    made = service("POST", f"{API}/tokens", {"name": "t", "scopes": ["act"]}, headers=key).json["token"]
    user = {"name": "eve", "password": "a long one of hers"}
    assert service("POST", f"{API}/users", user, user="root", headers=key).status == 201
    change = {"current": PASSWORD, "new": NEW}
    more = {"Idempotency-Key": "another"}
    assert service("POST", f"{API}/users/me/password", change, headers=more).status == 204
    raw = sqlite3.connect(service.folder / "service.db")
    rows = raw.execute("SELECT digest, body FROM idempotency").fetchall()
    hashes = {one for (one,) in raw.execute("SELECT sha256 FROM tokens")}
    passwords = {one for (one,) in raw.execute("SELECT password_hash FROM users")}
    raw.close()
    assert len(rows) == 3
    assert {hashlib.sha256(one.encode()).hexdigest() for one in (login_token, made)} <= hashes
    assert {one[:10] for one in passwords} == {"$argon2id$"}
    secrets = [PASSWORD, NEW, user["password"], login_token, made]
    for secret in secrets:
        hashed = hashlib.sha256(secret.encode()).hexdigest()
        assert not any(secret in text or hashed in text for row in rows for text in (row[0], row[1].decode()))
    bodies = [json.dumps(one).encode() for one in (user, change)]
    plain = [hashlib.sha256(b"POST " + path + b"?\0" + one).hexdigest() for one, path in zip(
        bodies, (b"/api/v1/users", b"/api/v1/users/me/password"), strict=True)]  # fmt: skip
    assert not any(one in row[0] for row in rows for one in plain)
    files = b"".join(path.read_bytes() for path in service.folder.rglob("*") if path.is_file())
    assert [secret for secret in secrets if secret.encode() in files] == []
