"""Bodies of requests: types, sizes, JSON that is none, and JSON that is nested too deep."""

import asyncio
from collections.abc import Iterator

import pytest
from starlette.types import Message

from axonrl.serving.gateway.incoming import Head, body_of
from axonrl.serving.gateway.problems import ProblemError
from axonrl.tests.raising import raised

from .gateway_fakes import Service, with_cart

API = "/api/v1"
ACT = f"{API}/agents/cart/act"


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with with_cart({"limits.body_bytes": "1000", "limits.batch_bytes": "2000"}) as service:
        yield service


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "APPLICATION/JSON; charset=utf-8", "Content-Encoding": "identity"}, 200),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Encoding": "gzip"}, 415),
    ],
)
def test_types_of_bodies(service: Service, headers: dict[str, str], status: int) -> None:
    assert service("POST", ACT, [0], headers=headers).status == status
    patched = service("PATCH", f"{API}/agents/cart", {"description": "d"}, headers=headers)
    assert patched.status == status
    if status != 200:
        assert patched.code == "unsupported_media_type"


def test_bodies_have_limits(service: Service) -> None:
    fits = b'"' + b"x" * 1998 + b'"'
    assert service("POST", ACT, fits).status == 200
    refused = service("POST", ACT, fits + b" ")
    assert (refused.status, refused.code, refused.headers["connection"]) == (413, "body_too_large", "close")
    assert service("POST", f"{API}/agents/cart/step", fits).code == "body_too_large"
    assert service("POST", f"{API}/agents", b" " * 1001).code == "body_too_large"
    assert service("POST", f"{API}/snapshots/cart", b"x" * 5000).status == 201  # the worker reads it
    assert service("POST", ACT, headers={"X": "y" * 16384}).code == "body_too_large"
    assert service("GET", f"{API}/agents/{'x' * 4100}").code == "invalid_value"


@pytest.mark.parametrize("parts", [[11], [6, 5]])
def test_a_body_that_does_not_say_how_long_it_is_has_its_limit_too(parts: list[int]) -> None:
    messages: list[Message] = [{"type": "http.request", "body": b"x" * one, "more_body": True} for one in parts]
    messages[-1]["more_body"] = False

    async def receive() -> Message:
        return messages.pop(0)

    assert raised(ProblemError, asyncio.run, body_of(receive, Head([]), 10)).code == "body_too_large"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"description": "\\ud800"}', "invalid_json"),
        (b"[" * 9 + b"]" * 9, "invalid_value"),
        (b'{"is_active": 1}', "invalid_value"),
        (b'{"description": "\\u0000"}', "invalid_value"),
    ],
)
def test_bodies_are_what_they_should_be(service: Service, body: bytes, code: str) -> None:
    refused = service("PATCH", f"{API}/agents/cart", body)
    assert refused.code == code
    assert all(one["where"] and one["what"] for one in refused.json["errors"])


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b'{"description":\n  oops}', "is not valid JSON: expected value at line 2 column 3"),
        (b'{"description": NaN}', "is not valid JSON: expected value at line 1 column 17"),
    ],
)
def test_broken_json_is_refused_with_its_place(service: Service, body: bytes, what: str) -> None:
    for method, path in (("PATCH", "/agents/cart"), ("POST", "/agents"), ("POST", "/tokens"), ("PATCH", "/users/bob")):
        refused = service(method, API + path, body, user="root" if "users" in path else "alice")
        assert (refused.status, refused.code) == (400, "invalid_json")
        assert refused.json["errors"] == [{"where": "body", "what": what}]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/agents", b'{"config":' * 10_000 + b"1" + b"}" * 10_000),
        ("/snapshots/cart", b'{"obs_size":' * 10_000 + b"1" + b"}" * 10_000),  # which the gateway reads in a state
    ],
)
def test_a_body_nested_ten_thousand_deep_is_read_no_further_than_it_may_be_deep(path: str, body: bytes) -> None:
    with with_cart({}) as service:
        refused = service("POST", API + path, body)
        assert (refused.status, refused.code) == (400, "invalid_json")
        what, _, column = refused.json["errors"][0]["what"].rpartition(" ")
        assert what.endswith("recursion limit exceeded at line 1 column")
        assert int(column) < len(body) / 20
        assert "put_state" not in service.pool.done()
