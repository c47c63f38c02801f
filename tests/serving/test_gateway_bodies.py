"""Bodies of requests: types, sizes, JSON that is none or nested too deep, values, and what is held of them at once."""

import asyncio
import errno
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from axonrl.serving.gateway import bodies
from axonrl.serving.gateway.http_messages import Message
from axonrl.serving.gateway.routes import SERVICE
from axonrl.serving.workers.pool import WorkerResponse

from .gateway_fakes import STEP, Reply, Service, create, parts, with_cart

FORM_TYPE, JSON_TYPE = "application/x-www-form-urlencoded", "application/json"
STATE_TYPE = "application/octet-stream"

API = "/api/v1"
ACT = f"{API}/agents/cart/act"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "APPLICATION/JSON; charset=utf-8", "Content-Encoding": "identity"}, 200),
        ({"Content-Encoding": "gzip"}, 415),
    ],
)
def test_types_of_bodies(usual: Service, headers: dict[str, str], status: int) -> None:
    assert usual("POST", ACT, [0], headers=headers).status == status
    patched = usual("PATCH", f"{API}/agents/cart", {"description": "d"}, headers=headers)
    assert patched.status == status
    if status != 200:
        assert patched.code == "unsupported_media_type"


def test_bodies_have_limits() -> None:
    with with_cart({"limits.body_bytes": "1000", "limits.batch_bytes": "2000"}) as service:
        fits = b'"' + b"x" * 1998 + b'"'
        assert service("POST", ACT, fits).status == 200
        refused = service("POST", ACT, fits + b" ")
        assert (refused.status, refused.code, refused.headers["connection"]) == (413, "body_too_large", "close")
        what = "the body may have 2,000 bytes, got 2,001: send less at once, or raise the limit"
        assert refused.json["detail"] == what
        assert service("POST", f"{API}/agents/cart/step", fits).status == 200  # as in a batch of one
        assert service("POST", f"{API}/agents/cart/step", fits + b" ").code == "body_too_large"
        assert service("POST", f"{API}/agents/cart/end_episode", b" " * 1001).code == "body_too_large"
        assert service("POST", f"{API}/agents", b" " * 1001).code == "body_too_large"
        assert service("POST", f"{API}/snapshots/cart", b"x" * 5000).status == 201  # the worker reads it
        assert service("POST", ACT, headers={"X": "y" * 16384}).code == "body_too_large"
        assert service("GET", f"{API}/agents/{'x' * 4100}").code == "invalid_value"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"description": "\\ud800"}', "invalid_json"),
        (b"[" * 9 + b"]" * 9, "invalid_value"),
        (b'{"is_active": 1}', "invalid_value"),
        (b'{"description": "\\u0000"}', "invalid_value"),
    ],
)
def test_bodies_are_what_they_should_be(usual: Service, body: bytes, code: str) -> None:
    refused = usual("PATCH", f"{API}/agents/cart", body)
    assert refused.code == code
    assert all(one["where"] and one["what"] for one in refused.json["errors"])


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b'{"description":\n  oops}', "is not valid JSON: expected value at line 2 column 3"),
        (b'{"description": NaN}', "is not valid JSON: expected value at line 1 column 17"),
    ],
)
def test_broken_json_is_refused_with_its_place(usual: Service, body: bytes, what: str) -> None:
    for method, path in (("PATCH", "/agents/cart"), ("POST", "/agents"), ("POST", "/tokens"), ("PATCH", "/users/bob")):
        refused = usual(method, API + path, body, user="root" if "users" in path else "alice")
        assert (refused.status, refused.code) == (400, "invalid_json")
        assert refused.json["errors"] == [{"where": "body", "what": what}]


KINDS: list[tuple[str, str, str, bytes, int, int, bool]] = [
    ("POST", "/login/access-token", FORM_TYPE, b"x", 16_384, 0, False),
    ("POST", "/agents", JSON_TYPE, b"{", 2**20, 210_000, True),
    ("PATCH", "/agents/cart", JSON_TYPE, b"{", 2**20, 10_000, True),
    ("POST", "/tokens", JSON_TYPE, b"{", 2**20, 10_000, True),
    ("POST", "/users/me/password", JSON_TYPE, b"{", 2**20, 10_000, True),
    ("POST", "/users", JSON_TYPE, b"{", 2**20, 10_000, True),
    ("PATCH", "/users/bob", JSON_TYPE, b"{", 2**20, 10_000, True),
    ("POST", "/agents/cart/end_episode", JSON_TYPE, b"{", 2**20, 10_000, False),
    ("POST", "/agents/cart/step", JSON_TYPE, b"{", 2**23, 10_000, False),
    ("POST", "/agents/large/step", JSON_TYPE, b"{", 2**23, 200_237, False),
    ("POST", "/agents/cart/steps", JSON_TYPE, b"{", 2**23, 45_000, False),
    ("POST", "/agents/cart/act", JSON_TYPE, b"{", 2**23, 45_000, False),
    ("POST", "/agents/cart/act", JSON_TYPE, b" [", 2**23, 10_000, False),
    ("POST", "/snapshots/cart", JSON_TYPE, b"{", 2**28, 100, False),
    ("PUT", "/agents/cart/state", STATE_TYPE, b"x", 2**28, 0, False),
]
"""Every route with a body, how its body begins, the most bytes and values (0: it is no JSON), and whether the gateway
itself reads the JSON. A step of an agent with 4 numbers and 2 actions has 2 observations (a list and 4 numbers each),
a list and 2 numbers for the action, and 32 for all else; an act that is a list is one observation."""


@pytest.fixture(scope="module")
def usual() -> Iterator[Service]:
    """With the usual limits, but for those of a minute; alice also has an agent with 100,000 numbers."""
    names = ("changes_per_minute", "creations_per_minute", "transfers_per_minute", "steps_per_second")
    sets = {f"limits.{name}": "0" for name in names}
    with with_cart(sets) as service:
        assert create(service, "large", config={"state_size": [100, 1000], "action_size": 2}).status == 201
        service.pool.answers["steps"] = WorkerResponse(200, b'{"accepted": 1, "seq": 1}')
        yield service


def test_the_table_has_every_route_with_a_body() -> None:
    routes = [route for methods in SERVICE.routes.values() for route in methods.values()]
    found = {(one.method, one.path.removeprefix(API)) for one in routes if one.body and one.path.startswith(API)}
    given = {(method, path.replace("cart", "{name}").replace("bob", "{name}")) for method, path, *_ in KINDS}
    assert {one for one in given if "large" not in one[1]} == found


@pytest.mark.parametrize(("method", "path", "kind", "first", "most", "values", "is_read"), KINDS)
def test_bodies_of_each_route(
    usual: Service, method: str, path: str, kind: str, first: bytes, most: int, values: int, is_read: bool
) -> None:
    user = "root" if path in ("/users", "/users/bob") else None if "login" in path else "alice"
    usual.pool.asked.clear()

    def send(body: Any, **headers: str) -> Reply:
        return usual(method, API + path, body, user=user, headers={"Content-Type": kind, **headers})

    assert send(first, **{"Content-Type": FORM_TYPE if kind == JSON_TYPE else JSON_TYPE}).status == 415
    large = send(unasked, **{"Content-Length": str(most + 1)})
    assert (large.status, large.headers["connection"]) == (413, "close")
    if values:
        many = first + b"[]," * ((values + 1) // 2)  # a bracket and a comma each, and the first one
        assert send(many).code == "body_too_large"
        assert send(parts(many[:100], many[100:], more=True)).code == "body_too_large"  # before its end
    if is_read:
        deep = send(b"[" * 33 + b"]" * 33)
        assert (deep.status, deep.code) == (422, "invalid_value")
        assert send(b"[" * 32 + b"]" * 32).json["errors"][0]["what"] != deep.json["errors"][0]["what"]
        for key in ({}, {"Idempotency-Key": "deep"}):
            deepest = b'{"password":' * 4000 + b"1" + b"}" * 4000
            assert send(deepest, **key).code == "invalid_json"
    assert send(parts(first, more=True)).status == 499
    assert usual.pool.asked == []
    if values and not is_read:
        assert send(first + b"[]," * ((values + 1) // 2 - 1)).status in (200, 201)  # the worker reads it
    assert usual.holds_nothing()


async def unasked() -> Message:
    """Who asks for the body before the answer finds that nobody is there to be answered."""
    return {"type": "http.disconnect"}


@pytest.mark.parametrize("parts_of", [[11], [6, 5], [6, 0, 5]])
def test_a_body_that_does_not_say_how_long_it_is_has_its_limit_too(parts_of: list[int]) -> None:
    with with_cart({"limits.body_bytes": "110"}) as service:
        refused = service("PATCH", f"{API}/agents/cart", parts(*(b"x" * 10 * one + b"x" for one in parts_of)))
        assert refused.code == "body_too_large"


def test_what_is_refused_by_its_headers_is_not_read(usual: Service) -> None:
    service, raw = usual, {"Content-Type": STATE_TYPE}
    acting = service.token("alice", "act", agents=["cart"])
    cases: list[tuple[str, str, str, str]] = [
        (acting, "POST", "/tokens", "forbidden_scope"),
        (acting, "POST", "/snapshots/cart", "forbidden_scope"),
        (acting, "POST", "/agents/cart/steps", "forbidden_scope"),
        (acting, "POST", "/agents/large/act", "not_found"),
        (acting, "POST", "/nosuch", "not_found"),
        ("alice", "POST", "/agents/absent/act", "not_found"),
        ("alice", "POST", "/snapshots/absent", "not_found"),
        ("alice", "PUT", "/agents/absent/state", "not_found"),
        ("alice", "PATCH", "/agents/absent", "not_found"),
        ("alice", "PUT", "/agents/cart", "method_not_allowed"),
        ("nobody", "POST", "/agents/cart/act", "invalid_token"),
    ]
    for user, method, path, code in cases:
        for length in ({"Content-Length": "5000000"}, {"Transfer-Encoding": "chunked"}):
            refused = service(method, API + path, unasked, user=user, headers=length)
            assert (refused.code, refused.headers["connection"]) == (code, "close"), path
        assert "connection" not in service(method, API + path, b"[]", user=user).headers  # it is read and dropped
    names = ("creations_per_minute", "transfers_per_minute", "steps_per_second")
    with with_cart({f"limits.{name}": "1" for name in names}) as limited:
        limited("PUT", f"{API}/agents/cart/state", b"x", headers=raw)
        limited("POST", f"{API}/agents/cart/step", STEP)
        for method, path in (("POST", "/agents"), ("PUT", "/agents/cart/state"), ("POST", "/agents/cart/step")):
            assert limited(method, API + path, unasked, headers=raw if "state" in path else {}).code == "rate_limited"
        limited.gateway.accounts.set_quota("alice", {"bytes": 7, "transfers_per_minute": 9})
        limited.run(limited.gateway.tokens.refresh)
        assert limited("POST", f"{API}/snapshots/cart", unasked).code == "quota_exceeded"


class Slow:
    """A body of which some has come."""

    def __init__(self, content: bytes) -> None:
        self._first, self.waits, self.more = content, asyncio.Event(), asyncio.Event()

    async def __call__(self) -> Message:
        if self._first:
            content, self._first = self._first, b""
            return {"type": "http.request", "body": content, "more_body": True}
        self.waits.set()
        await self.more.wait()
        return {"type": "http.disconnect"}


def test_bodies_that_do_not_end_are_bounded_in_sum() -> None:
    with with_cart({"limits.batch_bytes": "100000", "limits.body_bytes": "1000"}) as service:
        create(service, "cart", user="bob")
        create(service, "cart", user="root")

        async def held(size: int, user: str, peer: str) -> tuple[asyncio.Task[Reply], Slow]:
            slow = Slow(b" " * size)
            task = asyncio.create_task(service.request("POST", ACT, slow, user=user, peer=peer))
            await slow.waits.wait()
            return task, slow

        async def more(user: str, peer: str) -> Reply:
            return await service.request("POST", ACT, parts(b" ", more=True), user=user, peer=peer)

        async def run() -> None:
            slow = [await held(100_000, "alice", "1.1.1.1"), await held(100_000, "alice", "2.2.2.2")]
            refused = await more("alice", "3.3.3.3")
            assert (refused.status, refused.code) == (429, "rate_limited")  # of the account
            assert "limits.batch_bytes" in refused.json["detail"]
            slow.append(await held(100_000, "bob", "1.1.1.1"))
            refused = await more("root", "1.1.1.1")
            assert (refused.code, refused.headers["retry-after"]) == ("rate_limited", "1")  # of the address
            slow.append(await held(100_000, "bob", "3.3.3.3"))
            refused = await more("root", "4.4.4.4")
            assert (refused.status, refused.headers["connection"]) == (503, "close")  # of all
            large = await service.request("POST", ACT, b"[" + b" " * 20_000, user="root", peer="4.4.4.4")
            assert large.code == "unavailable"
            assert (await service.request("POST", ACT, [0], user="alice")).status == 200  # what is small goes on
            for task, one in slow:
                assert not task.done()
                one.more.set()
            assert {(await task).status for task, _ in slow} == {499}

        service.run(run)
        assert service.holds_nothing()


def test_large_answers_that_are_not_taken_are_bounded_in_sum() -> None:
    """An account may have one of any size, and more as long as their sum is within the limit."""
    path = f"{API}/agents/cart/state"
    with with_cart({"limits.state_bytes": "100000", "limits.transfers_per_minute": "0"}) as service:
        service.pool.answers["get_state"] = WorkerResponse(200, b"x" * 150_000)

        async def run() -> None:
            taken = asyncio.Event()
            first = asyncio.create_task(service.request("GET", path, taken=taken))
            while service.holds_nothing():
                await asyncio.sleep(0)
            refused = await service.request("GET", path)
            assert (refused.status, refused.code) == (429, "rate_limited")
            assert "limits.state_bytes" in refused.json["detail"]
            assert (await service.request("GET", f"{API}/agents/cart")).status == 200  # what is small goes on
            assert not first.done()
            taken.set()
            assert len((await first).body) == 150_000
            assert (await service.request("GET", path)).status == 200

        service.run(run)
        assert service.holds_nothing()


def test_a_large_state_is_in_a_file_until_it_is_answered(usual: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[tuple[bytes, Path, bytes]] = []
    ask = usual.pool.ask

    async def asked(agent: str, do: str, body: bytes = b"", **head: Any) -> Any:
        if do == "put_state":
            path = Path(head["file"])
            found.append((body, path, path.read_bytes()))
        return await ask(agent, do, body, **head)

    monkeypatch.setattr(usual.pool, "ask", asked)
    sent = bytes(range(256)) * 4097, b"and the rest"
    headers = {"Content-Type": STATE_TYPE}
    assert usual("PUT", f"{API}/agents/cart/state", parts(*sent), headers=headers).status == 200
    ((body, path, content),) = found
    assert (body, content, path.exists()) == (b"", b"".join(sent), False)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(bodies, "_write", full)
    refused = usual("PUT", f"{API}/agents/cart/state", parts(*sent), headers=headers)
    assert (refused.status, refused.code) == (507, "storage_full")
    assert tempfile.gettempdir() in refused.json["detail"]
    assert usual.holds_nothing()


def test_a_large_upload_with_a_key_is_carried_out_once(usual: Service) -> None:
    usual.pool.asked.clear()
    large, headers = b'{"model": "' + b"x" * 2**21, {"Idempotency-Key": "upload"}
    answers = [usual("POST", f"{API}/snapshots/cart", parts(large), headers=headers) for _ in range(2)]
    assert [one.status for one in answers] == [201, 201]
    assert usual.pool.done() == ["put_state"]
    assert usual("POST", f"{API}/snapshots/cart", parts(large + b" "), headers=headers).code == "idempotency_key_reused"
