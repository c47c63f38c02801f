"""Which token may ask which route, in one table written down here; and what is somebody else's or no name at all."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator
from typing import Any, Final

import pytest

from axonrl.serving.accounts.grants import ORDINARY, SCOPES
from axonrl.serving.gateway.routes import SERVICE

from .gateway_fakes import AGENTS, CARTPOLE, PASSWORD, STEP, Service, create, with_cart

API: Final = "/api/v1"
ALLOWED: Final = {
    "read": """
        GET /models, GET /service, GET /users/me, GET /agents, GET /agents/{name}, GET /agents/{name}/loss,
        GET /agents/{name}/episodes, GET /agents/{name}/state, GET /snapshots/{name}
    """,
    "act": "POST /agents/{name}/act",
    "learn": "POST /agents/{name}/step, POST /agents/{name}/steps, POST /agents/{name}/end_episode",
    "manage": """
        POST /logout, GET /tokens, POST /tokens, DELETE /tokens/{token_id}, POST /users/me/password, POST /agents,
        PATCH /agents/{name}, DELETE /agents/{name}, PUT /agents/{name}/state, POST /snapshots/{name}
    """,
    "metrics": "GET /metrics",
    "admin": """
        GET /users, POST /users, GET /users/{name}, PATCH /users/{name}, DELETE /users/{name}, GET /users/{name}/agents,
        GET /users/{name}/agents/{agent}, DELETE /users/{name}/agents/{agent}, GET /audit
    """,
}
"""All that a token with one scope may ask."""
OF_THE_ACCOUNT: Final = {
    ("POST", "/logout"), ("GET", "/tokens"), ("POST", "/tokens"), ("DELETE", "/tokens/{token_id}"),
    ("POST", "/users/me/password"),
}  # fmt: skip
"""What a token for some agents may not ask, whatever its scopes are."""
OPEN: Final = {("POST", "/login/access-token"), ("GET", "/openapi.json"), ("GET", "/docs")}


def routes(scope: str) -> set[tuple[str, str]]:
    """Method and path of each route of a scope."""
    method_and_path = (one.split() for one in ALLOWED[scope].split(","))
    return {(method, path) for method, path in method_and_path}


EVERY: Final = sorted((route for scope in SCOPES for route in routes(scope)), key=lambda route: route[1] == "/logout")
"""The logout is the last one: it ends the token."""


@pytest.fixture(scope="module")
def shared() -> Iterator[Service]:
    with with_cart({"limits.creations_per_minute": "0"}) as service:
        yield service


def refused(shared: Service, token: str, method: str, path: str) -> bool:
    """Is a route refused to a token for what it may do? The agents, users and tokens that it names do not exist."""
    target = path.replace("{", "").replace("}", "").replace("name", "absent")
    headers = {"Content-Type": "application/octet-stream"} if method == "PUT" else {}
    answer = shared(method, target if path == "/metrics" else API + target, user=token, headers=headers)
    assert answer.status not in (401, 500), (method, path, answer.body)
    return answer.status == 403 and answer.code == "forbidden_scope"


def test_the_table_is_of_all_routes(shared: Service) -> None:
    asked = {
        (method, path.removeprefix(API))
        for path, methods in SERVICE.routes.items()
        for method in methods
        if path.startswith(API)
    }
    assert asked == {*EVERY, *OPEN} - {("GET", "/metrics")}
    paths = shared("GET", f"{API}/openapi.json", user=None).json["paths"]
    described = {
        (method.upper(), path.removeprefix(API)): call["security"]
        for path, calls in paths.items()
        for method, call in calls.items()
    }
    needed = {route: [{"token": [scope]}] for scope in SCOPES for route in routes(scope) if scope != "metrics"}
    assert described == {**needed, ("POST", "/login/access-token"): []}


def test_every_route_needs_a_token(shared: Service) -> None:
    for method, path in EVERY:
        answer = shared(method, path if path == "/metrics" else API + path, user=None)
        assert (answer.status, answer.code) == (401, "missing_token"), path
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("scope", SCOPES)
def test_a_scope_is_a_list_of_routes(shared: Service, scope: str) -> None:
    own, token = routes(scope), shared.token("root", scope)
    for method, path in EVERY:
        assert refused(shared, token, method, path) is ((method, path) not in own), (method, path)


def test_a_token_for_some_agents_may_not_change_the_account(shared: Service) -> None:
    token = shared.token("root", *SCOPES, agents=["cart"])
    for method, path in EVERY:
        assert refused(shared, token, method, path) is ((method, path) in OF_THE_ACCOUNT), (method, path)


def test_a_user_s_token_has_no_rights_of_administrators(shared: Service) -> None:
    token, administration = shared.token("bob", *ORDINARY), routes("admin") | routes("metrics")
    for method, path in EVERY:
        assert refused(shared, token, method, path) is ((method, path) in administration), (method, path)


OF_AN_AGENT = [(method, path) for method, path in EVERY if path.startswith(("/agents/{name}", "/snapshots/{name}"))]
HOSTILE = (*("' OR 1=1 --\0", "../../etc/passwd", "x" * 10_000, "😀"),)
"""Names that are none, as they come out of a path whose %-sequences are decoded."""


def test_another_user_s_agent_is_as_if_it_were_not_there(service: Service) -> None:
    id = create(service).json["id"]
    create(service, "pole")
    create(service, "bobs", user="bob")
    service.pool.asked.clear()
    for name in ("cart", id, "absent"):
        answers = [service(method, API + path.replace("{name}", name), user="bob") for method, path in OF_AN_AGENT]
        assert {(one.status, one.json["detail"]) for one in answers} == {(404, "the agent does not exist")}
    assert service.pool.asked == []
    for path in ("/users/alice/agents", "/users/alice/agents/cart", "/users/bob/agents"):
        refused = service("GET", f"/api/v1{path}", user="bob")
        assert (refused.status, refused.code) == (403, "forbidden_scope")
    assert [one["name"] for one in service("GET", AGENTS, user="bob").json] == ["bobs"]
    assert [one["name"] for one in service("GET", f"{AGENTS}?after=bobs", user="bob").json] == []
    assert [one["name"] for one in service("GET", AGENTS).json] == ["cart", "pole"]
    assert service("GET", f"{AGENTS}/cart").status == 200


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
    tokens = len(service.gateway.accounts.tokens())
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
    found = [(user.name, user.role, user.quotas) for user in service.gateway.accounts.users()]
    assert found == [("alice", "user", {}), ("bob", "user", {}), ("root", "admin", {})]
    assert len(service.gateway.accounts.tokens()) == tokens
    assert service.gateway.accounts.login("alice", PASSWORD, "")


def test_a_query_has_only_known_arguments_and_each_once(service: Service) -> None:
    create(service)
    routes = [route for methods in SERVICE.routes.values() for route in methods.values() if route.tag]
    for route in routes:
        path = route.path.replace("{name}", "alice" if "/users/" in route.path else "cart")
        path = path.replace("{agent}", "cart").replace("{token_id}", "x")
        headers = {} if route.body is None else {"Content-Type": route.body.types[0].decode()}
        user = "root" if route.scope == "admin" else "alice"
        refused = service(route.method, f"{path}?nosuch=1", b"{}", user=user, headers=headers)
        assert (refused.status, refused.json["errors"][0]["where"]) == (422, "query.nosuch"), route.path
    for twice in ("limit=1&limit=1", "limit=1&after=a&limit=x"):
        refused = service("GET", f"{AGENTS}?{twice}")
        assert refused.json["errors"] == [{"where": "query.limit", "what": "is given twice"}]
    assert service("GET", "/livez?verbose").status == 200  # what probes and browsers add has no meaning elsewhere


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_a_name_that_is_none_is_refused_everywhere(service: Service, name: str) -> None:
    create(service)
    before, files = service.gateway.rows.usage(service.gateway.accounts.user("alice").id), set(service.folder.iterdir())
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
    assert service.gateway.rows.usage(service.gateway.accounts.user("alice").id) == before
    assert [user.name for user in service.gateway.accounts.users()] == ["alice", "bob", "root"]
    assert set(service.folder.iterdir()) == files
    assert service("POST", f"{AGENTS}/cart/act", [0]).status == 200
