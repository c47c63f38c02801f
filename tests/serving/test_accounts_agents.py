import datetime as dt

import pytest

from axonrl.errors import ArgumentError
from axonrl.serving.accounts import Accounts, AgentRows, Audit, Database, RefusedError
from axonrl.tests.raising import raised

from .for_accounts import PASSWORD, START, Hands, on_both

pytestmark = pytest.mark.usefixtures("quick_hashes")


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
    assert agents.set_status(row.id, "ready")
    assert [one.status for one in agents.of(owner)] == ["ready"]


@on_both
def test_a_name_is_taken_once_for_each_owner(database: Database, agents: AgentRows, owner: str) -> None:
    agents.add(owner, "cart", "dqn", "", {})
    assert raised(RefusedError, agents.add, owner, "cart", "ppo", "", {}).code == "name_taken"
    bob = Accounts(database).add_user("bob", PASSWORD).id
    agents.add(bob, "cart", "dqn", "", {})
    assert agents.count(owner) == agents.count(bob) == 1
    assert [(user, row.name) for user, row in agents.all()] == [("alice", "cart"), ("bob", "cart")]


def test_a_text_that_cannot_be_stored_is_refused(agents: AgentRows, owner: str) -> None:
    assert raised(ArgumentError, agents.add, owner, "cart", "dqn", "half \ud800", {}).argument == "description"
    assert agents.count(owner) == 0


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
    agents.set_status(row.id, "ready")
    assert agents.mark_removed(row.id)
    assert not agents.mark_removed(row.id)
    assert not agents.set_status(row.id, "ready")
    raised(RefusedError, agents.describe, row.id, description="x")
    assert agents.by_name(owner, "cart") is None
    assert (list(agents.of(owner)), list(agents.all()), agents.count(owner)) == ([], [], 0)
    again = agents.add(owner, "cart", "dqn", "", {})
    assert [(one.id, one.status) for one in agents.all_unfinished()] in (
        [(row.id, "removing"), (again.id, "creating")],
        [(again.id, "creating"), (row.id, "removing")],
    )
    agents.remove(row.id)
    assert agents.by_id(row.id) is None
    assert [entry.what for entry in Audit(database).entries()].count("agent.remove") == 1


def test_whoever_loads_an_agent_has_a_new_epoch(agents: AgentRows, owner: str) -> None:
    row = agents.add(owner, "cart", "dqn", "", {})
    assert [agents.take(row.id, home, 0.0).epoch for home in ("here", "there")] == [1, 2]
    loaded = agents.by_id(row.id)
    assert loaded is not None
    assert (loaded.home, loaded.epoch) == ("there", 2)
    raised(RefusedError, agents.take, "nosuch", "here", 0.0)
