import json
from pathlib import Path

import pytest

from axonrl.errors import ArgumentError
from axonrl.serving.accounts import Accounts, Audit, By, Database, Idempotency, RefusedError
from axonrl.tests.raising import raised

from .for_accounts import PASSWORD, Hands, at_once, on_both

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


@pytest.mark.parametrize("key", ["x" * 256, "é\n"])
def test_a_key_is_printable_ascii(database: Database, owner: str, key: str) -> None:
    with pytest.raises(ArgumentError):
        Idempotency(database).begin(owner, key, "digest")


@on_both
def test_of_many_at_once_one_is_the_first(database: Database, owner: str) -> None:
    keys, answers = Idempotency(database), []
    at_once(lambda number: answers.append(keys.begin(owner, "k", "digest")), 5)
    assert answers.count(None) == 1
    assert answers.count((None, b"")) == 4  # type: ignore[arg-type]
