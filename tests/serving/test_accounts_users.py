import sqlite3
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from axonrl.errors import ArgumentError
from axonrl.serving.accounts import Accounts, AgentRows, Audit, By, Database, RefusedError, passwords, tokens
from axonrl.tests.raising import raised

from .for_accounts import PASSWORD, Hands, on_both, with_alice

pytestmark = pytest.mark.usefixtures("quick_hashes")

WRONG = "wrong horse battery"


def refused(error: pytest.ExceptionInfo[RefusedError]) -> str:
    return error.value.code


def test_a_login_gives_a_token_that_is_active(accounts: Accounts) -> None:
    text = accounts.login("alice", PASSWORD, "10.0.0.1")
    assert text.startswith("axl_")
    assert len(text) == 4 + 40 + 6
    (grant,) = accounts.active_tokens().values()
    assert grant == accounts.active_tokens()[tokens.digest(text)]
    assert (grant.user, grant.role, grant.kind, grant.agents) == ("alice", "user", "login", None)
    assert grant.scopes == {"read", "act", "learn", "manage"}
    assert (grant.quotas["agents"], grant.quotas["bytes"]) == (100, 2 * 1024**3)


def test_an_administrator_has_all_scopes(accounts: Accounts) -> None:
    accounts.add_user("root", PASSWORD, admin=True)
    accounts.login("root", PASSWORD, "")
    (grant,) = accounts.active_tokens().values()
    assert grant.scopes == {"read", "act", "learn", "manage", "metrics", "admin"}
    accounts.set_role("root", admin=False)
    (grant,) = accounts.active_tokens().values()
    assert "admin" not in grant.scopes


@on_both
def test_a_refused_login_says_the_same_whatever_was_wrong(accounts: Accounts) -> None:
    accounts.add_user("bob", PASSWORD)
    accounts.disable_user("bob")
    said = set()
    for name, password in (
        ("alice", WRONG),
        ("nobody", PASSWORD),
        ("bob", PASSWORD),
        ("' OR 1=1 --", PASSWORD),
        ("a\0", PASSWORD),
        ("alice", "x" * 2000),
        ("alice", "\ud800"),
    ):
        error = raised(RefusedError, accounts.login, name, password, "")
        said.add((error.code, str(error)))
    ((code, _),) = said
    assert code == "invalid_credentials"
    assert accounts.active_tokens() == {}


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


def test_a_new_password_ends_logins_and_leaves_made_tokens(accounts: Accounts) -> None:
    accounts.login("alice", PASSWORD, "")
    accounts.web_login("alice", PASSWORD, "")
    made, _ = accounts.create_token("alice", "game")
    accounts.set_password("alice", "another horse battery")
    assert set(accounts.active_tokens()) == {tokens.digest(made)}
    raised(RefusedError, accounts.login, "alice", PASSWORD, "")
    assert accounts.login("alice", "another horse battery", "")


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
    assert accounts.users() == []
    assert accounts.tokens() == []
    (left,) = agents.all_unfinished()
    assert (left.id, left.owner, left.status) == (agent.id, None, "removing")
    accounts.add_user("alice", PASSWORD)
    assert agents.of(accounts.user("alice").id) == []


def test_quotas_are_the_services_unless_set(database: Database) -> None:
    with_alice(database)
    accounts = Accounts(database, quotas={"agents": 7})
    assert accounts.set_quota("alice", {"bytes": 0, "agents": 3})["agents"] == 3
    assert (accounts.quotas("alice")["agents"], accounts.quotas("alice")["bytes"]) == (3, 0)
    accounts.set_quota("alice", {"agents": None})
    assert (accounts.quotas("alice")["agents"], accounts.quotas("alice")["bytes"]) == (7, 0)


@pytest.mark.parametrize(("key", "value"), [("agent", 1), ("bytes", (1 << 53) + 1)])
def test_a_wrong_quota_changes_nothing(accounts: Accounts, key: str, value: int) -> None:
    raised(ArgumentError, accounts.set_quota, "alice", {"agents": 3, key: value})
    assert accounts.quotas("alice")["agents"] == 100


def test_six_wrong_logins_shut_out_one_address_and_not_another(accounts: Accounts) -> None:
    for _ in range(5):
        with pytest.raises(RefusedError) as error:
            accounts.login("alice", WRONG, "10.0.0.1")
        assert refused(error) == "invalid_credentials"
    for password in (WRONG, PASSWORD):
        with pytest.raises(RefusedError) as error:
            accounts.login("alice", password, "10.0.0.1")
        assert refused(error) == "rate_limited"
        assert error.value.retry_after is not None
        assert 14 * 60 < error.value.retry_after <= 15 * 60
    assert accounts.login("alice", PASSWORD, "10.0.0.2")
    accounts.change_password("alice", PASSWORD, "another horse battery", by=By("alice", "10.0.0.1"))  # has a token


def test_no_file_has_a_secret(database: Database, tmp_path: Path) -> None:
    accounts = with_alice(database, folder=tmp_path)
    secrets = [PASSWORD, accounts.login("alice", PASSWORD, ""), accounts.web_login("alice", PASSWORD, "")]
    secrets += [accounts.create_token("alice", "game")[0], "hunter2hunter2"]
    with pytest.raises(RefusedError):
        accounts.login("hunter2hunter2", "x", "")  # the password in the place of the name
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"alice" in written
    assert [secret for secret in secrets if secret.encode() in written] == []
    with sqlite3.connect(tmp_path / "service.db") as raw:
        (known,) = raw.execute("SELECT password_hash FROM users").fetchone()
        hashes = [one for (one,) in raw.execute("SELECT sha256 FROM tokens")]
    raw.close()
    assert known.startswith("$argon2id$")
    assert {len(one) for one in hashes} == {64}


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
