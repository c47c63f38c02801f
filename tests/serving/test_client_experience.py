"""Acting and reporting steps: what is sent, which values are taken, and what is refused before."""

import enum
import gc
import json
import multiprocessing
import os
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest

from axonrl.serving import AuthenticationError, RemoteAgent, ServiceError
from axonrl.serving.client import values
from axonrl.serving.client.errors import ArgumentError
from axonrl.tests.raising import raised

from .client_stub import ACCEPTED, STATE, Reply, Stub, connect, problem, told

NAN = float("nan")


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


def test_a_token_that_may_only_act_acts(stub: Stub) -> None:
    acted = [Reply(200, {"action": action}) for action in ([1], [1.0], [0, 1])]
    stub.replies.extend([*acted, problem(403, "forbidden_scope")])
    agent = connect(stub)
    assert [agent.act(STATE) for _ in range(3)] == [1, [1.0], [0.0, 1.0]]
    assert [asked.method for asked in stub.asked] == ["POST", "POST", "POST"]
    raised(AuthenticationError, agent.act, STATE)


@pytest.mark.parametrize("body", [{"action": ["x"]}, []])
def test_an_answer_without_an_action(stub: Stub, agent: RemoteAgent, body: Any) -> None:
    stub.replies.append(Reply(200, body))
    assert raised(ServiceError, agent.act, STATE).code == "invalid_answer"


def test_step_sends_plain_values(stub: Stub, agent: RemoteAgent) -> None:
    stub.replies.extend([ACCEPTED, Reply(200, {})])
    after, ended, reward = (
        np.array([0.5, 0.25, 0.125, 1], np.float32),
        cast(bool, np.True_),
        cast(float, np.float32(0.5)),
    )
    assert agent.step(STATE, np.int64(1), reward, after, ended, truncated=True) is True
    agent.end_episode()
    assert stub.paths == ["POST /agents/a/step", "POST /agents/a/end_episode"]
    assert stub.asked[1].json == {"environment": "e"}
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
        (lambda: agent.act("state"), "state"),
        (lambda: agent.act(STATE, noise=cast(float, "much")), "noise"),
        (lambda: agent.act(STATE, explore=cast(bool, "yes")), "explore"),
        (lambda: agent.step(STATE, "left", 1.0, STATE, False), "action"),
        (lambda: agent.step(STATE, 1, float("inf"), STATE, False), "reward"),
        (lambda: agent.step(STATE, 1, 1.0, STATE, "yes"), "done"),  # type: ignore[arg-type]
        (lambda: agent.step(STATE, 1, 1.0, STATE, False, key="Schritt 1 €"), "key"),
        (lambda: agent.step(STATE, 1, 1.0, STATE, False, key="a\nb"), "key"),
        (lambda: agent.step(STATE, 1, 1.0, STATE, False, key="a "), "key"),  # a header would lose the blank
        (lambda: agent.step(STATE, 1, 1.0, STATE, False, key="x" * 256), "key"),
        (lambda: agent.act_batch([STATE, [1, NAN]]), "states[1][1]"),
        (lambda: agent.step_batch([STATE], [1], [1], [STATE], [False], key=""), "key"),
        (lambda: agent.step_batch(two, [1], [1, 2], two, [False, False]), "actions"),
        (lambda: agent.step_batch(two, [1, 1], [1, 2], two, None), "dones"),
    ]
    assert [raised(ArgumentError, call).argument for call, _ in wrong] == [argument for _, argument in wrong]
    assert agent.act_batch([]) == []
    assert agent.step_batch([], [], [], [], []) == 0
    assert stub.asked == []


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


ENDLESS: list[object] = []
ENDLESS.append(ENDLESS)


class Tensor:
    """What is no NumPy array, but can become one, as TensorFlow's."""

    def __array__(self) -> Any:
        return np.array([1, 2])


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.array([0.5, 1], np.float32), [0.5, 1.0]),
        ((np.float32(0.5), True), [0.5, 1]),
        (Tensor(), [1, 2]),
        ([Fraction(1, 2), Colour.RED], [0.5, 1]),
        (np.int64(3), 3),
        (np.zeros((2, 1), np.uint8), [[0], [0]]),
        ([1e308, 1e308], [1e308, 1e308]),  # their sum is infinite, they are not
        ({"a": np.array([1]), "b": 2}, {"a": [1], "b": 2}),
    ],
)
def test_states_that_are_taken(given: object, expected: object) -> None:
    found = json.loads(values.encode(values.plain(given, "state")))
    assert found == expected
    assert str(found) == str(expected)  # 1 is not 1.0


@pytest.mark.parametrize(
    ("given", "place"),
    [
        (np.array([NAN, 1]), "state[0]"),
        ([0.5, 10**400], "state[1]"),
        ({1, 2}, "state"),
        ({"a": [1, NAN]}, "state.a[1]"),
        (ENDLESS, "state" + "[0]" * 33),
    ],
)
def test_states_that_are_refused(given: object, place: str) -> None:
    assert raised(ArgumentError, values.plain, given, "state").argument == place


@pytest.mark.parametrize(
    ("given", "expected"),
    [(np.array([0.5, -0.5]), [0.5, -0.5]), ((0.5, 0.25), [0.5, 0.25]), (1, [1]), (np.int64(1), [1])],
)
def test_actions_are_always_lists(given: object, expected: object) -> None:
    found = values.action(given, "action")
    assert (found, str(found)) == (expected, str(expected))


@pytest.mark.parametrize(("given", "place"), [(np.True_, "action"), ([0.5, True], "action[1]")])
def test_actions_that_are_refused(given: object, place: str) -> None:
    assert raised(ArgumentError, values.action, given, "action").argument == place


def test_flags() -> None:
    assert [values.flag(given, "done") for given in (np.False_, 1, np.array(0))] == [False, True, False]
    assert raised(ArgumentError, values.flag, 2, "done").argument == "done"


def test_hyperparameters_keep_their_kind() -> None:
    given = {"a": True, "b": None, "c": "relu", "d": np.float32(0.5), "e": (64, np.int64(64)), "f": {"g": np.True_}}
    expected = {"a": True, "b": None, "c": "relu", "d": 0.5, "e": [64, 64], "f": {"g": True}}
    assert values.setting(given, "config") == expected
    assert raised(ArgumentError, values.setting, {"lr": NAN}, "config").argument == "config.lr"
