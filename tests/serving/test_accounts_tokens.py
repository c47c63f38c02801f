import datetime as dt
from typing import Any

import pytest

from axonrl.errors import ArgumentError
from axonrl.serving.accounts import Accounts, AgentRows, Database, Lifetimes, RefusedError, tokens
from axonrl.serving.accounts.grants import LOGIN, WEB
from axonrl.serving.accounts.tokens import to_json
from axonrl.tests.raising import raised

from .for_accounts import PASSWORD, START, Hands, on_both, with_alice

pytestmark = pytest.mark.usefixtures("quick_hashes")


def test_a_token_has_a_checksum_and_differs_from_others() -> None:
    text = "axp_" + "0" * 40  # its CRC-32 is 3,888,482,888 = 4*62^5 + 15*62^4 + 9*62^3 + 42*62^2 + 1*62 + 58
    assert tokens.checksum(text) == "4F9g1w"
    assert tokens.is_token(text + "4F9g1w")
    assert not tokens.is_token(text[:-1] + "1" + "4F9g1w")
    assert not tokens.is_token(text + "4F9g1w\n")
    made = {tokens.make("made") for _ in range(100)}
    assert len(made) == 100
    assert all(map(tokens.is_token, made))


@on_both
def test_a_made_token_is_shown_once_and_listed(accounts: Accounts) -> None:
    text, row = accounts.create_token("alice", "game", ["learn", "act"], ["cart"], 3600)
    (grant,) = accounts.active_tokens().values()
    assert (grant.kind, set(grant.scopes), set(grant.agents or ())) == ("made", {"act", "learn"}, {"cart"})
    assert (grant.expires_at, grant.idle_until) == (START + dt.timedelta(hours=1), None)
    listed = [to_json(one) for one in accounts.tokens("alice")]
    assert listed == [
        {
            **{"id": row.id, "user": "alice", "name": "game", "scopes": ["act", "learn"], "agents": ["cart"]},
            **{"last_four": text[-4:], "created_at": "2026-01-01T12:00:00+00:00"},
            **{"expires_at": "2026-01-01T13:00:00+00:00", "last_used": None, "revoked_at": None},
        }
    ]


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"name": "two\nlines"}, "name"),
        ({"scopes": ["metrics"]}, "scopes"),
        ({"agents": ["../x"]}, "agents"),
        ({"agents": [f"a{number}" for number in range(1001)]}, "agents"),
        ({"expires_in": 365 * 86_400 + 1}, "expires_in"),
    ],
)
def test_a_wrong_argument_makes_no_token(accounts: Accounts, given: dict[str, Any], argument: str) -> None:
    assert raised(ArgumentError, accounts.create_token, "alice", **{"name": "game", **given}).argument == argument
    assert accounts.tokens() == []


def test_only_an_administrator_gives_the_metrics_away(accounts: Accounts) -> None:
    _, row = accounts.create_token("alice", "prometheus", ["metrics"], by_administrator=True)
    assert row.scopes == ["metrics"]
    raised(ArgumentError, accounts.create_token, "alice", "game", ["admin"], by_administrator=True)


def test_of_expired_tokens_only_the_newest_are_read(
    accounts: Accounts, clock: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "_MOST_EXPIRED", 2)
    made = [accounts.create_token("alice", "game", expires_in=seconds)[0] for seconds in (30, 10, 20)]
    clock.move(seconds=60)
    assert accounts.expired_tokens() == {tokens.digest(made[0]): "made", tokens.digest(made[2]): "made"}


@on_both
def test_a_token_is_for_a_thousand_agents_at_most(database: Database) -> None:
    accounts, rows = with_alice(database), AgentRows(database)
    _, row = accounts.create_token("alice", "game", agents=[f"a{number}" for number in range(1000)])
    agents = row.agents or []
    assert len(agents) == 1000
    owner = accounts.user("alice").id
    for name in ("a7", "b", "a999"):
        rows.add(owner, name, "dqn", "", {})
    assert [one.name for one in rows.of(owner, only=agents)] == ["a7", "a999"]
    assert [one.name for one in rows.of(owner, limit=1, after="a7", only=agents)] == ["a999"]


def test_made_tokens_end_after_ninety_days(database: Database, accounts: Accounts, clock: Hands) -> None:
    accounts.create_token("alice", "game")
    clock.move(days=89, hours=23)
    assert len(accounts.active_tokens()) == 1
    assert accounts.expired_tokens() == {}
    clock.move(hours=1)
    assert accounts.active_tokens() == {}
    assert list(accounts.expired_tokens().values()) == ["made"]
    other = Accounts(database, lifetimes=Lifetimes(default_days=1), clock=clock)
    assert other.create_token("alice", "game")[1].expires_at == clock() + dt.timedelta(days=1)


@on_both
def test_a_login_ends_when_idle_or_after_thirty_days(accounts: Accounts, clock: Hands) -> None:
    digest = tokens.digest(accounts.login("alice", PASSWORD, ""))
    clock.move(hours=11)
    assert set(accounts.active_tokens()) == {digest}
    accounts.used({digest: clock()})
    clock.move(hours=11)
    assert set(accounts.active_tokens()) == {digest}
    (row,) = accounts.tokens()
    assert row.last_used == dt.date(2026, 1, 1)
    clock.move(hours=1)
    assert accounts.active_tokens() == {}  # 12 hours after its last use
    digest = tokens.digest(accounts.login("alice", PASSWORD, ""))
    for _ in range(61):
        clock.move(hours=11.5)
        accounts.used({digest: clock()})
    assert set(accounts.active_tokens()) == {digest}  # 701.5 hours
    clock.move(hours=11.5)
    accounts.used({digest: clock()})
    clock.move(hours=8)
    assert accounts.active_tokens() == {}  # 721 hours


def test_a_login_of_the_web_page_reads_only(accounts: Accounts, clock: Hands) -> None:
    cookie = accounts.web_login("alice", PASSWORD, "")
    assert cookie.startswith("axw_")
    (grant,) = accounts.active_tokens().values()
    assert (grant.kind, set(grant.scopes)) == ("web", {"read"})
    clock.move(minutes=29)
    accounts.used({tokens.digest(cookie): clock()})
    clock.move(minutes=29)
    assert len(accounts.active_tokens()) == 1
    clock.move(minutes=30)
    assert accounts.expired_tokens() == {tokens.digest(cookie): "web"}
    accounts.revoke_token(grant.token_id)
    assert (accounts.active_tokens(), accounts.expired_tokens()) == ({}, {})


@on_both
def test_a_token_is_revoked_by_its_owner(accounts: Accounts) -> None:
    accounts.add_user("bob", PASSWORD)
    _, row = accounts.create_token("alice", "game")
    for token_id, user in ((row.id, "bob"), ("nosuch", "alice"), ("' OR 1=1", None), ("a\0", None)):
        assert raised(RefusedError, accounts.revoke_token, token_id, user=user).code == "not_found"
    assert len(accounts.active_tokens()) == 1
    accounts.revoke_token(row.id, user="alice")
    accounts.revoke_token(row.id, user="alice")
    assert accounts.active_tokens() == {}
    assert [one.revoked_at for one in accounts.tokens("alice")] == [START]
    assert accounts.tokens("bob") == []


def test_an_account_has_a_hundred_tokens(accounts: Accounts) -> None:
    made = [accounts.create_token("alice", f"{number}")[1] for number in range(100)]
    assert raised(RefusedError, accounts.create_token, "alice", "one more").code == "quota_exceeded"
    accounts.revoke_token(made[0].id)
    accounts.create_token("alice", "one more")


@on_both
def test_of_ended_tokens_few_are_kept_and_of_these_the_expired_ones_first(
    accounts: Accounts, clock: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "_MOST_ENDED", 2)
    for seconds in (10, 0, 20, 0, 0):  # 0: it is revoked
        _, row = accounts.create_token("alice", f"{seconds}", expires_in=seconds or 60)
        if not seconds:
            accounts.revoke_token(row.id)
        clock.move(seconds=1)
    assert sorted(row.name for row in accounts.tokens("alice")) == ["0", "0", "0", "10", "20"]
    clock.move(seconds=30)
    accounts.login("alice", PASSWORD, "")  # of another kind
    accounts.create_token("alice", "new")
    assert sorted(row.name for row in accounts.tokens("alice")) == ["10", "20", "login", "new"]
    assert set(accounts.expired_tokens().values()) == {"made"}


def test_a_login_too_many_is_refused_and_ends_no_other(
    accounts: Accounts, clock: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in (LOGIN, WEB):
        monkeypatch.setitem(tokens._MOST, kind, (2, tokens._MOST[kind][1]))
    assert len({accounts.web_login("alice", PASSWORD, "") for _ in range(2)}) == 2
    assert raised(RefusedError, accounts.web_login, "alice", PASSWORD, "").code == "quota_exceeded"
    clock.move(minutes=30)  # these are idle
    assert accounts.web_login("alice", PASSWORD, "")
    clock.move(minutes=30)
    first, second = (tokens.digest(accounts.login("alice", PASSWORD, "")) for _ in range(2))
    refused = raised(RefusedError, accounts.login, "alice", PASSWORD, "")
    assert refused.code == "quota_exceeded"
    assert "POST /logout" in str(refused)
    assert set(accounts.active_tokens()) == {first, second}
    clock.move(hours=7)
    accounts.used({second: clock()})
    clock.move(hours=7)  # the first is idle
    third = tokens.digest(accounts.login("alice", PASSWORD, ""))
    assert set(accounts.active_tokens()) == {second, third}
