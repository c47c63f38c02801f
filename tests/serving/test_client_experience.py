"""Acting and reporting steps: what is sent, and what is refused before."""

import gc
import multiprocessing
import os
import warnings
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from axonrl.serving import AuthenticationError, RemoteAgent, ServiceError
from axonrl.serving.client.errors import ArgumentError
from axonrl.tests.raising import raised

from .client_stub import ACCEPTED, AGENT, STATE, Reply, Stub, connect, problem, told


def test_act_sends_what_it_sees(stub: Stub, agent: RemoteAgent) -> None:
    stub.replies.extend([Reply(200, {"action": [1]})] * 3)
    assert agent.act(STATE) == 1
    assert type(agent.act(tuple(STATE), noise=cast(float, np.float32(0.5)))) is int
    agent.act(np.array(STATE), 1, explore=False)
    assert stub.paths == [f"POST /agents/a/act?noise={noise}" for noise in ("0", "0.5", "1")]
    bodies = [asked.json for asked in stub.asked]
    assert bodies == [{"observation": STATE, "environment": "e"}] * 2 + [
        {"observation": STATE, "environment": "e", "explore": False}
    ]
    assert stub.asked[0].headers["Content-Type"] == "application/json"
    assert stub.asked[0].key is None


def test_act_asks_once_for_what_it_must_know(stub: Stub) -> None:
    stub.replies.extend([Reply(200, AGENT), Reply(200, {"action": [1]}), Reply(200, {"action": [1]})])
    agent = connect(stub)
    assert [agent.act(STATE), agent.act(STATE)] == [1, 1]
    assert [asked.method for asked in stub.asked] == ["GET", "POST", "POST"]


def test_a_token_that_may_only_act_acts(stub: Stub) -> None:
    acted = [Reply(200, {"action": action}) for action in ([1], [1.0], [0, 1])]
    stub.replies.extend([problem(403, "forbidden_scope"), *acted, problem(403, "forbidden_scope")])
    agent = connect(stub)
    assert [agent.act(STATE) for _ in range(3)] == [1, [1.0], [0.0, 1.0]]
    assert [asked.method for asked in stub.asked] == ["GET", "POST", "POST", "POST"]
    raised(AuthenticationError, agent.act, STATE)


@pytest.mark.parametrize("body", [{"action": ["x"]}, []])
def test_an_answer_without_an_action(stub: Stub, agent: RemoteAgent, body: Any) -> None:
    stub.replies.append(Reply(200, body))
    assert raised(ServiceError, agent.act, STATE).code == "invalid_answer"


def test_step_sends_plain_values(stub: Stub, agent: RemoteAgent) -> None:
    stub.replies.append(ACCEPTED)
    after, ended, reward = (
        np.array([0.5, 0.25, 0.125, 1], np.float32),
        cast(bool, np.True_),
        cast(float, np.float32(0.5)),
    )
    assert agent.step(STATE, np.int64(1), reward, after, ended, truncated=True) is True
    assert stub.paths == ["POST /agents/a/step"]
    assert stub.asked[0].json == {
        "step_data": {
            **{"state": STATE, "action": [1], "reward": 0.5, "next_state": [0.5, 0.25, 0.125, 1.0]},
            **{"done": True, "truncated": True, "environment": "e"},
        }
    }


def test_batches(stub: Stub, agent: RemoteAgent) -> None:
    states = np.array([STATE, STATE[::-1]])
    stub.replies.extend([Reply(200, {"actions": [[1], [0]]})] * 2 + [Reply(200, {"accepted": 2, "seq": 2})] * 2)
    assert agent.act_batch(states) == [1, 0]
    assert agent.act_batch(states, environments=["x", "y"], explore=True) == [1, 0]
    assert agent.step_batch(states, [1, 0], [1, 2.5], states, [False, True]) == 2
    more: dict[str, Any] = {"truncated": [True, False], "environments": ["x", "y"], "key": "k"}
    assert agent.step_batch(states, np.array([1, 0]), [1, 2.5], states, np.array([False, True]), **more) == 2
    first, second, third, fourth = (asked.json for asked in stub.asked)
    rows = states.tolist()
    assert first == {"observations": rows, "environments": ["e", "e"]}
    assert second == {"observations": rows, "environments": ["x", "y"], "explore": True}
    step = {"state": STATE, "action": [1], "reward": 1, "next_state": STATE, "done": False}
    assert third["steps"][0] == {**step, "truncated": False, "environment": "e"}
    assert fourth["steps"][0] == {**step, "truncated": True, "environment": "x"}
    assert fourth["steps"][1]["done"] is True
    assert stub.paths[1:] == ["POST /agents/a/act?noise=0"] + ["POST /agents/a/steps"] * 2
    assert stub.asked[3].key == "k"
    assert None is not stub.asked[2].key != "k"


def test_what_is_wrong_is_named_before_anything_is_sent(stub: Stub, agent: RemoteAgent) -> None:
    two: Any = [STATE, STATE]
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: agent.act(STATE[:3]), "state"),
        (lambda: agent.act(STATE, noise=2), "noise"),
        (lambda: agent.step(STATE, [1, 0], 1.0, STATE, False), "action"),
        (lambda: agent.step(STATE, 1, float("inf"), STATE, False), "reward"),
        (lambda: agent.step(STATE, 1, 1.0, STATE, "yes"), "done"),  # type: ignore[arg-type]
        (lambda: agent.step(STATE, 1, 1.0, STATE, False, key="é"), "key"),
        (lambda: agent.act_batch([STATE, STATE[:2]]), "states[1]"),
        (lambda: agent.act_batch(two, environments=["x", ""]), "environments[1]"),
        (lambda: agent.act_batch([STATE] * 1001), "states"),
        (lambda: agent.step_batch(two, [1], [1, 2], two, [False, False]), "actions"),
        (lambda: agent.step_batch(two, [1, 1], [1, 2], two, None), "dones"),
    ]
    assert [raised(ArgumentError, call).argument for call, _ in wrong] == [argument for _, argument in wrong]
    assert agent.act_batch([]) == []
    assert agent.step_batch([], [], [], [], []) == 0
    assert stub.asked == []


def test_end_episode(stub: Stub, agent: RemoteAgent) -> None:
    stub.replies.append(Reply(200, {}))
    agent.end_episode()
    assert stub.paths == ["POST /agents/a/end_episode"]
    assert stub.asked[0].json == {"environment": "e"}


def _names_of_a_child(agent: RemoteAgent, found: Any) -> None:
    agent.act(STATE)
    found.put((agent.environment, os.getpid()))


def test_environments_are_ones_own(stub: Stub) -> None:
    stub.default = lambda asked: Reply(200, {"action": [1]})
    one, two = told(stub), told(stub)
    assert one.environment != two.environment
    one.act(STATE)
    fork = multiprocessing.get_context("fork")
    found = fork.SimpleQueue()
    child = fork.Process(target=_names_of_a_child, args=(one, found))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    name, process = found.get()
    assert process != os.getpid()
    assert name != one.environment
    one.act(STATE)
    assert [asked.json["environment"] for asked in stub.asked] == [one.environment, name, one.environment]
    assert stub.connections == 2  # the child opened its own


def test_an_agent_in_a_circle_closes_its_connections(stub: Stub) -> None:
    """The collector may come to the socket before it comes to what would close it."""
    stub.default = lambda asked: Reply(200, {"action": [1]})
    circle: list[Any] = [told(stub)]
    circle.append(circle)
    gc.freeze()  # so that the socket stands before the agent in the collector's list
    circle[0].act(STATE)
    gc.collect()
    gc.unfreeze()
    del circle
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gc.collect()
    assert [str(one.message) for one in caught] == []
