import threading
import time
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from axonrl.errors import ArgumentError
from axonrl.serving import limits
from axonrl.serving.accounts import Accounts, AgentRows, Audit, By, Database, RefusedError, passwords
from axonrl.serving.limits import LoginLimits
from axonrl.tests.raising import raised

from .client_stub import Clock
from .for_accounts import PASSWORD, Hands, on_both, with_alice

WRONG = "wrong horse battery"


def test_an_administrator_has_all_scopes(accounts: Accounts) -> None:
    accounts.add_user("root", PASSWORD, admin=True)
    accounts.login("root", PASSWORD, "")
    (grant,) = accounts.active_tokens().values()
    assert grant.scopes == {"read", "act", "learn", "manage", "metrics", "admin"}


def test_an_unknown_name_is_compared_too(accounts: Accounts, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    verify = PasswordHasher.verify

    def counted(hasher: PasswordHasher, known: str, given: bytes) -> bool:
        compared.append(known)
        return verify(hasher, known, given)

    monkeypatch.setattr(PasswordHasher, "verify", counted)
    for name in ("alice", "nobody"):
        raised(RefusedError, accounts.login, name, WRONG, "")
    real, dummy = compared
    assert real != dummy
    assert real.split("$")[:4] == dummy.split("$")[:4]  # the same algorithm and parameters


@pytest.mark.usefixtures("quick_hashes")
def test_older_hashes_are_renewed_at_the_next_login(database: Database) -> None:
    with_alice(database)
    passwords.PARAMETERS["time_cost"] = 2  # the fixture takes it back
    accounts = Accounts(database)
    before = accounts.user("alice").password_hash
    accounts.login("alice", PASSWORD, "")
    after = accounts.user("alice").password_hash
    assert before.startswith("$argon2id$v=19$m=8,t=1,p=1$")
    assert after.startswith("$argon2id$v=19$m=8,t=2,p=1$")
    assert accounts.login("alice", PASSWORD, "")


@on_both
def test_a_removed_user_leaves_agents_to_remove_and_nothing_else(database: Database, accounts: Accounts) -> None:
    accounts.login("alice", PASSWORD, "")
    agents = AgentRows(database)
    agent = agents.add(accounts.user("alice").id, "cart", "dqn", "", {})
    assert accounts.remove_user("alice") == [agent.id]
    for name in ("alice", "a\0"):
        assert raised(RefusedError, accounts.login, name, PASSWORD, "").code == "invalid_credentials"
    assert accounts.users() == []
    assert accounts.tokens() == []
    (left,) = agents.all_unfinished()
    assert (left.id, left.owner, left.status) == (agent.id, None, "removing")
    accounts.add_user("alice", PASSWORD)
    assert agents.of(accounts.user("alice").id) == []


@pytest.mark.parametrize(("key", "value"), [("agent", 1), ("bytes", (1 << 53) + 1)])
def test_a_wrong_quota_changes_nothing(accounts: Accounts, key: str, value: int) -> None:
    raised(ArgumentError, accounts.set_quota, "alice", {"agents": 3, key: value})
    assert accounts.quotas("alice")["agents"] == 100


def test_six_wrong_logins_shut_out_one_address_and_not_another(accounts: Accounts) -> None:
    for code, password in [*[("invalid_credentials", WRONG)] * 5, ("rate_limited", WRONG), ("rate_limited", PASSWORD)]:
        error = raised(RefusedError, accounts.login, "alice", password, "10.0.0.1")
        assert error.code == code
    assert 14 * 60 < (error.retry_after or 0) <= 15 * 60
    assert accounts.login("alice", PASSWORD, "10.0.0.2")
    accounts.change_password("alice", PASSWORD, "another horse battery", by=By("alice", "10.0.0.1"))  # has a token


@pytest.mark.usefixtures("quick_hashes")
def test_every_login_and_refusal_is_in_the_audit(database: Database, tmp_path: Path) -> None:
    accounts = with_alice(database, Hands(), tmp_path)
    accounts.login("alice", PASSWORD, "10.0.0.1", request_id="r1")
    for name in ("alice", "nobody"):
        raised(RefusedError, accounts.login, name, WRONG, "10.0.0.1", request_id="r2")
    seen = [(row.what, row.who, row.address, row.outcome, row.request_id) for row in Audit(database).entries()]
    assert seen == [
        ("login", "unknown", "10.0.0.1", "invalid_credentials", "r2"),
        ("login", "alice", "10.0.0.1", "invalid_credentials", "r2"),
        ("login", "alice", "10.0.0.1", "ok", "r1"),
        ("user.add", "service", "", "ok", ""),
    ]
    assert len((tmp_path / "audit.jsonl").read_text().splitlines()) == 4


@pytest.mark.usefixtures("quick_hashes")
def test_logins_beyond_sixty_a_minute_are_in_the_audit_with_their_number(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts, now = with_alice(database), [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    for number in range(60):
        accounts.login("alice", PASSWORD, f"10.0.0.{number % 3}")
    for seconds in (0.0, 0.5, 1.0):
        now[0] = 100.0 + seconds
        assert raised(RefusedError, accounts.login, "alice", PASSWORD, "10.0.0.1").code == "rate_limited"
    newest = Audit(database).entries(3)
    assert [(row.what, row.who, row.target, row.outcome, row.detail) for row in newest] == [
        ("login", "alice", "alice", "rate_limited", {"refused": 2}),
        ("login", "alice", "alice", "rate_limited", {"refused": 1}),
        ("login", "alice", "alice", "ok", {}),
    ]


def test_the_parameters_are_owasps() -> None:
    assert passwords.PARAMETERS == {"memory_cost": 19 * 1024, "time_cost": 2, "parallelism": 1}
    assert passwords.Passwords().hash("correct horse battery").startswith("$argon2id$v=19$m=19456,t=2,p=1$")


@pytest.mark.parametrize(
    "password", ["elevenchars", "x" * 1025, "PassWord1234", "I am Alice, and nobody else", "half a pair \ud800"]
)
def test_a_password_is_refused_without_being_told(password: str) -> None:
    error = raised(ArgumentError, passwords.accept, "alice", password)
    assert error.argument == "password"
    assert error.value is None
    assert str(password) not in str(error)


def test_a_password_is_taken_as_it_is() -> None:
    password = "  パスワードは長くて\0  "
    assert passwords.accept("alice", password) == password


@pytest.mark.usefixtures("quick_hashes")
def test_only_the_very_same_password_matches() -> None:
    known = passwords.Passwords()
    hashed = known.hash("  spaces at the ends ")
    assert known.matches(hashed, "  spaces at the ends ")
    assert not known.matches(hashed, "spaces at the ends")
    assert not known.matches(hashed, "half a pair \ud800")
    assert not known.matches("damaged", "  spaces at the ends ")
    assert not known.matches(None, "  spaces at the ends ")


@pytest.mark.usefixtures("quick_hashes")
def test_at_most_two_are_hashed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    known = passwords.Passwords()
    monkeypatch.setattr(passwords, "_PATIENCE", 0.05)
    inside, go = threading.Semaphore(0), threading.Event()

    class Slow:
        def hash(self, password: str) -> str:
            inside.release()
            assert go.wait(60)
            return password

    monkeypatch.setattr(known, "_hasher", Slow())
    threads = [threading.Thread(target=known.hash, args=("x",)) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        assert all(inside.acquire(timeout=240) for _ in threads)
        assert raised(RefusedError, known.hash, "a third one").code == "unavailable"
    finally:
        go.set()
        for thread in threads:
            thread.join()
    assert known.hash("a third one") == "a third one"


def wait(limits: LoginLimits, name: str, address: str, *, holder: bool = False) -> int | None:
    try:
        limits.begin(name, address, holder=holder)
    except RefusedError as error:
        return error.retry_after if error.code == "rate_limited" else None
    return 0


def test_five_failures_in_fifteen_minutes_for_a_name_and_an_address() -> None:
    clock = Clock()
    limits = LoginLimits(clock)
    for _ in range(5):
        assert wait(limits, "alice", "10.0.0.1") == 0
        clock.now += 100
    assert wait(limits, "alice", "10.0.0.1") == 400  # the first was 500 seconds ago
    assert wait(limits, "alice", "10.0.0.2") == 0
    assert wait(limits, "bob", "10.0.0.1") == 0
    clock.now += 400
    assert wait(limits, "alice", "10.0.0.1") == 0
    assert wait(limits, "alice", "10.0.0.1") == 100


def test_success_is_no_failure_but_sixty_a_minute_are_too_many() -> None:
    limits = LoginLimits(Clock())
    for number in range(60):
        limits.succeeded(limits.begin("alice", f"10.0.0.{number % 3}"))
    error = raised(RefusedError, limits.succeeded, limits.begin("alice", "10.0.0.1"))
    assert (error.code, error.retry_after) == ("rate_limited", 60)
    assert "60 within a minute" in str(error)


def test_whom_wrong_passwords_from_an_address_shut_out_there() -> None:
    clock = Clock()
    limits, there = LoginLimits(clock), "10.0.0.1"
    limits.succeeded(limits.begin("alice", there))
    assert [wait(limits, f"user{number}", there) for number in range(20)] == [0] * 20
    assert [wait(limits, name, there) for name in ("bob", "alice")] == [60, 0]  # she has logged in from there
    assert [wait(limits, "alice", there) for _ in range(5)] == [0] * 4 + [900]  # for her
    assert [wait(limits, name, there, holder=True) for name in ("alice", "bob")] == [0, 0]
    assert [wait(limits, "alice", there, holder=True) for _ in range(5)] == [0] * 4 + [900]
    assert [wait(limits, name, "10.0.0.2") for name in ("alice", "bob")] == [0, 0]
    clock.now += 60
    assert wait(limits, "bob", there) == 0


@pytest.mark.parametrize(
    ("address", "counted"), [("2001:db8::ffff:1%eth0", "2001:db8::/64"), ("::ffff:10.0.0.1", "10.0.0.1")]
)
def test_what_one_address_is(address: str, counted: str) -> None:
    assert limits.network(address) == counted


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_MOST_KEYS", 100)
    clock = Clock()
    counted = LoginLimits(clock)
    for number in range(1000):
        clock.now += 0.1
        counted.begin("alice", f"10.0.{number // 250}.{number % 250}")
    assert len(counted._times) <= 102
    assert ("name", "alice", "10.0.3.249") in counted._times
