"""Logins, passwords, tokens, users and the audit log over HTTP."""

import urllib.parse
from typing import Any

import pytest

from axonrl.serving.gateway.app import application
from axonrl.serving.gateway.page import Page

from .gateway_fakes import CARTPOLE, PASSWORD, Reply, Service, create

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
    recorded = [entry for entry in service.rooms.audit.entries(3) if entry.what != "request"]
    what = [(entry.what, entry.who, entry.address) for entry in recorded[:2]]
    assert what == [("token.revoke", "alice", "1.2.3.4"), ("login", "alice", "1.2.3.4")]


def test_refused_logins_are_all_the_same(service: Service) -> None:
    service.rooms.accounts.disable_user("bob")
    refused = [
        login(service, "alice", "wrong"),
        login(service, "nosuch"),
        login(service, "bob"),
        login(service, "' OR 1"),
    ]
    assert [(one.status, one.code) for one in refused] == [(400, "invalid_credentials")] * 4
    bodies = [{name: value for name, value in one.json.items() if name != "request_id"} for one in refused]
    assert bodies == [bodies[0]] * 4
    assert set(bodies[0]) == {"type", "title", "status", "code", "detail"}
    assert (bodies[0]["type"], bodies[0]["title"]) == ("about:blank", "Bad Request")
    headers = [{**one.headers, "x-request-id": ""} for one in refused]
    assert headers == [headers[0]] * 4


@pytest.mark.parametrize(
    ("form", "headers", "code"),
    [
        (b"username=alice&password=a&password=b", FORM, "invalid_value"),
        (b"{}", {"Content-Type": "application/json"}, "unsupported_media_type"),
        (b"username=" + b"a" * 17_000, FORM, "body_too_large"),
    ],
)
def test_forms_that_are_none(service: Service, form: bytes, headers: Any, code: str) -> None:
    assert service("POST", f"{API}/login/access-token", form, user=None, headers=headers).code == code


def test_the_longest_password_fits_a_form(service: Service) -> None:
    longest = "\U0001f600" * 1024
    assert service("PATCH", f"{API}/users/bob", {"password": longest}, user="root").status == 200
    assert login(service, "bob", urllib.parse.quote(longest)).status == 200


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


def test_one_s_own_account(service: Service) -> None:
    service.rooms.accounts.set_quota("alice", {"agents": 3})
    create(service)
    service.run(service.gateway.tokens.refresh)
    me = service("GET", f"{API}/users/me").json
    assert (me["role"], me["quotas"]["agents"], me["quotas"]["steps_per_second"]) == ("user", 3, 1000)
    assert me["usage"]["agents"] == 1
    assert service("GET", f"{API}/service").json["limits"]["agents"] == 3


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


def test_an_administrator_adds_changes_and_removes_users(service: Service) -> None:
    added = service("POST", f"{API}/users", {"name": "eve", "password": PASSWORD}, user="root")
    assert (added.status, added.json["role"], added.json["disabled"]) == (201, "user", False)
    assert PASSWORD not in added.body.decode()
    assert service("POST", f"{API}/users", {"name": "eve", "password": PASSWORD}, user="root").code == "name_taken"
    bad = service("POST", f"{API}/users", {"name": "a/b", "password": PASSWORD}, user="root")
    assert (bad.code, bad.json["errors"][0]["where"]) == ("invalid_value", "name")
    token = login(service, "eve").json["access_token"]
    changed = service("PATCH", f"{API}/users/eve", {"quotas": {"agents": 1}, "disabled": True}, user="root")
    assert (changed.json["quotas"], changed.json["disabled"]) == ({"agents": 1}, True)
    assert service("GET", f"{API}/users/me", user=token).code == "invalid_token"
    unknown = service("PATCH", f"{API}/users/eve", {"quotas": {"nosuch": 1}}, user="root")
    assert unknown.code == "invalid_value"
    assert service("PATCH", f"{API}/users/nosuch", {}, user="root").code == "not_found"
    assert service("PATCH", f"{API}/users/root", {"disabled": True}, user="root").code == "invalid_value"


def test_a_user_who_is_disabled_can_do_nothing_at_once(service: Service) -> None:
    service.app = application(service.gateway, Page())
    headers = {**FORM, "Host": "service.example"}
    page = service(
        "POST", "/login", f"username=alice&password={PASSWORD.replace(' ', '+')}".encode(), user=None, headers=headers
    )
    cookie = {"Cookie": page.headers["set-cookie"].partition(";")[0]}
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


def test_the_audit_log(service: Service) -> None:
    service("POST", f"{API}/agents", {"name": "cart", "model": "dqn", "config": CARTPOLE}, peer="9.8.7.6")
    newest = service("GET", f"{API}/audit?limit=1", user="root").json
    assert [(one["what"], one["who"], one["address"], one["outcome"]) for one in newest] == [
        ("agent.create", "alice", "9.8.7.6", "ok")
    ]
    older = service("GET", f"{API}/audit?limit=1&before={newest[0]['id']}", user="root").json
    assert older[0]["id"] < newest[0]["id"]


def test_what_administrators_do_and_read_is_recorded(service: Service) -> None:
    first, second = (create(service, name).json["id"] for name in "ab")
    alice = service.rooms.accounts.user("alice").id
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
        found = service.rooms.audit.entries(len(recorded))
        assert [(one.what, one.target, one.detail) for one in found] == recorded
        assert {(one.who, one.address, one.outcome) for one in found} == {("root", "9.8.7.6", "ok")}
        assert {one.request_id for one in found} == {done.headers["x-request-id"]}


def test_what_the_command_line_marked_is_removed_while_the_server_runs(service: Service) -> None:
    id = create(service).json["id"]
    service("POST", f"{API}/agents/cart/act", [0])
    service.rooms.rows.mark_removed(id)
    service.run(service.gateway.finish_removals)
    assert service.pool.steps == {}
    assert service("POST", f"{API}/agents/cart/act", [0]).code == "not_found"


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
