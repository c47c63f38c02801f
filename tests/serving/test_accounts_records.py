import datetime as dt
import json
from pathlib import Path

import pytest

from axonrl.errors import ArgumentError
from axonrl.serving.accounts import Accounts, AgentRows, Audit, By, Database, Idempotency, RefusedError
from axonrl.tests.raising import raised

from .for_accounts import PASSWORD, START, Hands, at_once, on_both

pytestmark = pytest.mark.usefixtures("quick_hashes")

BY = By("alice", "10.0.0.1", "r1")


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]


def test_an_entry_is_in_the_table_and_in_the_file(database: Database, tmp_path: Path) -> None:
    audit = Audit(database, tmp_path, clock=Hands())
    audit.write("state.read", BY, "cart", bytes=5)
    (row,) = audit.entries()
    said = (row.what, row.who, row.target, row.outcome, row.detail)
    assert said == ("state.read", "alice", "cart", "ok", {"bytes": 5})
    (line,) = lines(tmp_path)
    assert line == {
        **{"time": "2026-01-01T12:00:00+00:00", "who": "alice", "address": "10.0.0.1", "what": "state.read"},
        **{"target": "cart", "outcome": "ok", "request_id": "r1", "detail": {"bytes": 5}},
    }


def test_what_fails_is_not_recorded_as_done(database: Database, tmp_path: Path) -> None:
    audit = Audit(database, tmp_path)
    with pytest.raises(RefusedError), audit.recorded("agent.create", BY, "cart"):
        raise RefusedError("quota_exceeded", "too many")
    with pytest.raises(KeyError), audit.recorded("agent.create", BY, "cart"):
        raise KeyError
    assert [row.outcome for row in audit.entries()] == ["quota_exceeded"]
    assert [line["outcome"] for line in lines(tmp_path)] == ["quota_exceeded"]


def test_a_line_stays_a_line(database: Database, tmp_path: Path) -> None:
    Audit(database, tmp_path).write("login", By("a\nb\0\ud800" + "x" * 1000, "1"))
    (line,) = lines(tmp_path)
    assert line["who"] == "a?b??" + "x" * 192 + "..."


@on_both
def test_what_is_older_than_four_hundred_days_is_forgotten(database: Database, tmp_path: Path) -> None:
    clock = Hands()
    audit = Audit(database, tmp_path, clock=clock)
    for what in ("first", "second"):
        audit.write(what)
        clock.move(days=300)
    audit.prune()
    audit.write("third")
    assert [row.what for row in audit.entries()] == ["third", "second"]
    assert [line["what"] for line in lines(tmp_path)] == ["second", "third"]
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o777 == 0o600


def test_writers_at_once_lose_no_line(database: Database, tmp_path: Path) -> None:
    clock = Hands()
    audits = [Audit(database, tmp_path, clock=clock) for _ in range(4)]

    def write(number: int) -> None:
        for _ in range(10):
            audits[number].write("login")
            audits[number].prune()

    at_once(write, 4)
    assert len(lines(tmp_path)) == len(audits[0].entries()) == 40


@on_both
def test_the_first_answer_is_given_again(database: Database, owner: str) -> None:
    keys = Idempotency(database, clock=Hands())
    assert keys.begin(owner, "k", "digest") is None
    assert keys.begin(owner, "k", "digest") == (None, b"")  # under way
    keys.finish(owner, "k", 201, b'{"name": "cart"}')
    assert keys.begin(owner, "k", "digest") == (201, b'{"name": "cart"}')
    assert raised(RefusedError, keys.begin, owner, "k", "another").code == "idempotency_key_reused"
    bob = Accounts(database).add_user("bob", PASSWORD).id
    assert keys.begin(bob, "k", "another") is None  # it is an account's own
    keys.forget(owner, "k")
    assert keys.begin(owner, "k", "another") is None


def test_a_key_is_remembered_for_a_day(database: Database, owner: str) -> None:
    clock = Hands()
    keys = Idempotency(database, clock=clock)
    keys.begin(owner, "k", "digest")
    keys.finish(owner, "k", 201, b"")
    clock.move(hours=24)
    keys.tidy()
    assert keys.begin(owner, "k", "digest") == (201, b"")
    clock.move(seconds=1)
    assert keys.begin(owner, "k", "digest") is None


@on_both
def test_of_many_at_once_one_is_the_first(database: Database, owner: str) -> None:
    keys, answers = Idempotency(database), []
    at_once(lambda number: answers.append(keys.begin(owner, "k", "digest")), 5)
    assert answers.count(None) == 1
    assert answers.count((None, b"")) == 4  # type: ignore[arg-type]


@pytest.fixture
def agents(database: Database) -> AgentRows:
    return AgentRows(database, clock=Hands())


@on_both
def test_a_row_comes_back_as_it_was_made(database: Database, agents: AgentRows, owner: str) -> None:
    config = {"hidden": [64, 64], "learning_rate": 1e-3, "none": None, "text": "nul \0, half \ud800"}
    made = agents.add(owner, "cart", "dqn", "Größe", config)
    row = agents.by_name(owner, "cart")
    assert row is not None
    assert (row.id, row.model, row.description, row.config) == (made.id, "dqn", "Größe", config)
    assert (row.status, row.is_active, row.learning, row.epoch, row.bytes) == ("creating", True, True, 0, 0)
    assert (row.created_at, row.last_active, row.home) == (START, None, None)
    assert agents.set_ready(row.id)
    assert raised(ArgumentError, agents.add, owner, "b", "dqn", "half \ud800", {}).argument == "description"
    assert [one.status for one in agents.of(owner)] == ["ready"]


@on_both
def test_a_name_is_taken_once_for_each_owner(database: Database, agents: AgentRows, owner: str) -> None:
    agents.add(owner, "cart", "dqn", "", {})
    assert raised(RefusedError, agents.add, owner, "cart", "ppo", "", {}).code == "name_taken"
    bob = Accounts(database).add_user("bob", PASSWORD).id
    agents.add(bob, "cart", "dqn", "", {})
    assert agents.usage(owner)["agents"] == agents.usage(bob)["agents"] == 1
    assert [(user, row.name) for user, row in agents.all()] == [("alice", "cart"), ("bob", "cart")]


@on_both
def test_a_quota_of_agents_and_their_bytes(agents: AgentRows, owner: str) -> None:
    row = agents.add(owner, "a", "dqn", "", {}, most=1)
    agents.note({row.id: (START + dt.timedelta(hours=1), 100)})
    assert agents.usage(owner) == {"agents": 1, "bytes": 100}
    assert raised(RefusedError, agents.add, owner, "b", "dqn", "", {}, most=1).code == "quota_exceeded"
    agents.add(owner, "b", "dqn", "", {}, most=2)
    (first, _) = agents.of(owner)
    assert first.last_active == START + dt.timedelta(hours=1)
    agents.note({row.id: (None, 1 << 40)})  # more than four gigabytes
    assert agents.usage(owner) == {"agents": 2, "bytes": 1 << 40}


@on_both
def test_pages_go_by_name(agents: AgentRows, owner: str) -> None:
    for name in ("c", "a", "b", "d"):
        agents.add(owner, name, "dqn", "", {})
    assert [row.name for row in agents.of(owner, limit=2)] == ["a", "b"]
    assert [row.name for row in agents.of(owner, limit=2, after="b")] == ["c", "d"]
    assert [row.name for row in agents.of(owner, after="d")] == []
    for cursor in ("", "' OR 1=1 --", "a\0", "x" * 10_000, "😀"):
        raised(ArgumentError, agents.of, owner, after=cursor)
        assert agents.by_name(owner, cursor) is None


@on_both
def test_one_that_is_to_be_removed_is_gone_for_its_owner(database: Database, agents: AgentRows, owner: str) -> None:
    row = agents.add(owner, "cart", "dqn", "", {})
    agents.set_ready(row.id)
    assert agents.mark_removed(row.id)
    assert not agents.mark_removed(row.id)
    assert not agents.set_ready(row.id)
    raised(RefusedError, agents.describe, row.id, description="x")
    assert agents.by_name(owner, "cart") is None
    assert (list(agents.of(owner)), list(agents.all()), agents.usage(owner)["agents"]) == ([], [], 0)
    again = agents.add(owner, "cart", "dqn", "", {})
    assert [(one.id, one.status) for one in agents.all_unfinished()] in (
        [(row.id, "removing"), (again.id, "creating")],
        [(again.id, "creating"), (row.id, "removing")],
    )
    agents.remove(row.id)
    assert agents.by_id(row.id) is None
    assert [entry.what for entry in Audit(database).entries()].count("agent.remove") == 1
