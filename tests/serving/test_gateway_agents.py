"""Agents over HTTP: creating, reading, changing and removing them; acting and stepping."""

import asyncio
import datetime as dt
import json
import threading
from typing import Any

import pytest

from axonrl.serving import catalogue
from axonrl.serving.catalogue import Recipe
from axonrl.serving.workers.pool import WorkerResponse

from .gateway_fakes import AGENTS, CARTPOLE, SIX, STEP, FakeCatalogue, Reply, Service, create, failure, gateway


def test_an_agent_is_there_when_its_creation_answers(service: Service) -> None:
    made = create(service, description="balances")
    assert made.status == 201
    agent = made.json
    assert (agent["name"], agent["model"], agent["description"]) == ("cart", "dqn", "balances")
    assert (agent["is_active"], agent["status"], agent["discrete"], agent["learning"]) == (True, "ready", True, True)
    assert agent["config"] == {**CARTPOLE, "discrete": True, "lr": 3e-4, "seed": 1}
    assert (agent["counters"]["global_timestep"], agent["bytes"]) == (0, 7)
    [(asked, do, body, _)] = service.pool.asked
    assert (asked, do) == (agent["id"], "open")
    assert Recipe.from_json(json.loads(body)) == FakeCatalogue().recipe("dqn", CARTPOLE)
    assert service("GET", f"{AGENTS}/cart").json == agent
    assert service("GET", AGENTS).json == [agent]


def test_obs_size_is_answered_where_it_was_given(service: Service) -> None:
    config = {"obs_size": 4, "action_size": 2}
    made = service("POST", AGENTS, {"name": "a", "model": "dqn", "description": None, "config": config})
    assert (made.json["config"]["obs_size"], made.json["description"]) == (4, "")
    assert "state_size" not in made.json["config"]
    assert json.loads(service.pool.asked[0][2])["config"]["state_size"] == 4
    service("GET", "/api/v1/snapshots/a")
    assert service.pool.last()[1:] == ("get_state", b"", {"form": "snapshot", "obs_size": True})
    both = {"obs_size": 4, "state_size": 4}
    assert service("POST", AGENTS, {"name": "b", "model": "dqn", "config": both}).code == "invalid_value"


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"name": "a", "model": "dqn", "config": {**CARTPOLE, "lr": -1}}, "config.lr"),
        ({"name": "a", "model": "dqn", "config": CARTPOLE, "description": "x" * 2001}, "description"),
    ],
)
def test_what_is_invalid_is_named_and_leaves_nothing(service: Service, body: Any, where: str) -> None:
    for _ in range(2):  # its key may be used again
        refused = service("POST", AGENTS, body, headers={"Idempotency-Key": "k"})
        assert (refused.status, refused.code) == (422, "invalid_value")
        assert refused.json["errors"][0]["where"] == where
        assert "idempotent-replayed" not in refused.headers
    assert service.pool.asked == []
    assert service("GET", AGENTS).json == []


def test_a_space_is_as_deep_as_agents_can_have_it(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service.gateway, "catalogue", catalogue)
    space: dict[str, Any] = {"type": "Box", "dtype": "float32", "shape": [2], "low": -1.0, "high": 1.0}
    for name, status in zip("abcdefgh", (201,) * 7 + (422,), strict=True):
        space = {"type": "Dict", "spaces": [[name, space]]}
        body = {"name": name, "model": "dqn", "config": {"observation_space": space, "action_size": 2}}
        made = service("POST", AGENTS, body)
        assert made.status == status
    assert made.json["errors"][0]["where"] == "config.observation_space"


@pytest.mark.parametrize("description", ["nul \0", "x" * 2001])
def test_a_change_with_an_invalid_description_changes_nothing(service: Service, description: str) -> None:
    create(service)
    service.pool.asked.clear()
    change = {"learning": False, "status": "ready", "description": description}
    refused = service("PATCH", f"{AGENTS}/cart", change)
    assert (refused.code, refused.json["errors"][0]["where"]) == ("invalid_value", "description")
    assert service.pool.asked == []


def test_a_description_is_as_long_as_the_configuration_says() -> None:
    with gateway({"limits.description_characters": "3000"}) as service:
        assert create(service, description="x" * 3000).status == 201
        refused = service("PATCH", f"{AGENTS}/cart", {"description": "y" * 3001})
        assert refused.json["detail"].startswith("description must be text of at most 3,000 characters; got 'yyy")
    with gateway({"limits.description_characters": "0"}) as service:
        assert create(service, description="x" * 5000).status == 201


def test_an_agent_that_cannot_be_opened_leaves_nothing(service: Service) -> None:
    service.pool.answers["open"] = failure(507, "storage_full")
    assert create(service).code == "storage_full"
    assert service.pool.done() == ["open", "remove"]
    del service.pool.answers["open"]
    assert create(service).status == 201


def test_acting_and_stepping_hand_the_body_on_as_it_is(service: Service) -> None:
    id = create(service).json["id"]
    body = b' [0.5, 0, 1e-3, 2]'  # fmt: skip
    acted = service("POST", f"{AGENTS}/cart/act?noise=0.25", body)
    assert (acted.status, acted.json) == (200, {"action": [1]})
    assert acted.headers["content-type"] == "application/json"
    assert service.pool.last() == (id, "act", body, {"noise": 0.25})
    stepped = service("POST", f"{AGENTS}/cart/step", STEP, headers={"Idempotency-Key": "k"})
    assert (stepped.json, "idempotent-replayed" in stepped.headers) == ({"accepted": 1, "seq": 1}, False)
    again = service("POST", f"{AGENTS}/cart/step", STEP, headers={"Idempotency-Key": "k"})
    assert (again.body, again.headers["idempotent-replayed"]) == (stepped.body, "true")
    assert list(service.pool.last()[1:]) == ["step", json.dumps(STEP).encode(), {"key": "k"}]
    assert service("POST", f"{AGENTS}/cart/steps/", {"steps": [1, 2, 3]}).json == {"accepted": 3, "seq": 4}
    assert service("POST", f"{AGENTS}/cart/end_episode").status == 200
    service.pool.asked.clear()
    refused = service("POST", f"{AGENTS}/cart/act?noise=nan", [0])
    assert (refused.code, refused.json["errors"][0]["where"]) == ("invalid_value", "noise")
    assert service("POST", f"{AGENTS}/cart/step?noise=0", STEP).code == "invalid_value"
    assert service.pool.asked == []


def test_what_a_worker_refuses_is_a_problem(service: Service) -> None:
    create(service)
    service.pool.answers["step"] = failure(422, "invalid_value", "step_data.state[3]")
    refused = service("POST", f"{AGENTS}/cart/step", STEP)
    assert refused.code == "invalid_value"
    assert refused.json["errors"] == [{"where": "step_data.state[3]", "what": "is wrong"}]
    service.pool.answers["step"] = failure(503, "agent_busy", retry_after=3)
    busy = service("POST", f"{AGENTS}/cart/step", STEP)
    assert (busy.code, busy.headers["retry-after"]) == ("agent_busy", "3")
    service.pool.answers["info"] = failure(409, "agent_failed", "its folder")
    shown = service("GET", f"{AGENTS}/cart").json
    assert (shown["status"], shown["status_detail"]) == ("failed", "its folder is wrong")
    service.pool.answers["step"] = WorkerResponse(500, b"not even JSON")
    assert service("POST", f"{AGENTS}/cart/step", STEP).code == "internal"


def test_steps_are_limited_for_each_agent_and_batches_count_whole(service: Service) -> None:
    service.gateway.accounts.set_quota("alice", {"steps_per_second": 5})
    service.run(service.gateway.tokens.refresh)
    create(service)
    create(service, "other")
    assert service("POST", f"{AGENTS}/cart/steps", {"steps": [0] * 50}).status == 200  # 45 too many, to be waited for
    refused = service("POST", f"{AGENTS}/cart/step", STEP)
    assert refused.code == "rate_limited"
    assert 9 <= int(refused.headers["retry-after"]) <= 10
    assert service("POST", f"{AGENTS}/other/step", STEP).status == 200
    assert service("POST", f"{AGENTS}/cart/act", [0]).status == 200


def test_an_inactive_agent_neither_acts_nor_takes_memory(service: Service) -> None:
    create(service)
    service("POST", f"{AGENTS}/cart/act", [0])
    assert service("PATCH", f"{AGENTS}/cart", {"is_active": False}).json["is_active"] is False
    assert "close" in service.pool.done()
    assert service("POST", f"{AGENTS}/cart/act", [0]).code == "agent_inactive"
    assert create(service, "other", is_active=False).json["executor"] is None  # of no worker
    assert service.pool.done()[-2:] == ["open", "close"]
    assert service("PATCH", f"{AGENTS}/cart", {"is_active": True, "description": "d"}).json["description"] == "d"
    assert service("POST", f"{AGENTS}/cart/act", [0]).status == 200


def test_an_agent_that_is_deactivated_while_a_step_arrives_refuses_it(service: Service) -> None:
    create(service)
    pending = [
        {"type": "http.request", "body": b"", "more_body": True},
        {"type": "http.request", "body": json.dumps(STEP).encode(), "more_body": False},
    ]

    async def receive() -> Any:
        if len(pending) == 1:
            await service.request("PATCH", f"{AGENTS}/cart", {"is_active": False})
        return pending.pop(0)

    assert service("POST", f"{AGENTS}/cart/step", receive).code == "agent_inactive"
    assert service.pool.done() == ["open", "close", "info"]  # not loaded again


def test_an_act_that_was_under_way_does_not_keep_an_agent_active(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(service)
    has_read, may_go_on = threading.Event(), threading.Event()

    def most_values(config: Any) -> tuple[int, int]:
        has_read.set()
        assert may_go_on.wait(60)
        return 1, 1

    monkeypatch.setattr("axonrl.serving.gateway.gateway.most_values", most_values)

    async def run() -> None:
        act = asyncio.create_task(service.request("POST", f"{AGENTS}/cart/act", [0]))
        await asyncio.to_thread(has_read.wait, 60)
        assert (await service.request("PATCH", f"{AGENTS}/cart", {"is_active": False})).status == 200
        may_go_on.set()
        await act

    service.run(run)
    assert service("POST", f"{AGENTS}/cart/act", [0]).code == "agent_inactive"


@pytest.mark.parametrize(
    ("method", "path", "body", "does"),
    [
        ("GET", f"{AGENTS}/cart/loss", None, "loss"),
        ("GET", "/api/v1/snapshots/cart", None, "get_state"),
        ("POST", "/api/v1/snapshots/cart", {}, "put_state"),
        ("PATCH", f"{AGENTS}/cart", {"learning": False}, "patch"),
    ],
)
def test_an_inactive_agent_that_was_read_or_changed_is_put_away_again(
    service: Service, method: str, path: str, body: Any, does: str
) -> None:
    id = create(service, is_active=False).json["id"]
    for answer in (None, failure(503, "unavailable")):
        service.pool.asked.clear()
        service.pool.answers = {} if answer is None else {does: answer}
        assert service(method, path, body).status in ((200, 201) if answer is None else (503,))
        done = [(agent, do, head.get("wake")) for agent, do, _, head in service.pool.asked]
        assert done[:2] == [(id, does, None), (id, "close", None)]
        assert set(done[2:]) <= {(id, "info", False)}  # which opens nothing
    service.pool.answers = {}
    service("PATCH", f"{AGENTS}/cart", {"is_active": True})
    service.pool.asked.clear()
    service(method, path, body)
    assert "close" not in service.pool.done()


def test_going_on_after_a_failure_says_what_it_costs(service: Service) -> None:
    create(service)
    service.pool.answers["patch"] = WorkerResponse(200, b'{"lost":2}')
    assert service("PATCH", f"{AGENTS}/cart", {"status": "ready", "learning": False}).json["lost"] == 2
    assert next(head for _, do, _, head in service.pool.asked if do == "patch") == {"learning": False, "recover": True}
    assert service("PATCH", f"{AGENTS}/cart", {"status": "failed"}).code == "invalid_value"
    assert service("PATCH", f"{AGENTS}/cart", {"role": "admin"}).json["errors"][0]["where"] == "role"


@pytest.mark.parametrize("by", ["request", "command line"])
def test_a_removed_agent_is_gone_and_its_name_is_free(service: Service, by: str) -> None:
    id = create(service).json["id"]
    service("POST", f"{AGENTS}/cart/act", [0])
    if by == "request":
        removed = service("DELETE", f"{AGENTS}/cart")
        assert (removed.status, removed.json) == (202, {"removed": "cart"})
    else:
        service.gateway.rows.mark_removed(id)
        service.run(service.gateway.finish_removals)
    assert service.pool.steps == {}
    assert service("POST", f"{AGENTS}/cart/act", [0]).code == "not_found"
    assert service("DELETE", f"{AGENTS}/cart").status == 404
    assert create(service).status == 201


@pytest.mark.parametrize(("path", "user"), [(f"{AGENTS}/cart", "alice"), ("/api/v1/users/alice", "root")])
def test_a_removal_is_done_when_it_is_recorded_and_its_rest_repeated(service: Service, path: str, user: str) -> None:
    """A client that repeated it was told that there had been no such agent, or user."""
    ids = {create(service, name).json["id"] for name in ("cart", "other")}
    service.pool.answers["remove"] = failure(503, "unavailable")
    assert service("DELETE", path, user=user).status == 202
    assert service("DELETE", path, user=user).code == "not_found"
    marked = {row.id for row in service.gateway.rows.all_unfinished()}
    assert len(marked) == (2 if user == "root" else 1)
    service.run(service.gateway.start)  # which does not depend on it
    service.pool.answers = {}
    service.run(service.gateway.finish_removals)
    assert (set(service.pool.steps), service.gateway.rows.all_unfinished()) == (ids - marked, [])


def test_what_another_server_changed_is_seen_at_the_next_look() -> None:
    with gateway(shared=True) as service:
        id = create(service).json["id"]
        assert service("POST", f"{AGENTS}/cart/act", [0]).status == 200
        service.gateway.rows.describe(id, is_active=False)  # by the other one
        service.run(service.gateway.finish_removals)
        assert service("POST", f"{AGENTS}/cart/act", [0]).code == "agent_inactive"


def test_of_an_account_one_program_is_built_at_a_time(service: Service) -> None:
    """There is one builder: another account waits for one of it."""

    async def run() -> list[Reply]:
        def creation(name: str, user: str) -> asyncio.Future[Reply]:
            body = {"name": name, "model": "dqn", "config": CARTPOLE}
            return asyncio.ensure_future(service.request("POST", AGENTS, body, user=user))

        service.pool.held = asyncio.Event()
        several = [creation(name, "alice") for name in "abc"]
        await service.pool.asking.wait()
        service.pool.asking.clear()
        other = creation("d", "bob")
        await service.pool.asking.wait()
        assert service.pool.done() == ["open", "open"]
        service.pool.held.set()
        return [await one for one in (*several, other)]

    answers = service.run(run)
    assert [one.status for one in answers] == [201] * 4
    assert service.pool.done() == ["open"] * 4


@pytest.mark.parametrize(
    ("path", "user"),
    [
        (f"{AGENTS}/cart", "alice"),
        ("/api/v1/users/alice/agents/cart", "root"),
        ("/api/v1/users/alice", "root"),
        ("", "the command line"),
    ],
)
def test_an_agent_that_is_removed_while_it_is_created_leaves_nothing(service: Service, path: str, user: str) -> None:
    service.pool.held = asyncio.Event()
    gateway, rows = service.gateway, service.gateway.rows

    async def run() -> Reply:
        body = {"name": "cart", "model": "dqn", "config": CARTPOLE}
        creation = asyncio.create_task(service.request("POST", AGENTS, body))
        await service.pool.asking.wait()
        if path:
            assert (await service.request("DELETE", path, user=user)).status == 202
        else:
            rows.mark_removed(service.pool.last()[0])
        await gateway.finish_removals()
        assert service.pool.done() == ["open"]  # the worker is at it
        assert service.pool.held is not None
        service.pool.held.set()
        return await creation

    refused = service.run(run)
    assert (refused.status, refused.code) == (404, "not_found")
    assert (service.pool.steps, service.pool.done(), rows.all_unfinished()) == ({}, ["open", "remove"], [])
    assert gateway.creating == set()
    if user != "root" or "agents" in path:
        assert create(service).status == 201


def test_an_agent_that_is_being_created_does_not_act_and_is_removed_at_the_next_start(service: Service) -> None:
    owner = service.gateway.accounts.user("alice").id
    service.gateway.rows.add(owner, "half", "dqn", "", {})
    shown = service("GET", f"{AGENTS}/half").json
    assert (shown["status"], shown["is_active"]) == ("creating", False)
    state = dict.fromkeys(SIX, "")
    requests: list[tuple[str, str, Any]] = [
        ("POST", f"{AGENTS}/half/act", [0]),
        ("GET", f"{AGENTS}/half/loss", None),
        ("GET", f"{AGENTS}/half/episodes", None),
        ("PATCH", f"{AGENTS}/half", {"is_active": False}),
        ("GET", "/api/v1/snapshots/half", None),
        ("POST", "/api/v1/snapshots/half", state),
    ]
    assert {service(*request).code for request in requests} == {"unavailable"}
    assert service.pool.asked == []
    service.run(service.gateway.start)
    assert (service.gateway.rows.all_unfinished(), service.pool.done()) == ([], ["remove"])
    assert create(service, "half").status == 201


def test_a_creation_whose_row_was_written_too_late_is_removed_after_a_time(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database answered after the gateway had given up; the name stayed taken until the next start."""
    service.gateway.rows.add(service.gateway.accounts.user("alice").id, "late", "dqn", "", {})
    service.run(service.gateway.finish_removals)
    assert create(service, "late").code == "name_taken"
    monkeypatch.setattr("axonrl.serving.gateway.gateway._CREATION", dt.timedelta(0))
    service.run(service.gateway.finish_removals)
    assert create(service, "late").status == 201


def test_pages_of_agents(service: Service) -> None:
    for name in ("b", "a", "c"):
        create(service, name)
    assert [one["name"] for one in service("GET", f"{AGENTS}/?limit=2").json] == ["a", "b"]
    assert [one["name"] for one in service("GET", f"{AGENTS}?limit=2&after=b").json] == ["c"]
    assert service("GET", f"{AGENTS}?after=%27%20OR%201").code == "invalid_value"
    assert service("GET", f"{AGENTS}?limit=0").json["errors"][0]["where"] == "query.limit"
    service.pool.answers["info"] = failure(503, "unavailable")
    assert [one["name"] for one in service("GET", AGENTS).json] == ["a", "b", "c"]
    assert service("GET", f"{AGENTS}/a").code == "unavailable"
