"""Logins, passwords, tokens, users, the audit log and ``Idempotency-Key`` over HTTP."""

import asyncio
import hashlib
import json
import sqlite3
import threading
import urllib.parse
from typing import Any

import pytest

from axonrl.serving.accounts import idempotency
from axonrl.serving.refusals import RefusedError
from axonrl.tests.raising import raised

from . import test_page_logins as page_logins
from .gateway_fakes import AGENTS, CARTPOLE, PASSWORD, Reply, Service, create, failure

API = "/api/v1"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
NEW = "another long password"


def login(service: Service, name: str = "alice", password: str = PASSWORD, peer: str = "1.2.3.4") -> Reply:
    form = f"username={name}&password={password}".replace(" ", "+").encode()
    return service("POST", f"{API}/login/access-token", form, user=None, headers=FORM, peer=peer)


def test_a_login_s_token_works_at_once_until_its_logout(service: Service) -> None:
    answer = login(service)
    assert answer.status == 200
    token = answer.json["access_token"]
    assert (answer.json["token_type"], answer.json["expires_in"]) == ("bearer", 30 * 86400)
    assert service("GET", f"{API}/users/me", user=token).json["name"] == "alice"
    assert service("POST", f"{API}/logout", user=token).status == 204
    assert service("GET", f"{API}/users/me", user=token).code == "invalid_token"
    recorded = [entry for entry in service.gateway.audit.entries(3) if entry.what != "request"]
    what = [(entry.what, entry.who, entry.address) for entry in recorded[:2]]
    assert what == [("token.revoke", "alice", "1.2.3.4"), ("login", "alice", "1.2.3.4")]


def test_refused_logins_are_all_the_same(service: Service) -> None:
    service.gateway.accounts.disable_user("bob")
    refused = [
        login(service, "alice", "wrong"),
        login(service, "nosuch"),
        login(service, "bob"),
        *(login(service, name) for name in ("' OR 1", "a%00")),
        login(service, "alice", "x" * 2000),
    ]
    assert [(one.status, one.code) for one in refused] == [(400, "invalid_credentials")] * 6
    bodies = [{name: value for name, value in one.json.items() if name != "request_id"} for one in refused]
    assert bodies == [bodies[0]] * 6
    assert set(bodies[0]) == {"type", "title", "status", "code", "detail"}
    assert (bodies[0]["type"], bodies[0]["title"]) == ("about:blank", "Bad Request")
    headers = [{**one.headers, "x-request-id": ""} for one in refused]
    assert headers == [headers[0]] * 6


def test_too_many_logins_at_once_are_no_fault_of_the_database(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashing, threads = threading.Event(), service.gateway.threads
    monkeypatch.setattr("axonrl.serving.gateway.threads._GIVE_UP", 0.2)
    busy = [threads._logins.submit(hashing.wait) for _ in range(2)]
    refused = login(service)
    hashing.set()
    assert [one.result() for one in busy] == [True, True]
    assert (refused.status, refused.code, refused.headers["retry-after"]) == (503, "unavailable", "1")
    assert refused.json["detail"] == "Too many logins at the same time"
    assert "axonrl_database_errors_total 0.0" in service.gateway.meters.text().decode()


def test_the_longest_password_fits_a_form(service: Service) -> None:
    longest = "\U0001f600" * 1024
    assert service("PATCH", f"{API}/users/bob", {"password": longest}, user="root").status == 200
    assert login(service, "bob", urllib.parse.quote(longest)).status == 200
    assert login(service, "bob", "a&password=b").code == "invalid_value"


def test_another_password_ends_the_other_logins(service: Service) -> None:
    here, there = (login(service).json["access_token"] for _ in range(2))
    wrong = service("POST", f"{API}/users/me/password", {"current": "wrong", "new": NEW}, user=here)
    assert wrong.code == "invalid_credentials"
    short = service("POST", f"{API}/users/me/password", {"current": PASSWORD, "new": "short"}, user=here)
    assert (short.code, "short" in short.body.decode()) == ("invalid_value", False)
    change = {"current": PASSWORD, "new": NEW}
    assert service("POST", f"{API}/users/me/password", change, user=here).status == 204
    assert service("GET", f"{API}/users/me", user=here).status == 200
    assert service("GET", f"{API}/users/me", user=there).code == "invalid_token"
    assert login(service, password=NEW).status == 200


def test_a_token_is_shown_once_and_may_no_more_than_the_one_that_made_it(service: Service) -> None:
    body = {"name": "game", "scopes": ["act"], "agents": ["cart"], "expires_in": 3600}
    made = service("POST", f"{API}/tokens", body, headers={"Idempotency-Key": "k"})
    assert made.status == 201
    text, shown = made.json["token"], {**made.json}
    del shown["token"]
    assert (shown["scopes"], shown["agents"], shown["last_four"]) == (["act"], ["cart"], text[-4:])
    again = service("POST", f"{API}/tokens", body, headers={"Idempotency-Key": "k"})
    assert (again.json, again.headers["idempotent-replayed"]) == (shown, "true")
    listed = service("GET", f"{API}/tokens")
    assert shown["id"] in [one["id"] for one in listed.json]
    assert text not in listed.body.decode()
    assert service("POST", f"{API}/tokens", {**body, "scopes": ["admin"]}).code == "forbidden_scope"
    weak = service.token("alice", "manage")
    assert service("POST", f"{API}/tokens", body, user=weak).code == "forbidden_scope"
    assert service("POST", f"{API}/tokens", {**body, "scopes": []}).code == "invalid_value"
    assert service("POST", f"{API}/tokens", {**body, "scopes": ["fly"]}).json["errors"][0]["where"] == "scopes[0]"
    assert service("POST", f"{API}/tokens", {**body, "expires_in": 366 * 86400}).code == "invalid_value"


def test_a_revoked_token_ends_at_once(service: Service) -> None:
    made = service("POST", f"{API}/tokens", {"name": "t", "scopes": ["read"]}).json
    assert service("GET", f"{API}/agents", user=made["token"]).status == 200
    assert service("DELETE", f"{API}/tokens/{made['id']}", user="bob").code == "not_found"
    assert service("DELETE", f"{API}/tokens/{made['id']}").status == 204
    assert service("GET", f"{API}/agents", user=made["token"]).code == "invalid_token"
    assert service("DELETE", f"{API}/tokens/nosuch").code == "not_found"


def test_a_user_who_is_disabled_can_do_nothing_at_once(service: Service) -> None:
    cookie = {"Cookie": page_logins.cookie(page_logins.log_in(service))}
    made = service("POST", f"{API}/tokens", {"name": "game", "scopes": ["act", "read"]}).json["token"]
    tokens = [login(service).json["access_token"], made, service.tokens["alice"]]

    def statuses() -> list[int]:
        found = [service("GET", f"{API}/agents", user=token).status for token in tokens]
        return [*found, service("GET", f"{API}/agents", user=None, headers=cookie).status]

    assert statuses() == [200] * 4
    changed = service("PATCH", f"{API}/users/alice", {"disabled": True}, user="root")
    assert (changed.status, changed.json["disabled"]) == (200, True)
    assert statuses() == [401] * 4
    assert service("POST", f"{API}/agents/cart/act", [0], user=made).code == "invalid_token"
    assert service("GET", "/session", user=None, headers=cookie).json == {"user": None}
    assert login(service).code == "invalid_credentials"
    assert service("PATCH", f"{API}/users/alice", {"disabled": False}, user="root").json["disabled"] is False
    assert statuses() == [401] * 4  # for good
    assert login(service).status == 200


def test_a_change_is_done_once_although_the_database_goes_away_after_it(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down() -> None:
        raise RefusedError("database_unavailable", "it is down")

    other = login(service).json["access_token"]
    made = service("POST", f"{API}/tokens", {"name": "game", "scopes": ["read"]}, user="bob").json["token"]
    assert service("GET", f"{API}/users", user="root").status == 200  # tokens that were used go on
    monkeypatch.setattr(service.gateway.accounts, "active_tokens", down)
    password, token = {"current": PASSWORD, "new": NEW}, {"name": "once", "scopes": ["act"]}
    for _ in range(2):  # the second is answered like the first, and not carried out
        key = {"Idempotency-Key": "password"}
        assert service("POST", f"{API}/users/me/password", password, headers=key).status == 204
        assert service("POST", f"{API}/tokens", token, headers={"Idempotency-Key": "token"}).status == 201
    assert [one["name"] for one in service("GET", f"{API}/tokens").json].count("once") == 1
    assert service("GET", f"{API}/agents", user=other).code == "database_unavailable"  # it may have ended
    assert login(service, password=NEW).status == 200
    assert service("PATCH", f"{API}/users/bob", {"disabled": True}, user="root").json["disabled"] is True
    assert service("GET", f"{API}/agents", user=made).code == "database_unavailable"
    assert service("DELETE", f"{API}/users/bob", user="root").status == 202
    monkeypatch.undo()
    service.run(service.gateway.tokens.refresh)
    assert {service("GET", f"{API}/agents", user=one).code for one in (other, made)} == {"invalid_token"}


def test_a_removed_user_s_agents_are_removed(service: Service) -> None:
    for name in ("a", "b"):
        create(service, name)
    assert [one["name"] for one in service("GET", f"{API}/users/alice/agents", user="root").json] == ["a", "b"]
    assert service("DELETE", f"{API}/users/alice/agents/a", user="root").json == {"removed": "a"}
    assert service("GET", f"{API}/users/alice/agents/a", user="root").code == "not_found"
    assert service("DELETE", f"{API}/users/alice", user="root").status == 202
    assert service.pool.steps == {}
    assert service("GET", f"{API}/users/me").code == "invalid_token"
    assert service("GET", f"{API}/users/alice", user="root").code == "not_found"


def test_what_administrators_do_and_read_is_recorded(service: Service) -> None:
    first, second = (create(service, name).json["id"] for name in "ab")
    alice = service.gateway.accounts.user("alice").id
    calls: list[tuple[str, str, Any, list[tuple[str, str, dict[str, Any]]]]] = [
        ("GET", "/users", None, [("user.list", "", {})]),
        ("GET", "/users/alice", None, [("user.read", "alice", {})]),
        ("GET", "/users/alice/agents", None, [("agent.list", "alice", {})]),
        ("GET", "/users/alice/agents/a", None, [("agent.read", "a", {"owner": alice})]),
        ("GET", "/audit", None, [("audit.read", "", {})]),
        ("DELETE", "/users/alice/agents/a", None, [("agent.remove", "a", {"id": first, "owner": alice})]),
        ("POST", "/users", {"name": "eve", "password": NEW}, [("user.add", "eve", {"role": "user"})]),
        (
            "PATCH",
            "/users/alice",
            {"quotas": {"agents": 3}, "password": NEW, "disabled": True},
            [
                ("user.disable", "alice", {}),
                ("user.set_password", "alice", {}),
                ("user.set_quota", "alice", {"quotas": {"agents": 3}}),
            ],
        ),
        ("PATCH", "/users/alice", {"disabled": False}, [("user.enable", "alice", {})]),
        ("DELETE", "/users/alice", None, [("user.remove", "alice", {"agents": [second]})]),
    ]
    for method, path, body, recorded in calls:
        done = service(method, API + path, body, user="root", peer="9.8.7.6")
        assert done.status in (200, 201, 202), path
        found = service.gateway.audit.entries(len(recorded))
        assert [(one.what, one.target, one.detail) for one in found] == recorded
        assert {(one.who, one.address, one.outcome) for one in found} == {("root", "9.8.7.6", "ok")}
        assert {one.request_id for one in found} == {done.headers["x-request-id"]}
    (newest,) = service("GET", f"{API}/audit?limit=1", user="root").json
    assert (newest["what"], newest["target"], newest["address"]) == ("user.remove", "alice", "9.8.7.6")
    (older,) = service("GET", f"{API}/audit?limit=1&before={newest['id']}", user="root").json
    assert (older["what"], older["id"] < newest["id"]) == ("user.enable", True)
    refused: list[tuple[str, str, Any, str]] = [
        ("POST", "/users", {"name": "eve", "password": PASSWORD}, "name_taken"),
        ("POST", "/users", {"name": "me", "password": PASSWORD}, "invalid_value"),  # whose path is the caller's
        ("PATCH", "/users/eve", {"quotas": {"nosuch": 1}}, "invalid_value"),
        ("PATCH", "/users/eve", {"quotas": {"bytes": 1}, "password": "short", "disabled": True}, "invalid_value"),
        ("PATCH", "/users/nosuch", {}, "not_found"),
        ("PATCH", "/users/root", {"disabled": True}, "invalid_value"),
    ]
    for method, path, body, code in refused:
        assert service(method, API + path, body, user="root").code == code
    eve = service("PATCH", f"{API}/users/eve", {"quotas": {"agents": 1}}, user="root").json
    assert (eve["role"], eve["disabled"], eve["quotas"]) == ("user", False, {"agents": 1})


def test_use_is_noted(service: Service) -> None:
    id = create(service).json["id"]
    assert service("GET", f"{API}/agents/cart").json["last_active"] is None
    service("POST", f"{API}/agents/cart/act", [0])
    service.run(service.gateway.note_used)
    assert service.pool.asked[-1] == (id, "info", b"", {"wake": False})
    assert service("GET", f"{API}/agents/cart").json["last_active"].endswith("Z")
    service.run(service.gateway.tokens.refresh)
    used = {one["last_used"] for one in service("GET", f"{API}/tokens").json}
    assert used != {None}


def test_use_that_could_not_be_noted_is_noted_later(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, id = service.gateway, create(service).json["id"]
    service("POST", f"{AGENTS}/cart/act", [0])
    service.pool.answers["info"] = failure(503, "unavailable")  # its worker is busy
    service.run(gateway.note_used)
    service.pool.answers = {}

    def unavailable(*_: Any) -> None:
        raise RefusedError("database_unavailable", "it is down")

    with monkeypatch.context() as patched:
        patched.setattr(gateway.rows, "note", unavailable)
        raised(RefusedError, lambda: service.run(gateway.note_used))
    gateway.rows.note({id: (None, 0)})
    service.run(gateway.note_used)
    row = gateway.rows.by_id(id)
    assert row is not None
    assert (row.last_active is None, row.bytes, gateway.used) == (False, 7, {})


def test_a_token_that_is_used_while_tokens_are_read_counts_as_used(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, token = service.gateway, service.tokens["alice"]
    read, noted = gateway.accounts.active_tokens, list[Any]()

    def meanwhile() -> Any:
        gateway.tokens.held(f"Bearer {token}".encode())
        return read()

    service.run(gateway.tokens.refresh)
    with monkeypatch.context() as patched:
        patched.setattr(gateway.accounts, "active_tokens", meanwhile)
        service.run(gateway.tokens.refresh)
    monkeypatch.setattr(gateway.accounts, "used", noted.extend)
    service.run(gateway.tokens.refresh)
    service.run(gateway.tokens.refresh)  # once
    assert noted == [hashlib.sha256(token.encode()).hexdigest()]


def test_a_creation_with_a_key_is_answered_again(service: Service) -> None:
    body = {"name": "cart", "model": "dqn", "config": CARTPOLE}
    first = service("POST", AGENTS, body, headers={"Idempotency-Key": "k"})
    again = service("POST", AGENTS, body, headers={"Idempotency-Key": "k"})
    assert (again.status, again.json) == (201, first.json)
    assert (again.headers["idempotent-replayed"], service.pool.done()) == ("true", ["open"])
    other = service("POST", AGENTS, {**body, "name": "b"}, headers={"Idempotency-Key": "k"})
    assert (other.status, other.code) == (422, "idempotency_key_reused")
    for key in ("\x80", "x" * 256, ""):
        assert service("POST", AGENTS, body, headers={"Idempotency-Key": key}).code == "invalid_value"
    assert service("POST", AGENTS, body, user="bob", headers={"Idempotency-Key": "k"}).status == 201


def test_the_same_creation_twice_at_once_is_carried_out_once(service: Service) -> None:
    body = {"name": "cart", "model": "dqn", "config": CARTPOLE}

    async def both() -> tuple[Reply, Reply]:
        service.pool.held = asyncio.Event()
        first = asyncio.ensure_future(service.request("POST", AGENTS, body, headers={"Idempotency-Key": "k"}))
        await service.pool.asking.wait()
        second = await service.request("POST", AGENTS, body, headers={"Idempotency-Key": "k"})
        service.pool.held.set()
        return await first, second

    first, second = service.run(both)
    assert (first.status, second.code, second.headers["retry-after"]) == (201, "unavailable", "1")
    assert service.pool.done() == ["open"]


def test_of_two_at_once_the_one_that_the_database_answers_first_is_not_carried_out_too(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, begun, answered = service.gateway.idempotency.begin, threading.Event(), threading.Event()

    def late(*arguments: str) -> Any:
        is_first = not begun.is_set()
        found = begin(*arguments)
        begun.set()
        if is_first:
            answered.wait(60)
        return found

    async def both() -> tuple[Reply, Reply]:
        body, key = {"name": "game", "scopes": ["act"]}, {"Idempotency-Key": "k"}
        first = asyncio.ensure_future(service.request("POST", f"{API}/tokens", body, headers=key))
        await asyncio.to_thread(begun.wait, 60)
        second = await service.request("POST", f"{API}/tokens", body, headers=key)
        answered.set()
        return await first, second

    monkeypatch.setattr(service.gateway.idempotency, "begin", late)
    first, second = service.run(both)
    assert (first.status, second.code) == (201, "unavailable")
    assert [one["name"] for one in service("GET", f"{API}/tokens").json].count("game") == 1


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
    monkeypatch.setattr(idempotency, "_PROCESS", "00000000")  # it was started again, and has another key
    monkeypatch.setattr(idempotency, "_KEY", b"another")
    again = service("POST", f"{API}/users", body, user="root", headers=key)
    assert (again.status, again.headers["idempotent-replayed"]) == (201, "true")
    other = service("POST", f"{API}/users", {**body, "name": "eva"}, user="root", headers=key)
    assert other.code == "idempotency_key_reused"


def test_what_is_remembered_has_no_secret(service: Service) -> None:
    key = {"Idempotency-Key": "k"}
    login_token, cookie = login(service).json["access_token"], service.gateway.accounts.web_login("alice", PASSWORD, "")
    assert login(service, "hunter2hunter2", "x").status == 400  # the password in the place of the name
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
    assert {hashlib.sha256(one.encode()).hexdigest() for one in (login_token, cookie, made)} <= hashes
    assert {one[:10] for one in passwords} == {"$argon2id$"}
    secrets = [PASSWORD, NEW, user["password"], login_token, cookie, made, "hunter2hunter2"]
    for secret in secrets:
        hashed = hashlib.sha256(secret.encode()).hexdigest()
        assert not any(secret in text or hashed in text for row in rows for text in (row[0], row[1].decode()))
    bodies = [json.dumps(one).encode() for one in (user, change)]
    plain = [hashlib.sha256(b"POST " + path + b"?\0" + one).hexdigest() for one, path in zip(
        bodies, (b"/api/v1/users", b"/api/v1/users/me/password"), strict=True)]  # fmt: skip
    assert not any(one in row[0] for row in rows for one in plain)
    files = b"".join(path.read_bytes() for path in service.folder.rglob("*") if path.is_file())
    assert [secret for secret in secrets if secret.encode() in files] == []
