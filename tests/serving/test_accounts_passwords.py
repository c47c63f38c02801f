import threading

import pytest

from axonrl.errors import ArgumentError
from axonrl.serving.accounts import RefusedError, limits, passwords
from axonrl.serving.accounts.limits import LoginLimits
from axonrl.tests.raising import raised

from .client_stub import Clock


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


def test_twenty_failures_a_minute_for_an_address() -> None:
    clock = Clock()
    limits = LoginLimits(clock)
    assert [wait(limits, f"user{number}", "10.0.0.1") for number in range(21)] == [*[0] * 20, 60]
    clock.now += 60
    assert wait(limits, "user20", "10.0.0.1") == 0


def test_success_is_no_failure_but_sixty_a_minute_are_too_many() -> None:
    limits = LoginLimits(Clock())
    for number in range(60):
        limits.succeeded(limits.begin("alice", f"10.0.0.{number % 3}"))
    error = raised(RefusedError, limits.succeeded, limits.begin("alice", "10.0.0.1"))
    assert (error.code, error.retry_after) == ("rate_limited", 60)
    assert "60 within a minute" in str(error)


def test_whom_wrong_passwords_from_an_address_shut_out_there() -> None:
    limits, there = LoginLimits(Clock()), "10.0.0.1"
    limits.succeeded(limits.begin("alice", there))
    assert [wait(limits, f"user{number}", there) for number in range(20)] == [0] * 20
    assert [wait(limits, name, there) for name in ("bob", "alice")] == [60, 0]  # she has logged in from there
    assert [wait(limits, "alice", there) for _ in range(5)] == [0] * 4 + [900]  # for her
    assert [wait(limits, name, there, holder=True) for name in ("alice", "bob")] == [0, 0]
    assert [wait(limits, "alice", there, holder=True) for _ in range(5)] == [0] * 4 + [900]
    assert [wait(limits, name, "10.0.0.2") for name in ("alice", "bob")] == [0, 0]


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
