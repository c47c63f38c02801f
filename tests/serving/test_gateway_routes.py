"""Which token may ask which route: every scope with every route, in one table written down here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from axonrl.serving.accounts.grants import ORDINARY, SCOPES
from axonrl.serving.gateway.routes import ROUTES

from .gateway_fakes import Service, with_cart

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
def service() -> Iterator[Service]:
    with with_cart({"limits.creations_per_minute": "0"}) as service:
        yield service


def refused(service: Service, token: str, method: str, path: str) -> bool:
    """Is a route refused to a token for what it may do? The agents, users and tokens that it names do not exist."""
    target = path.replace("{", "").replace("}", "").replace("name", "absent")
    headers = {"Content-Type": "application/octet-stream"} if method == "PUT" else {}
    answer = service(method, target if path == "/metrics" else API + target, user=token, headers=headers)
    assert answer.status not in (401, 500), (method, path, answer.body)
    return answer.status == 403 and answer.code == "forbidden_scope"


def test_the_table_is_of_all_routes(service: Service) -> None:
    asked = {(method, path) for path, methods in ROUTES.items() for method in methods}
    assert asked == {*EVERY, *OPEN} - {("GET", "/metrics")}
    paths = service("GET", f"{API}/openapi.json", user=None).json["paths"]
    described = {(method.upper(), path.removeprefix(API)) for path, calls in paths.items() for method in calls}
    assert described == asked - {("GET", "/openapi.json"), ("GET", "/docs")}


@pytest.mark.parametrize("scope", SCOPES)
def test_a_scope_is_a_list_of_routes(service: Service, scope: str) -> None:
    own, token = routes(scope), service.token("root", scope)
    for method, path in EVERY:
        assert refused(service, token, method, path) is ((method, path) not in own), (method, path)


def test_a_token_for_some_agents_may_not_change_the_account(service: Service) -> None:
    token = service.token("root", *SCOPES, agents=["cart"])
    for method, path in EVERY:
        assert refused(service, token, method, path) is ((method, path) in OF_THE_ACCOUNT), (method, path)


def test_a_user_s_token_has_no_rights_of_administrators(service: Service) -> None:
    token, administration = service.token("bob", *ORDINARY), routes("admin") | routes("metrics")
    for method, path in EVERY:
        assert refused(service, token, method, path) is ((method, path) in administration), (method, path)


def test_what_a_game_has_ends_no_other_player_s_token(service: Service) -> None:
    game = service.token("alice", "act", agents=["cart"])
    for scopes in (("act",), ("read", "act", "learn")):
        token = service.token("alice", *scopes)
        assert service("POST", f"{API}/logout", user=token).code == "forbidden_scope"
        assert service("POST", f"{API}/agents/cart/act", [0], user=token).status == 200
    assert service("POST", f"{API}/logout", user=game).code == "forbidden_scope"
    assert service("POST", f"{API}/agents/cart/act", [0], user=game).status == 200
