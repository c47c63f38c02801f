"""Limits of creations and of transfers of states, quotas of bytes, and what of it is recorded."""

import pytest

from axonrl.serving.gateway import gateway as gateways
from axonrl.serving.workers.pool import WorkerResponse

from .client_stub import Clock
from .gateway_fakes import AGENTS, CARTPOLE, SIX, STEP, Service, create, failure, gateway


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(gateways, "time", clock)
    return clock


def test_quotas_and_creations_per_minute(clock: Clock) -> None:
    with gateway({"limits.creations_per_minute": "3"}) as service:
        service.gateway.accounts.set_quota("alice", {"agents": 1})
        service.run(service.gateway.tokens.refresh)
        assert create(service, "a").status == 201
        assert create(service, "b").code == "quota_exceeded"
        assert create(service, "b").code == "quota_exceeded"
        refused = create(service, "b")
        assert (refused.code, refused.headers["retry-after"]) == ("rate_limited", "60")
        assert "axonrl service set-quota USER creations_per_minute=" in refused.json["detail"]
        assert create(service, "b", user="bob").status == 201
        clock.now += 60
        assert create(service, "b").code == "quota_exceeded"


def test_no_minute_has_more_creations_than_the_limit(clock: Clock) -> None:
    with gateway({"limits.creations_per_minute": "3"}) as service:
        created = []
        for tenth in range(1800):  # of a second: three at once, then a try every ten seconds
            clock.now = 1000 + tenth / 10
            if tenth < 3 or tenth % 100 == 0:
                answer = create(service, f"a{tenth}")
                assert answer.status in (201, 429)
                created += [clock.now] if answer.status == 201 else []
        assert created == [1000, 1000.1, 1000.2, 1060, 1070, 1080, 1120, 1130, 1140]


def test_no_minute_has_more_changes_than_the_limit(clock: Clock) -> None:
    """What is refused counts, too: each change is a line of the audit log."""
    with gateway({"limits.changes_per_minute": "4", "limits.creations_per_minute": "0"}) as service:
        assert create(service).status == 201
        assert service("DELETE", "/api/v1/tokens/nosuch").code == "not_found"
        assert service("PATCH", f"{AGENTS}/cart", {"learning": True}).status == 200
        assert service("POST", "/api/v1/tokens", {"name": "t", "scopes": ["act"]}).status == 201
        for method, path in (("PATCH", "/agents/cart"), ("DELETE", "/agents/cart"), ("DELETE", "/tokens/nosuch")):
            refused = service(method, f"/api/v1{path}", {} if method == "PATCH" else None)
            assert (refused.code, refused.headers["retry-after"]) == ("rate_limited", "60")
            assert "axonrl service set-quota USER changes_per_minute=" in refused.json["detail"]
        assert service("GET", "/api/v1/tokens").status == 200
        assert service("POST", f"{AGENTS}/cart/step", STEP).status == 200
        assert create(service, user="bob").status == 201
        clock.now += 60
        assert service("DELETE", f"{AGENTS}/cart").status == 202


def test_states_are_limited_and_recorded(service: Service, clock: Clock) -> None:
    create(service)
    assert sorted(service("GET", "/api/v1/snapshots/cart").json) == sorted(SIX)
    assert service("POST", "/api/v1/snapshots/cart", dict.fromkeys(SIX, "")).status == 201
    state = service("GET", f"{AGENTS}/cart/state")
    assert state.headers["content-type"] == "application/octet-stream"
    put = service("PUT", f"{AGENTS}/cart/state", b"raw", headers={"Content-Type": "application/octet-stream"})
    assert put.status == 200
    assert service.pool.last()[1:] == ("put_state", b"raw", {"form": "safetensors"})
    for _ in range(2):
        clock.now += 25
        assert service("GET", "/api/v1/snapshots/cart").status == 200
    recorded = [(entry.what, entry.outcome) for entry in service.gateway.audit.entries(6)]
    what = ["state.read", "state.read", "state.write", "state.read", "state.write", "state.read"]
    assert recorded == [(one, "ok") for one in what]
    for seconds, wait in ((0, "10"), (9.5, "1")):
        clock.now += seconds
        refused = service("GET", "/api/v1/snapshots/cart")
        assert (refused.code, refused.headers["retry-after"]) == ("rate_limited", wait)


def test_an_account_above_its_bytes_uploads_and_creates_nothing(service: Service) -> None:
    create(service)
    assert service("GET", "/api/v1/users/me").json["usage"] == {"agents": 1, "bytes": 7}  # noted with the creation
    raw = {"Content-Type": "application/octet-stream"}
    service.gateway.accounts.set_quota("alice", {"bytes": 8})
    service.run(service.gateway.tokens.refresh)
    service.pool.answers["put_state"] = WorkerResponse(200, b'{"bytes": 8}')
    assert service("POST", "/api/v1/snapshots/cart", {}).status == 201
    me = service("GET", "/api/v1/users/me").json
    assert (me["role"], me["usage"]) == ("user", {"agents": 1, "bytes": 8})
    assert (me["quotas"]["bytes"], me["quotas"]["steps_per_second"]) == (8, 1000)
    assert service("GET", "/api/v1/service").json["limits"]["bytes"] == 8
    service.pool.asked.clear()
    for method, path, body, more in (
        ("POST", "/api/v1/snapshots/cart", {}, {}),
        ("PUT", f"{AGENTS}/cart/state", b"raw", raw),
        ("POST", AGENTS, {"name": "b", "model": "dqn", "config": CARTPOLE}, {}),
    ):
        refused = service(method, path, body, headers=more)
        assert (refused.status, refused.code) == (403, "quota_exceeded")
    assert service.pool.asked == []
    assert service("GET", "/api/v1/snapshots/cart").status == 200
    assert service("POST", f"{AGENTS}/cart/step", STEP).status == 200
    found = [(one.what, one.target, one.outcome) for one in service.gateway.audit.entries(8)]
    assert ("state.write", "cart", "quota_exceeded") in found
    service.gateway.accounts.set_quota("alice", {"bytes": 0})  # no limit
    service.run(service.gateway.tokens.refresh)
    assert service("POST", "/api/v1/snapshots/cart", {}).status == 201


def test_an_account_far_above_its_bytes_only_acts(service: Service) -> None:
    """Steps make agents grow; what they have is counted each minute, and at the start."""
    create(service), create(service, user="bob")
    for size, status in ((200, 200), (201, 403), (200, 200)):
        service.gateway.accounts.set_quota("alice", {"bytes": 100})
        service.gateway.rows.note({row.id: (None, size) for _, row in service.gateway.rows.all()})
        assert service("POST", f"{AGENTS}/cart/act", [0]).status == 200
        service.pool.answers["info"] = failure(404, "not_found")
        service.run(service.gateway.note_used)
        service.run(service.gateway.tokens.refresh)
        for do, body in (("step", STEP), ("steps", {"steps": [STEP["step_data"]]}), ("end_episode", {})):
            answer = service("POST", f"{AGENTS}/cart/{do}", body)
            assert answer.status == status, (size, do)
            assert status == 200 or answer.code == "quota_exceeded"
        assert service("POST", f"{AGENTS}/cart/step", STEP, user="bob").status == 200
    service.gateway.rows.note({row.id: (None, 201) for _, row in service.gateway.rows.all()})
    service.run(service.gateway.start)
    assert service("POST", f"{AGENTS}/cart/step", STEP).code == "quota_exceeded"
    assert service("POST", f"{AGENTS}/cart/act", [0]).status == 200
    paths = service("GET", "/api/v1/openapi.json", user=None).json["paths"]
    limited = {
        path.rpartition("/")[2] for path, calls in paths.items() if "bytes" in calls.get("post", {}).get("x-limits", ())
    }
    assert limited == {"agents", "{name}", "step", "steps", "end_episode"}  # a new agent, and the state of one


def test_compiled_programs_count_against_the_bytes_of_an_account() -> None:
    with gateway(program_bytes=lambda agents: 1000 * len(list(agents))) as service:
        create(service)
        assert service("GET", "/api/v1/users/me").json["usage"] == {"agents": 1, "bytes": 1007}
        service.gateway.accounts.set_quota("alice", {"bytes": 1007})
        service.run(service.gateway.tokens.refresh)
        assert create(service, "b").code == "quota_exceeded"
        found = [(one.what, one.target, one.outcome) for one in service.gateway.audit.entries(2)]
        assert ("agent.create", "b", "quota_exceeded") in found


def test_states_that_are_refused_are_recorded_and_a_flood_of_them_is_counted(service: Service, clock: Clock) -> None:
    create(service)

    def newest(count: int) -> list[tuple[str, str, str, str]]:
        return [(one.what, one.who, one.target, one.outcome) for one in service.gateway.audit.entries(count)]

    service.pool.answers["put_state"] = failure(422, "unsafe_state", "encoded_network")
    assert service("POST", "/api/v1/snapshots/cart", {}).code == "unsafe_state"
    assert newest(1) == [("state.write", "alice", "cart", "unsafe_state")]
    service.pool.answers["get_state"] = failure(503, "unavailable")
    assert service("GET", f"{AGENTS}/cart/state").code == "unavailable"
    assert newest(1) == [("state.read", "alice", "cart", "unavailable")]
    for _ in range(4):
        service("GET", f"{AGENTS}/cart/state")
    for _ in range(13):
        assert service("GET", f"{AGENTS}/cart/state").code == "rate_limited"
    limited, before = ("state.read", "alice", "cart", "rate_limited"), ("state.read", "alice", "cart", "unavailable")
    assert newest(11) == [limited] * 10 + [before]
    service.run(service.gateway.record_unrecorded)
    told = service.gateway.audit.entries(1)[0]
    assert (told.what, told.who, told.outcome) == ("requests", "service", "refused")
    assert told.detail == {"refused": 3, "addresses": 1}
    service.run(service.gateway.record_unrecorded)
    assert service.gateway.audit.entries(1)[0].id == told.id  # there is nothing more to tell
