"""What is somebody else's: agents of others, owners and roles that nobody may set, names that are none."""

import urllib.parse
from typing import Any

import pytest

from .gateway_fakes import AGENTS, CARTPOLE, PASSWORD, STEP, Service, create

HOSTILE = (*("' OR 1=1 --\0", "../../etc/passwd", "x" * 10_000, "😀"),)
"""Names that are none, as they come out of a path whose %-sequences are decoded."""


def test_another_user_s_agent_is_as_if_it_were_not_there(service: Service) -> None:
    id = create(service).json["id"]
    create(service, "pole")
    create(service, "bobs", user="bob")
    service.pool.asked.clear()
    for name in ("cart", id, "absent"):
        answers = [service(method, path.format(name), body, user="bob") for method, path, body in EVERY_ROUTE]
        assert {(one.status, one.json["detail"]) for one in answers} == {(404, "the agent does not exist")}
    assert service.pool.asked == []
    for path in ("/users/alice/agents", "/users/alice/agents/cart", "/users/bob/agents"):
        refused = service("GET", f"/api/v1{path}", user="bob")
        assert (refused.status, refused.code) == (403, "forbidden_scope")
    assert [one["name"] for one in service("GET", AGENTS, user="bob").json] == ["bobs"]
    assert [one["name"] for one in service("GET", f"{AGENTS}?after=bobs", user="bob").json] == []
    assert [one["name"] for one in service("GET", AGENTS).json] == ["cart", "pole"]
    assert service("GET", f"{AGENTS}/cart").status == 200


def test_every_route_of_an_agent_is_asked_for_another_s(service: Service) -> None:
    paths = service("GET", "/api/v1/openapi.json", user=None).json["paths"]
    described = [(method.upper(), path) for path, calls in paths.items() for method in calls]
    own = [
        (method, path) for method, path in described if path.endswith(("/{name}", "/{name}/state")) or "{name}/" in path
    ]
    own = [(method, path) for method, path in own if "/users/" not in path]
    assert sorted(own) == sorted((method, path.replace("{}", "{name}")) for method, path, _ in EVERY_ROUTE)


EVERY_ROUTE: list[tuple[str, str, Any]] = [
    ("GET", f"{AGENTS}/{{}}", None),
    ("PATCH", f"{AGENTS}/{{}}", {"is_active": False}),
    ("DELETE", f"{AGENTS}/{{}}", None),
    ("GET", f"{AGENTS}/{{}}/loss", None),
    ("GET", f"{AGENTS}/{{}}/episodes", None),
    ("GET", f"{AGENTS}/{{}}/state", None),
    ("PUT", f"{AGENTS}/{{}}/state", None),
    ("GET", "/api/v1/snapshots/{}", None),
    ("POST", "/api/v1/snapshots/{}", {}),
    ("POST", f"{AGENTS}/{{}}/act", [0, 0, 0, 0]),
    ("POST", f"{AGENTS}/{{}}/step", STEP),
    ("POST", f"{AGENTS}/{{}}/steps", {"steps": []}),
    ("POST", f"{AGENTS}/{{}}/end_episode", {}),
]


def test_nobody_gives_an_agent_another_owner_or_takes_a_role(service: Service) -> None:
    before = create(service).json
    eve = {"name": "eve", "password": "a long one of hers"}
    token = {"name": "t", "scopes": ["act"]}
    calls: list[tuple[str, str, dict[str, Any], str]] = [
        ("PATCH", f"{AGENTS}/cart", {"description": "d"}, "alice"),
        ("POST", AGENTS, {"name": "b", "model": "dqn", "config": CARTPOLE}, "alice"),
        ("POST", "/api/v1/tokens", token, "alice"),
        ("POST", "/api/v1/users/me/password", {"current": PASSWORD, "new": "a long one of hers"}, "alice"),
        ("PATCH", "/api/v1/users/alice", {"quotas": {"agents": 1}}, "root"),
        ("POST", "/api/v1/users", eve, "root"),
    ]
    tokens = len(service.rooms.accounts.tokens())
    for method, path, body, user in calls:
        for field in ("owner", "role", "user_id"):
            if (method, path, field) == ("POST", "/api/v1/users", "role"):
                continue  # the one place where an administrator gives it
            refused = service(method, path, {**body, field: "root"}, user=user)
            assert (refused.status, refused.code) == (422, "invalid_value"), (path, field)
            assert refused.json["errors"] == [{"where": field, "what": "unknown field"}]
    refused = service("POST", "/api/v1/users", {**eve, "role": "owner"}, user="root")
    assert (refused.status, refused.json["errors"][0]["where"]) == (422, "role")
    assert service("GET", AGENTS).json == [before]
    assert service("GET", AGENTS, user="root").json == []
    found = [(user.name, user.role, user.quotas) for user in service.rooms.accounts.users()]
    assert found == [("alice", "user", {}), ("bob", "user", {}), ("root", "admin", {})]
    assert len(service.rooms.accounts.tokens()) == tokens
    assert service.rooms.accounts.login("alice", PASSWORD, "")


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_a_name_that_is_none_is_refused_everywhere(service: Service, name: str) -> None:
    create(service)
    before, files = service.rooms.rows.count(service.rooms.accounts.user("alice").id), set(service.folder.iterdir())
    service.pool.asked.clear()
    paths = service("GET", "/api/v1/openapi.json", user=None).json["paths"]
    calls = [(method.upper(), path) for path, methods in paths.items() for method in methods if "{" in path]
    assert len(calls) == 20
    for method, path in calls:
        for parameter in ("{name}", "{agent}", "{token_id}"):
            target = path.replace(parameter, name)
            if target != path:
                target = target.replace("{name}", "alice").replace("{agent}", "cart")
                body = None if method in ("GET", "DELETE") else STEP if path.endswith("step") else {}
                answer = service(
                    method, target.replace("?", "%3f"), body, user="root" if "/users/" in path else "alice"
                )
                assert answer.status in (404, 405, 415, 422), (method, path)
                assert answer.json["code"] != "internal"
    quoted = urllib.parse.quote(name, safe="")
    for path, user in (
        (AGENTS, "alice"),
        ("/api/v1/users/alice/agents", "root"),
        ("/api/v1/users/nosuch/agents", "root"),
    ):
        refused = service("GET", f"{path}?after={quoted}", user=user)
        assert refused.status == (404 if "nosuch" in path and len(quoted) < 4096 else 422), path
    for path in ("/api/v1/audit?before=", f"{AGENTS}/cart/episodes?after=", f"{AGENTS}?limit="):
        assert service("GET", path + quoted, user="root" if "audit" in path else "alice").code == "invalid_value"
    made: list[tuple[str, dict[str, Any], str]] = [
        (AGENTS, {"name": name, "model": "dqn", "config": CARTPOLE}, "name"),
        (AGENTS, {"name": "b", "model": name, "config": CARTPOLE}, "model"),
        ("/api/v1/users", {"name": name, "password": "a long one of theirs"}, "name"),
        ("/api/v1/tokens", {"name": "t", "scopes": ["act"], "agents": [name]}, "agents"),
    ]
    for path, body, where in made:
        refused = service("POST", path, body, user="root" if "users" in path else "alice")
        assert (refused.status, refused.json["errors"][0]["where"]) == (422, where), path
    form = urllib.parse.urlencode({"username": name[:2000], "password": name[:2000]}).encode()
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    refused = service("POST", "/api/v1/login/access-token", form, user=None, headers=kind)
    assert (refused.status, refused.code) == (400, "invalid_credentials")
    assert service.pool.asked == []
    assert service.rooms.rows.count(service.rooms.accounts.user("alice").id) == before
    assert [user.name for user in service.rooms.accounts.users()] == ["alice", "bob", "root"]
    assert set(service.folder.iterdir()) == files
    assert service("POST", f"{AGENTS}/cart/act", [0]).status == 200
