"""Where the service is, who calls, and what nobody sees."""

import copy
import itertools
import logging
import pickle
import warnings
from typing import Any
from urllib.parse import parse_qs

import pytest

from axonrl.serving import AsyncRemoteAgent, AuthenticationError, RateLimited, RemoteAgent, ServiceError, catalogue
from axonrl.serving.client import address, credentials, errors
from axonrl.serving.client.credentials import Login, Secret
from axonrl.serving.client.errors import ArgumentError
from axonrl.tests.raising import raised

from .client_stub import AGENT, Reply, Stub, problem

PASSWORD = "correct horse battery"
TOKEN = "axp_0123456789secret"
BOTH = {"AXONRL_URL": "one.example.org", "AGENTS_BAR_URL": "two.example.org"}
VARIABLES = [
    "AXONRL_URL",
    "AGENTS_BAR_URL",
    "AGENTS_BAR_ACCESS_TOKEN",
    "AGENTS_BAR_USER",
    "AGENTS_BAR_USERNAME",
    "AGENTS_BAR_PASS",
    "AGENTS_BAR_PASSWORD",
]


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("given", "environ", "expected"),
    [
        ("https://agents.example.org/api/v1/", BOTH, "https://agents.example.org/api/v1"),
        ("agents.example.org:8000/rl", BOTH, "https://agents.example.org:8000/rl/api/v1"),
        ("[::1]:8000", {}, "http://[::1]:8000/api/v1"),
        (" https://localhost ", {}, "https://localhost/api/v1"),
        (None, {}, "http://127.0.0.1:8000/api/v1"),
        (None, BOTH, "https://one.example.org/api/v1"),
        (None, {**BOTH, "AXONRL_URL": ""}, "https://two.example.org/api/v1"),
    ],
)
def test_urls(given: str | None, environ: dict[str, str], expected: str) -> None:
    assert address.find(given, environ).url == expected


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"url": "ftp://a.org"}, "url"),
        ({"url": "http://a.org?b=1"}, "url"),
        ({"url": f"https://alice:{PASSWORD}@example.org"}, "url"),
        ({"url": "https://agents..example.org"}, "url"),
        ({"url": f"https://{'a' * 64}.example.org"}, "url"),
        ({"url": "https://example.org", "verify": "nosuch.pem"}, "verify"),
        ({"url": "https://example.org", "verify": __file__}, "verify"),  # which has no certificate
        ({"url": "https://example.org", "verify": None}, "verify"),
        ({"timeout": 1e10}, "timeout"),
        ({"timeout": 0}, "timeout"),
        ({"retry_deadline": -1}, "retry_deadline"),
        ({"pasword": PASSWORD}, "pasword"),  # names that look like credentials are no hyperparameters
        ({"apikey": PASSWORD}, "apikey"),
        ({"agent_name": ".."}, "agent_name"),  # which leads elsewhere
    ],
)
def test_what_is_refused_is_named_and_not_repeated(stub: Stub, given: dict[str, Any], argument: str) -> None:
    for kind in (RemoteAgent, AsyncRemoteAgent):
        error = raised(ArgumentError, kind, **{"agent_name": "a", "url": stub.url, "access_token": TOKEN, **given})
        assert error.argument == argument
        assert PASSWORD not in str(error) + repr(error)
    assert stub.asked == []


def test_plain_http_warns_once() -> None:
    with pytest.warns(RuntimeWarning):
        address.find("http://plain.example.org", {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        address.find("http://plain.example.org", {})
        address.find("http://127.0.0.2", {})


def kind(found: Secret | Login) -> tuple[str, ...]:
    return (found.reveal(),) if isinstance(found, Secret) else (found.username, found.password.reveal())


@pytest.mark.parametrize(
    ("arguments", "environ", "expected"),
    [
        ({"access_token": "t"}, {"AGENTS_BAR_ACCESS_TOKEN": "e"}, ("t",)),
        ({"username": "u"}, {"AGENTS_BAR_ACCESS_TOKEN": "e", "AGENTS_BAR_PASS": "q"}, ("u", "q")),
        ({"password": "p"}, {"AGENTS_BAR_USERNAME": "v"}, ("v", "p")),
        ({}, {"AGENTS_BAR_ACCESS_TOKEN": " e\n", "AGENTS_BAR_USER": "v", "AGENTS_BAR_PASS": "q"}, ("e",)),
        ({}, {"AGENTS_BAR_USERNAME": "v", "AGENTS_BAR_PASSWORD": "q"}, ("v", "q")),
    ],
)
def test_which_credentials_are_used(
    arguments: dict[str, str], environ: dict[str, str], expected: tuple[str, ...]
) -> None:
    assert kind(credentials.find(**arguments, environ=environ)) == expected


@pytest.mark.parametrize("arguments", [{"username": "u"}, {"access_token": "a\nb"}])
def test_without_credentials_nothing_is_sent(stub: Stub, arguments: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        RemoteAgent("a", url=stub.url, **arguments)  # type: ignore[arg-type]
    assert stub.asked == []


def account(stub: Stub) -> RemoteAgent:
    sizes: dict[str, Any] = {"state_size": 4, "action_size": 2, "agent_model": "dqn"}
    return RemoteAgent("a", url=stub.url, username="alice", password=PASSWORD, **sizes)


def logging_in(stub: Stub) -> None:
    """Its tokens are t1, t2, ..."""
    numbers = itertools.count(1)
    stub.default = lambda asked: Reply(
        200, {"access_token": f"t{next(numbers)}"} if asked.path.endswith("/login/access-token") else AGENT
    )


def test_objects_of_a_process_have_one_login_until_the_last_is_closed(stub: Stub) -> None:
    logging_in(stub)
    account(stub)  # is dropped
    first, second = account(stub), account(stub)
    other = RemoteAgent("a", url=stub.url, username="bob", password=PASSWORD)
    first.close()
    assert second.exists
    second.close()
    assert second.exists  # logs in anew
    assert [f"{asked.token} {path}" for asked, path in zip(stub.asked, stub.paths, strict=True)] == [
        "None POST /login/access-token",
        "None POST /login/access-token",
        "t1 GET /agents/a",
        "t1 POST /logout",
        "None POST /login/access-token",
        "t3 GET /agents/a",
    ]
    assert parse_qs(stub.asked[0].body.decode()) == {"username": ["alice"], "password": [PASSWORD]}
    assert stub.asked[0].headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert second.get_access_token("alice", PASSWORD) == "t4"  # the caller's
    other.close()
    second.close()
    assert [asked.token for asked in stub.asked[-2:]] == ["t2", "t3"]


def test_a_login_that_has_expired_is_renewed_for_all_and_one_that_was_revoked_is_not(stub: Stub) -> None:
    logging_in(stub)
    first, second = account(stub), account(stub)
    stub.ended["t1"] = "token_expired"
    first.step([1, 2, 3, 4], 0, 1.0, [1, 2, 3, 4], False)
    assert second.exists
    assert [asked.token for asked in stub.asked] == [None, "t1", None, "t2", "t1", "t2"]
    assert stub.asked[1].key == stub.asked[3].key is not None
    stub.ended["t2"] = "invalid_token"
    assert [raised(AuthenticationError, one.info).code for one in (first, first, second)] == ["invalid_token"] * 3
    assert account(stub).exists
    assert [path for path in stub.paths if "login" in path] == ["POST /login/access-token"] * 3


def test_a_refused_login_does_not_repeat_the_password(stub: Stub) -> None:
    stub.replies.append(problem(400, "invalid_credentials", f"Not {PASSWORD}"))
    caught = raised(AuthenticationError, RemoteAgent, "a", url=stub.url, username="alice", password=PASSWORD)
    assert isinstance(caught, ValueError)
    assert (caught.status, caught.code, caught.request_id) == (400, "invalid_credentials", "r1")
    assert PASSWORD not in str(caught) + repr(caught) + caught.detail
    assert len(stub.asked) == 1


def test_a_short_token_is_blanked_as_a_word_only(stub: Stub) -> None:
    stub.replies.append(problem(401, "invalid_token", "not t, but another token"))
    assert raised(AuthenticationError, RemoteAgent("a", url=stub.url, access_token="t").info).detail == (
        "not ***, but another token"
    )


def test_no_hyperparameter_looks_like_a_credential() -> None:
    rows = [row for model in catalogue.model_descriptions() for row in model["hyperparameters"]]
    names = {name for row in rows for name in (row["name"], *row["synonyms"])}
    assert {"lr", "actor_lr", "hidden_layers", "max_grad_norm_actor"} <= names
    sizes = ["state_size", "obs_size", "observation_space", "action_size", "discrete", "is_discrete", "action_min"]
    credentials.refuse_misspelt([*names, *sizes, "action_low", "agent_model", "number_updates", "kl_div"])


def test_no_secret_is_shown(stub: Stub, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.DEBUG)
    stub.replies.extend([Reply(200, {"access_token": TOKEN}), problem(401, "invalid_token", f"{TOKEN} is wrong")])
    agent = RemoteAgent("a", url=stub.url, username="alice", password=PASSWORD, lr=0.1)
    with pytest.raises(AuthenticationError) as caught:
        _ = agent.exists
    pickled = pickle.dumps(agent)
    shown = f"{agent!r} {agent} {vars(agent)} {caught.value!r} {caught.value} {vars(caught.value)} {caplog.text}"
    for secret in (TOKEN, PASSWORD):
        assert secret not in shown
        assert secret.encode() not in pickled
    with pytest.raises(ValueError, match=r"."):
        pickle.loads(pickled)  # no credentials in the environment
    monkeypatch.setenv("AGENTS_BAR_ACCESS_TOKEN", "axp_other")
    again = pickle.loads(pickled)
    stub.replies.append(Reply(200, AGENT))
    assert again.exists
    assert (again.agent_name, again.url, again.hparams["lr"]) == ("a", agent.url, 0.001)
    assert stub.asked[-1].headers["Authorization"] == "Bearer axp_other"
    assert copy.copy(again).environment != again.environment


def test_errors_are_pickled_whole_and_of_their_kinds() -> None:
    error = RateLimited("m", 429, "c", "d", "r", [{"where": "w", "what": "x"}], 2.0)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), vars(again), str(again)) == (RateLimited, vars(error), "m")
    assert issubclass(errors.NotFound, LookupError)
    assert issubclass(errors.InvalidRequest, ValueError)
    assert issubclass(errors.ServiceUnavailable, ConnectionError)
    assert not issubclass(errors.Conflict, ValueError)
    assert all(
        issubclass(kind, ServiceError)
        for kind in (errors.Conflict, RateLimited, AuthenticationError, errors.InvalidRequest, errors.NotFound)
    )
