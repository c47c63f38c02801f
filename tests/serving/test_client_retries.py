"""Repeated requests: which, when, and with what."""

import http.client
import threading
import time
import types
from typing import Any

import pytest

from axonrl.serving import InvalidRequest, RateLimited, ServiceError, ServiceUnavailable
from axonrl.serving.client import connections, retries
from axonrl.serving.client.address import parse
from axonrl.serving.client.connections import Connections
from axonrl.serving.client.messages import Lost, Request, Response
from axonrl.serving.client.retries import pause, run, send_with_retries
from axonrl.tests.raising import raised

from .client_stub import ACCEPTED, AGENT, LOST, Clock, Reply, Stub, problem
from .client_stub import told as connect

GONE = Lost("unreachable", "")
STEP = ([0.1, 0.2, 0.3, 0.4], 1, 1.0, [0.2, 0.3, 0.4, 0.5], False)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(connections, "time", clock)
    monkeypatch.setattr(retries, "time", clock)
    return clock


@pytest.mark.parametrize(
    ("outcome", "attempt", "left", "draw", "expected"),
    [
        (GONE, 3, 30.0, 0.5, 0.1),
        (GONE, 5000, 30.0, 1.0, 2.0),
        (GONE, 7, 2.0, 1.0, None),  # would begin at the deadline
        (Lost("certificate", "", for_good=True), 1, 30.0, 0.0, None),
        (Response(503, b""), 1, 30.0, 1.0, 0.05),
        (Response(504, b""), 1, 30.0, 1.0, 0.05),
        (Response(429, b"", retry_after=3.0), 1, 30.0, 1.0, 3.0),
        (Response(429, b"", retry_after=60.0), 1, 30.0, 1.0, None),
        *((Response(status, b""), 1, 30.0, 0.0, None) for status in (200, 409, 500, 507)),
    ],
)
def test_when_a_request_is_repeated(
    outcome: Response | Lost, attempt: int, left: float, draw: float, expected: float | None
) -> None:
    assert pause(outcome, attempt, left, draw) == (pytest.approx(expected) if expected is not None else None)


def test_attempts_end_with_their_deadline(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "random", types.SimpleNamespace(random=lambda: 1.0))

    async def send(self: Connections, *args: Any) -> Lost:
        clock.now += 0.1  # each takes a tenth
        return GONE

    monkeypatch.setattr(Connections, "send", send)
    never = Connections(parse("http://127.0.0.1:1"), True)
    with pytest.raises(ServiceUnavailable):  # 0.4 more would be too late, at 0.75 seconds
        run(send_with_retries(never, Request("GET", "/agents/a"), None, 10.0, 1.0))
    assert clock.slept == pytest.approx([0.05, 0.1, 0.2])


def test_a_step_whose_answer_is_lost_is_sent_again_with_its_key(stub: Stub) -> None:
    stub.replies.extend([LOST, problem(503, "agent_busy"), ACCEPTED, ACCEPTED])
    agent = connect(stub)
    assert agent.step(*STEP) is True
    assert agent.step(*STEP) is True
    first, second, third, fourth = (asked.key for asked in stub.asked)
    assert first == second == third
    assert first is not None
    assert fourth not in (first, None)
    assert stub.asked[0].body == stub.asked[1].body == stub.asked[2].body


def test_a_wait_beyond_the_deadline_is_an_error_at_once(stub: Stub, clock: Clock) -> None:
    stub.replies.append(problem(429, "rate_limited", "too many steps", retry_after=31))
    caught = raised(RateLimited, connect(stub).act, [1, 2, 3, 4])
    assert (caught.retry_after, caught.status) == (31.0, 429)
    assert "too many steps" in str(caught)
    assert str(caught).endswith("to be repeated after 31 s, later than retry_deadline allows")
    assert (clock.slept, len(stub.asked)) == ([], 1)


def test_an_answer_that_is_not_repeated_is_not_said_to_be_too_late(stub: Stub) -> None:
    stub.replies.append(problem(507, "storage_full", "no space", retry_after=1))
    caught = raised(ServiceUnavailable, connect(stub).step, *STEP)
    assert str(caught).endswith("; to be repeated after 1 s")
    assert len(stub.asked) == 1


def test_it_gives_up_at_the_deadline(stub: Stub, clock: Clock) -> None:
    stub.default = lambda asked: problem(503, "unavailable", retry_after=3)
    assert raised(ServiceUnavailable, connect(stub, retry_deadline=10.0).step, *STEP).code == "unavailable"
    assert (clock.slept, len(stub.asked)) == ([3.0] * 3, 4)
    assert len({asked.key for asked in stub.asked}) == 1


def test_no_answer_and_no_connection(stub: Stub) -> None:
    late = threading.Event()
    stub.replies.append(Reply(after=late))
    agent = connect(stub, timeout=0.1, retry_deadline=0)
    for code in ("timeout", "unreachable"):
        caught = raised(ConnectionError, agent.act, [1, 2, 3, 4])
        assert isinstance(caught, ServiceUnavailable)
        assert (caught.status, caught.code) == (None, code)
        stub.server.server_close()
    late.set()


def test_a_late_answer_is_not_taken_for_the_next_one(stub: Stub) -> None:
    late = threading.Event()
    stub.replies.extend([Reply(200, {"action": [0]}), Reply(200, {"action": [1]}, after=late)])
    stub.default = lambda asked: Reply(200, {"action": [0]})
    agent = connect(stub, timeout=0.2)
    assert agent.act([1, 2, 3, 4]) == 0
    assert agent.act([1, 2, 3, 4]) == 0  # its first attempt was on a connection that was kept
    assert (len(stub.asked), stub.connections) == (3, 2)
    late.set()


def test_a_lost_removal_that_was_done(stub: Stub) -> None:
    agent = connect(stub)
    stub.replies.extend([LOST, problem(404, "not_found")])
    assert agent.remove(agent_name="a") is True
    stub.replies.append(problem(404, "not_found"))
    assert agent.remove(agent_name="a") is False


def test_redirects_are_not_followed(stub: Stub) -> None:
    stub.replies.append(Reply(307, {}, {"Location": "http://127.0.0.1:1/elsewhere"}))
    caught = raised(ServiceError, connect(stub).act, [1, 2, 3, 4])
    assert (caught.status, caught.code) == (307, "redirected")
    assert len(stub.asked) == 1


def test_a_connection_that_the_service_closed_is_not_used_again(stub: Stub) -> None:
    acted = Reply(200, {"action": [1]})
    stub.replies.extend([acted, acted._replace(headers={"Connection": "close"}), acted])
    agent = connect(stub, retry_deadline=0)
    assert [agent.act([1, 2, 3, 4]) for _ in range(3)] == [1, 1, 1]
    assert stub.connections == 2
    agent.close()
    stub.replies.append(Reply(200, AGENT))
    assert agent.exists
    assert stub.connections == 3


def test_a_service_that_stops_reading_may_have_answered(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    send = http.client.HTTPConnection.send

    def broken(self: http.client.HTTPConnection, data: bytes) -> None:
        send(self, data)
        if data.startswith(b"{"):
            raise BrokenPipeError

    monkeypatch.setattr(http.client.HTTPConnection, "send", broken)
    stub.replies.append(problem(413, "body_too_large"))
    caught = raised(InvalidRequest, connect(stub).act, [1, 2, 3, 4])
    assert (caught.status, caught.code) == (413, "body_too_large")
    assert len(stub.asked) == 1


def test_calls_of_one_environment_are_made_one_at_a_time(stub: Stub) -> None:
    hold = threading.Event()
    stub.replies.append(ACCEPTED._replace(after=hold))
    stub.default = lambda asked: ACCEPTED
    agent = connect(stub)
    threads = [threading.Thread(target=agent.step, args=STEP) for _ in range(6)]
    for thread in threads:
        thread.start()
    assert stub.arrived.acquire(timeout=240)
    time.sleep(0.05)
    assert len(stub.asked) == 1
    hold.set()
    for thread in threads:
        thread.join(60)
    assert (len(stub.asked), stub.connections) == (6, 1)


def test_other_calls_need_not_wait_for_a_step(stub: Stub) -> None:
    hold = threading.Event()
    stub.default = lambda asked: ACCEPTED._replace(after=hold) if asked.method == "POST" else Reply(200, AGENT)
    agent = connect(stub)
    thread = threading.Thread(target=agent.step, args=STEP)
    thread.start()
    assert stub.arrived.acquire(timeout=240)
    assert agent.exists
    hold.set()
    thread.join(60)
    assert not thread.is_alive()
