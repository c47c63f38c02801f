"""What holds for every request: tokens, scopes, types, limits, headers, errors; health, metrics, logs."""

import asyncio
import datetime as dt
import json
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

from axonrl.serving import catalogue
from axonrl.serving.gateway import declaration, models
from axonrl.serving.gateway.prometheus import Meters
from axonrl.serving.hosting.values import Actions
from axonrl.serving.refusals import RefusedError

from .gateway_fakes import CARTPOLE, PASSWORD, SIX, Reply, Service, create, gateway, with_cart

API = "/api/v1"
ACT = f"{API}/agents/cart/act"


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with with_cart({}) as service:
        yield service


def test_other_tokens_are_refused(service: Service) -> None:
    for path in (ACT, f"{API}/tokens"):
        assert service("POST", path, [0], user=None, headers={"Authorization": "Bearer \xff"}).code == "invalid_token"
    good = service.tokens["alice"]
    for given in (f"Basic {good}", good, f"Bearer {good[:-1]}", f"Bearer {good}x"):
        assert service("POST", ACT, [0], user=None, headers={"Authorization": given}).code == "invalid_token"
    assert service("POST", f"{ACT}?access_token={good}", [0], user=None).code == "missing_token"


def test_an_expired_token_is_called_expired_as_long_as_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    with gateway() as service:
        accounts, refresh = service.gateway.accounts, service.gateway.tokens.refresh
        made, row = accounts.create_token("alice", "game", ["act"], expires_in=3600)
        login, cookie = accounts.login("alice", PASSWORD, ""), accounts.web_login("alice", PASSWORD, "")
        service.run(refresh)
        assert service("POST", ACT, [0], user=made).code == "not_found"
        monkeypatch.setattr(accounts, "_clock", lambda: dt.datetime.now(dt.timezone.utc) + dt.timedelta(days=31))
        with monkeypatch.context() as later:
            in_an_hour = time.time() + 3600
            later.setattr(time, "time", lambda: in_an_hour)
            assert service("POST", ACT, [0], user=made).code == "token_expired"  # nobody has asked the database since
        for _ in range(2):
            service.run(refresh)
            for text in (made, login):
                refused = service("POST", ACT, [0], user=text)
                assert (refused.status, refused.code) == (401, "token_expired")
                assert refused.headers["www-authenticate"] == "Bearer"
            assert service("POST", ACT, [0], user=cookie).code == "invalid_token"
            with pytest.raises(RefusedError, match="expired"):
                service.gateway.tokens.web(cookie.encode())
            assert service("GET", f"{API}/agents").status == 200  # of 90 days
        accounts.revoke_token(row.id)
        service.run(refresh)
        assert service("POST", ACT, [0], user=made).code == "invalid_token"
        assert service("POST", ACT, [0], user=login).code == "token_expired"
        accounts.tidy()  # logins that ended 30 days ago are forgotten
        service.run(refresh)
        assert service("POST", ACT, [0], user=login).code == "invalid_token"
        assert {token.name for token in accounts.tokens("alice")} == {"test", "game"}


def test_a_token_for_some_agents_finds_no_others(service: Service) -> None:
    service("POST", f"{API}/agents", {"name": "other", "model": "dqn", "config": CARTPOLE})
    token = service.token("alice", "act", agents=["cart"])
    assert service("POST", ACT, [0], user=token).status == 200
    assert service("POST", f"{API}/agents/other/act", [0], user=token).code == "not_found"
    reading = service.token("alice", "read", "manage", agents=["cart"])
    assert [one["name"] for one in service("GET", f"{API}/agents", user=reading).json] == ["cart"]
    assert service("GET", f"{API}/agents/other", user=reading).code == "not_found"
    assert service("POST", f"{API}/agents", {"name": "third", "model": "dqn"}, user=reading).code == "not_found"


def test_a_bug_tells_nothing_but_the_request(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    service.gateway.accounts.tokens = None  # type: ignore[method-assign, assignment]
    refused = service("GET", f"{API}/tokens")
    del service.gateway.accounts.tokens
    assert refused.code == "internal"
    assert set(refused.json) == {"type", "title", "status", "code", "request_id"}
    assert caplog.records[0].request_id == refused.json["request_id"]  # type: ignore[attr-defined]
    assert "TypeError" in caplog.text


def test_headers_of_every_answer(service: Service) -> None:
    for path, user in ((f"{API}/agents", "alice"), ("/livez", None), (ACT, None)):
        headers = service("GET", path, user=user).headers
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert "strict-transport-security" not in headers
        assert "server" not in headers
    assert service("POST", "/livez").code == "method_not_allowed"
    assert service("HEAD", f"{API}/agents").status == service("HEAD", "/livez", user=None).status == 200
    first, second = service("GET", "/livez"), service("GET", "/livez/")
    assert (second.status, first.headers["x-request-id"] != second.headers["x-request-id"]) == (200, True)


def test_only_allowed_origins_get_cors_headers() -> None:
    with gateway({"http.allowed_origins": '["https://game.example.org"]'}) as service:
        ours, other = {"Origin": "https://game.example.org"}, {"Origin": "https://evil.example.org"}
        preflight = service("OPTIONS", ACT, user=None, headers={**ours, "Access-Control-Request-Method": "POST"})
        assert (preflight.status, preflight.headers["access-control-allow-origin"]) == (204, ours["Origin"])
        assert "authorization" in preflight.headers["access-control-allow-headers"].lower()
        refused = service("POST", ACT, [0], user=None, headers=ours)
        assert (refused.code, refused.headers["access-control-allow-origin"]) == ("missing_token", ours["Origin"])
        assert "access-control-allow-credentials" not in refused.headers
        assert not any(name.startswith("access-control") for name in service("OPTIONS", ACT, headers=other).headers)


def test_the_address_is_the_peer_s_unless_a_proxy_of_ours_says_otherwise() -> None:
    with gateway({"listen.behind_proxy": "[10.0.0.0/8]"}) as service:
        given = {"X-Forwarded-For": "6.6.6.6, 7.7.7.7, 10.0.0.2"}
        service("GET", f"{API}/agents", user=None, headers=given, peer="10.0.0.1")
        service("GET", f"{API}/agents", user=None, headers=given, peer="9.9.9.9")
        for peer in ("10.0.0.1", "::ffff:10.0.0.1"):  # the same, at a server that listens at ::
            secure = service("GET", "/livez", headers={"X-Forwarded-Proto": "https"}, peer=peer)
            assert "strict-transport-security" in secure.headers
        wanted = {("request", "missing_token", "7.7.7.7"), ("request", "missing_token", "9.9.9.9")}
        while {(one.what, one.outcome, one.address) for one in service.gateway.audit.entries(2)} != wanted:
            service.run(lambda: asyncio.sleep(0.005))  # they are written after the answer


def test_requests_are_limited_for_each_account() -> None:
    with gateway({"limits.requests_per_minute": "60"}) as service:
        # A burst of ten, then one a second.
        answers = [service("GET", f"{API}/service").status for _ in range(11)]
        assert answers == [200] * 10 + [429]
        assert service("POST", ACT, [0]).headers["retry-after"] == "1"
        assert service("GET", f"{API}/service", user="bob").status == 200


def test_while_the_database_is_down_tokens_that_were_used_go_on(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: Any, **__: Any) -> None:
        raise RefusedError("database_unavailable", "the database is down", retry_after=1)

    unused = service.token("alice", "act")
    assert service("POST", ACT, [0]).status == 200
    monkeypatch.setattr(service.gateway.accounts, "active_tokens", down)
    monkeypatch.setattr(service.gateway.rows, "of", down)
    with pytest.raises(RefusedError, match="the database is down"):
        service.run(service.gateway.tokens.refresh)
    assert service("POST", ACT, [0]).status == 200
    assert service("POST", ACT, [0], user=unused).code == "database_unavailable"
    assert service("POST", ACT, [0], user="nosuch").code == "database_unavailable"
    listed = service("GET", f"{API}/agents")
    assert (listed.code, listed.headers["retry-after"]) == ("database_unavailable", "1")
    ready = service("GET", "/readyz", user=None)
    assert (ready.status, ready.json["checks"]) == (503, {"server": "ok", "database": "not reached"})
    five_minutes_on = time.time() + 301
    monkeypatch.setattr(time, "time", lambda: five_minutes_on)
    assert service("POST", ACT, [0]).code == "database_unavailable"
    monkeypatch.undo()
    service.run(service.gateway.tokens.refresh)
    assert service("POST", ACT, [0], user=unused).status == 200
    assert service("GET", "/readyz", user=None).json["status"] == "ready"


def test_readyz_and_metrics_show_what_other_rooms_say_and_no_names() -> None:
    checks = {"disk": lambda: "full", "workers": lambda: ""}
    with gateway(checks=checks, gauges=lambda: {"loaded_agents": 3.0}) as service:
        answer = service("GET", "/readyz", user=None)
        assert answer.status == 503
        assert answer.json["checks"] == {"server": "ok", "database": "ok", "disk": "full", "workers": "ok"}
        service("POST", ACT, [0])
        service("GET", f"{API}/agents/secretname")
        text = service("GET", "/metrics", user="root").body.decode()
        assert 'axonrl_requests_total{route="/api/v1/agents/{name}/act",status="404"} 1.0' in text
        assert 'axonrl_requests_total{route="/api/v1/agents/{name}",status="404"} 1.0' in text
        assert 'axonrl_request_seconds_count{route="/api/v1/agents/{name}/act"} 1.0' in text
        assert "axonrl_loaded_agents 3.0" in text
        assert not any(name in text for name in ("secretname", "cart", "alice"))


@pytest.mark.parametrize("part", ["json_of", "recipe"])
def test_others_are_answered_while_a_large_creation_is_checked(
    service: Service, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """Bounds of 60,000 numbers took a second, during which nobody acted."""
    begun, answered = threading.Event(), threading.Event()
    at = declaration if part == "json_of" else service.gateway.catalogue
    whole = getattr(at, part)

    def slow(*given: Any) -> Any:
        begun.set()
        assert answered.wait(20)
        return whole(*given)

    monkeypatch.setattr(at, part, slow)

    async def run() -> Reply:
        large = json.dumps({"name": part, "model": "dqn", "config": CARTPOLE}).encode() + b" " * 2**16
        creation = asyncio.create_task(service.request("POST", f"{API}/agents", large))
        await asyncio.to_thread(begun.wait, 20)
        assert (await service.request("POST", ACT, [0])).status == 200
        answered.set()
        return await creation

    assert service.run(run).status == 201


def test_requests_may_be_counted_while_metrics_are_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in another thread; a route's first request failed the collection."""
    meters = Meters()
    meters.count_request("first", 200, 0.1)
    for family in (CounterMetricFamily, HistogramMetricFamily):

        def add(*_: Any, name: str = family.__name__, **__: Any) -> None:
            meters.count_request(name, 200, 0.1)

        monkeypatch.setattr(family, "add_metric", add)
    meters.text()


def test_the_page_about_the_interface_loads_nothing(service: Service) -> None:
    assert service("GET", f"{API}/docs", user=None).code == "not_found"  # unless it is asked for
    with gateway({"http.docs": "true"}) as documented:
        shown = documented("GET", f"{API}/docs", user=None)
        assert shown.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
        text = shown.body.decode()
        assert not re.search(r"<(script|link|img|iframe)|https?:|@import|url\(", text)
        for needed in ("POST /agents/{name}/act", "<code>learn</code>", "steps_per_second", 'id="stepdata"'):
            assert needed in text
        linked = set(re.findall(r'href="#([^"]+)"', text))
        assert len(linked) > 50
        assert linked <= set(re.findall(r'id="([^"]+)"', text))


def test_the_document_allows_actions_that_are_arrays_and_states_of_described_spaces() -> None:
    halves = np.full((2, 2), 0.5, np.float32)
    action = Actions(Box(0, 1, (2, 2), np.float32)).to_json(halves)
    assert models.Acted.model_validate({"action": action}).action == halves.tolist()
    assert models.ActedBatch.model_validate({"actions": [action, [1]]}).actions == [halves.tolist(), [1]]
    data = {"state": [0], "action": action, "reward": 1.0, "next_state": [0], "done": False}
    assert models.StepData.model_validate(data).action == action
    recipe = catalogue.recipe("ddpg", {"observation_space": {"type": "MultiBinary", "n": 3}, "action_size": [2, 2]})
    sizes = {name: recipe.config.get(name) for name in ("state_size", "action_size")}
    state = {**dict.fromkeys(SIX, ""), **sizes}
    assert models.Snapshot.model_validate(state).model_dump() == {**state, "state_size": None, "action_size": [2, 2]}


def test_the_depth_of_json_is_limited_where_the_document_says_so() -> None:
    with gateway({"limits.json_depth": "2"}) as service:
        assert create(service, user="root").status == 201
        paths = service("GET", f"{API}/openapi.json", user=None).json["paths"]
        calls = [(method, path, call) for path, methods in paths.items() for method, call in methods.items()]
        deep = {path for _, path, call in calls if "json_depth" in call["x-limits"]}
        assert {f"{API}/tokens", f"{API}/agents"} < deep
        for method, path, call in calls:
            if "application/json" in call.get("requestBody", {}).get("content", ()):
                target = path.replace("{name}", "root" if "/users/" in path else "cart")
                answer = service(method.upper(), target, {"a": [[0]]}, user="root")
                assert (b"may be nested 2 levels deep" in answer.body) is (path in deep), (method, path, answer.body)


def test_the_document_describes_the_hot_routes(service: Service) -> None:
    document = service("GET", f"{API}/openapi.json", user=None).json
    assert document["openapi"] == "3.1.0"
    step = document["paths"][f"{API}/agents/{{name}}/step"]["post"]
    assert step["requestBody"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Step"}
    schemas = document["components"]["schemas"]
    assert schemas["StepData"]["required"] == ["state", "action", "reward", "next_state", "done"]
    # Actions of a shape are nested; a Dict of observations has no size.
    assert schemas["Acted"]["properties"]["action"]["items"] == {}
    assert schemas["ActedBatch"]["properties"]["actions"]["items"] == {"type": "array", "items": {}}
    assert {"type": "array", "items": {}} in schemas["StepData"]["properties"]["action"]["anyOf"]
    assert {"type": "null"} in schemas["Snapshot"]["properties"]["state_size"]["anyOf"]
    assert {"type": "array", "items": {"type": "integer"}} in schemas["Snapshot"]["properties"]["action_size"]["anyOf"]
    assert "state_size" not in schemas["Snapshot"]["required"]  # where it was given as obs_size
    named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert named <= set(schemas)
    assert "application/problem+json" in step["responses"]["default"]["content"]
