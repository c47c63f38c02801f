"""Every member of RemoteAgent against a service that answers as it should."""

import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl.serving import (
    OTHER_MODELS,
    SUPPORTED_MODELS,
    AuthenticationError,
    Conflict,
    EncodedAgentState,
    InvalidRequest,
    NotFound,
    RemoteAgent,
    ServiceError,
    ServiceUnavailable,
    wait_until_agent_exists,
    wait_until_agent_is_active,
)
from axonrl.serving.catalogue import hosted
from axonrl.serving.client import readiness
from axonrl.serving.client.errors import ArgumentError
from axonrl.tests.raising import raised

from .client_stub import AGENT, SNAPSHOT, Clock, Reply, Stub, connect, problem


def test_create_sends_sizes_and_hyperparameters(stub: Stub) -> None:
    stub.replies.append(Reply(201, AGENT))
    agent = connect(stub, description="d", lr=np.float64(0.5), hidden_layers=(8, 8))
    assert agent.create_agent(4, 2, "DQN") == AGENT
    assert stub.paths == ["POST /agents/"]
    config = {"lr": 0.5, "hidden_layers": [8, 8], "state_size": 4, "action_size": 2}
    expected = {"name": "a", "model": "DQN", "description": "d", "config": config, "is_active": True}
    assert stub.asked[0].json == expected
    assert stub.asked[0].key is not None
    assert (agent.state_size, agent.obs_size, agent.action_size, agent.agent_model) == (4, 4, 2, "dqn")
    assert agent.discrete is True
    assert len(stub.asked) == 1  # nothing was asked for


@pytest.mark.parametrize(
    ("given", "arguments", "expected"),
    [
        ({}, {"action_low": -2.0, "action_high": [2, 3]}, {"action_low": -2.0, "action_high": [2, 3]}),
        ({"obs_size": 7, "action_low": -1}, {"discrete": True, "active": False}, {"discrete": True, "action_low": -1}),
    ],
)
def test_create_with_bounds(
    stub: Stub, given: dict[str, Any], arguments: dict[str, Any], expected: dict[str, Any]
) -> None:
    stub.replies.append(Reply(201, AGENT))
    connect(stub, **given).create_agent(4, 1, "ppo", **arguments)
    assert stub.asked[0].json["config"] == {"state_size": 4, "action_size": 1, **expected}
    assert stub.asked[0].json["is_active"] is arguments.get("active", True)


def test_create_with_a_space(stub: Stub) -> None:
    space = {"type": "Box", "dtype": "uint8", "shape": [2, 2], "low": 0, "high": 255}
    config = {"observation_space": space, "action_size": 2}
    stub.replies.append(Reply(201, {**AGENT, "config": config}))
    agent = connect(stub)
    agent.create_agent(action_size=2, agent_model="dqn", observation_space=space)
    assert stub.asked[0].json["config"] == config
    assert agent.state_size == (2, 2)


def test_the_original_s_names_and_what_the_constructor_was_told(stub: Stub) -> None:
    stub.default = lambda asked: Reply(200, {**AGENT, "action": [1]})
    agent = connect(stub, description=None, state_size=4, action_size=np.int64(2), agent_model="DQN", environment="e")
    agent.create_agent()
    connect(stub, obs_size=3, action_size=5).create_agent(obs_size=4, action_size=2, agent_model="dqn")
    created = [asked.json for asked in stub.asked]
    assert [one["config"] for one in created] == [{"state_size": 4, "action_size": 2}] * 2
    assert [(one["model"], one["description"]) for one in created] == [("dqn", "")] * 2
    assert agent.act(obs=[1, 2, 3, 4]) == 1
    agent.step(obs=[1, 2, 3, 4], action=1, reward=0.5, next_obs=[5, 6, 7, 8], done=False)
    acted, stepped = (asked.json for asked in stub.asked[-2:])
    assert acted == {"observation": [1, 2, 3, 4], "environment": "e"}
    expected = {"state": [1, 2, 3, 4], "action": [1], "reward": 0.5, "next_state": [5, 6, 7, 8]}
    assert stepped["step_data"] == {**expected, "done": False, "truncated": False, "environment": "e"}
    assert raised(ArgumentError, agent.act, [1, 2, 3, 4], obs=[1, 2, 3, 4]).argument == "obs"
    assert raised(ArgumentError, connect, stub, state_size=4, obs_size=4).argument == "obs_size"
    assert raised(ArgumentError, agent.step, [1, 2, 3, 4], 1).argument == "reward"


def test_the_client_knows_the_models_of_the_service() -> None:
    assert SUPPORTED_MODELS == ["dqn", "ppo", "ddpg", "rainbow"]
    assert list(hosted.OTHERS) == OTHER_MODELS  # the client imports nothing of the catalogue
    assert not set(SUPPORTED_MODELS) & set(OTHER_MODELS)


def test_errors_of_create(stub: Stub) -> None:
    wrong = [{"where": "config.lr", "what": "must be above 0"}]
    stub.replies.extend(
        [
            problem(409, "name_taken"),
            problem(403, "quota_exceeded"),
            problem(507, "storage_full"),
            problem(422, "invalid_value", "Invalid.", errors=wrong, request_id="r2"),
        ]
    )
    agent = connect(stub, lr=-1)
    for code in ("name_taken", "quota_exceeded"):
        assert raised(Conflict, agent.create_agent, 4, 2, "dqn").code == code
    assert raised(ServiceUnavailable, agent.create_agent, 4, 2, "dqn").code == "storage_full"
    error = raised(InvalidRequest, agent.create_agent, 4, 2, "dqn")
    assert (error.status, error.code, error.detail, error.request_id) == (422, "invalid_value", "Invalid.", "r2")
    assert error.errors == wrong
    assert "lr" in str(error)


def test_remove(stub: Stub, agent: RemoteAgent) -> None:
    with pytest.warns(RuntimeWarning):
        assert agent.remove(agent_name="b") is False
    raised(ArgumentError, agent.remove, agent_name="b", quite=False)
    assert stub.asked == []
    stub.replies.extend([Reply(202, {"removed": "a"}), problem(404, "not_found")])
    assert agent.remove(agent_name="a") is True
    assert agent.remove(agent_name="a") is False
    assert stub.paths == ["DELETE /agents/a"] * 2
    stub.replies.append(Reply(200, {**AGENT, "model": "ppo"}))  # another one of that name
    assert agent.agent_model == "ppo"


def test_exists_and_is_active(stub: Stub) -> None:
    agent = connect(stub)
    stub.replies.extend(
        [
            problem(404, "not_found"),
            Reply(200, {**AGENT, "status": "creating"}),
            Reply(200, {**AGENT, "is_active": False}),
            Reply(200, {**AGENT, "is_active": False}),
            problem(404, "not_found"),
        ]
    )
    assert [agent.exists for _ in range(3)] == [False, False, True]
    assert agent.is_active is False
    with pytest.raises(NotFound):
        _ = agent.is_active
    stub.asked.clear()
    stub.replies.extend([Reply(200, AGENT), Reply(200, AGENT)])
    agent.deactivate()
    agent.activate()
    assert [(asked.method, asked.json["is_active"]) for asked in stub.asked] == [("PATCH", False), ("PATCH", True)]


def test_hparams_are_numbers_and_texts_and_asked_for_once(stub: Stub) -> None:
    stub.replies.append(Reply(200, AGENT))
    agent = connect(stub)
    expected = {"state_size": 4, "action_size": 2, "lr": 0.001, "hidden_layers": "[64, 64]", "using_double_q": 1}
    assert agent.hparams == agent.hparams == expected
    assert {type(value) for value in agent.hparams.values()} == {int, float, str}
    assert len(stub.asked) == 1
    assert connect(stub, lr=0.5, seed=None).hparams == {"lr": 0.5, "seed": "None"}
    assert len(stub.asked) == 1


def test_facts_are_asked_for_when_they_are_unknown(stub: Stub) -> None:
    stub.replies.append(Reply(200, {**AGENT, "config": {"obs_size": [3, 2], "action_size": 5}}))
    agent = connect(stub)
    assert (agent.state_size, agent.action_size, agent.agent_model, agent.discrete) == ((3, 2), 5, "dqn", True)
    assert len(stub.asked) == 1
    told = connect(stub, state_size=3, action_size=1, agent_model="DDPG")
    assert (told.state_size, told.action_size, told.agent_model) == (3, 1, "ddpg")
    assert len(stub.asked) == 1


def test_info_loss_and_episodes(stub: Stub) -> None:
    episodes = [{"episode": 1, "episode_return": 2.0}]
    stub.replies.extend([Reply(200, AGENT), Reply(200, {"loss": None}), Reply(200, {}), Reply(200, episodes)])
    agent = connect(stub)
    assert agent.info() == AGENT
    assert (agent.loss, agent.loss) == ({"loss": None}, {})
    assert agent.episodes(last=7) == episodes
    assert stub.paths[1:] == ["GET /agents/a/loss"] * 2 + ["GET /agents/a/episodes?limit=7"]


@pytest.mark.parametrize("body", [b"<html>", b"[]"])
def test_an_answer_of_another_service_is_an_error(stub: Stub, body: bytes) -> None:
    stub.replies.append(Reply(200, body))
    caught = raised(ServiceError, connect(stub).info)
    assert (caught.status, caught.code) == (200, "invalid_answer")


def test_an_error_that_is_no_problem_is_shown(stub: Stub) -> None:
    stub.replies.append(Reply(405, b"Not here", {"X-Request-Id": "r9"}))
    caught = raised(ServiceError, connect(stub).info)
    assert (caught.status, caught.detail, caught.request_id) == (405, "Not here", "r9")


def test_states_come_go_and_are_kept(stub: Stub, tmp_path: Path) -> None:
    stub.replies.extend([Reply(200, SNAPSHOT), Reply(201, {})])
    agent = connect(stub)
    state = agent.get_state()
    assert dataclasses.asdict(state) == SNAPSHOT
    state.save(tmp_path / "s.json")
    assert EncodedAgentState.load(tmp_path / "s.json") == state
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"]
    assert agent.upload_state(state) is True
    assert stub.paths == ["GET /snapshots/a", "POST /snapshots/a"]
    assert stub.asked[1].json == SNAPSHOT


def test_a_state_is_whole_whichever_thread_saves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, write = tmp_path / "s.json", Path.write_text
    fields: dict[str, Any] = {**SNAPSHOT}
    one, other = (EncodedAgentState(**{**fields, "model": model}) for model in ("ppo", "dqn"))

    def write_text(partial: Path, text: str, **more: Any) -> int:
        written = write(partial, text, **more)
        if "ppo" in text:  # before it is in its place
            with ThreadPoolExecutor() as thread:
                thread.submit(other.save, path).result()
            assert EncodedAgentState.load(path) == other
        return written

    monkeypatch.setattr(Path, "write_text", write_text)
    one.save(path)
    assert EncodedAgentState.load(path) == one
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"]


def test_states_that_are_none(stub: Stub, tmp_path: Path) -> None:
    agent = connect(stub)
    with pytest.raises(ArgumentError):
        agent.upload_state(SNAPSHOT)  # type: ignore[arg-type]
    stub.replies.extend([Reply(200, {**SNAPSHOT, "encoded_buffer": None}), problem(422, "state_mismatch")])
    assert raised(ServiceError, agent.get_state).code == "invalid_answer"
    state = EncodedAgentState(**SNAPSHOT)  # type: ignore[arg-type]
    assert raised(InvalidRequest, agent.upload_state, state).code == "state_mismatch"
    for content in ("{", "[]", json.dumps({**SNAPSHOT, "model": 3}), "\x80\x04"):
        (tmp_path / "s.json").write_text(content)
        raised(ValueError, EncodedAgentState.load, tmp_path / "s.json", match=r"s\.json")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(readiness, "time", clock)
    return clock


def test_waiting_until_it_exists(stub: Stub, clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    agent = connect(stub)
    stub.replies.extend([problem(404, "not_found"), problem(503, "unavailable"), Reply(200, AGENT)])
    assert wait_until_agent_exists(agent, 5) is True
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert clock.slept == [0.5, 0.5]
    stub.default = lambda asked: problem(404, "not_found")
    assert wait_until_agent_exists(agent, 0.75, verbose=False) is False
    assert clock.slept[2:] == [0.5, 0.25]
    assert capsys.readouterr().out == ""
    stub.replies.append(problem(401, "invalid_token"))
    raised(AuthenticationError, wait_until_agent_exists, agent, 5)


def test_waiting_until_it_is_active(stub: Stub, clock: Clock) -> None:
    stub.replies.append(problem(404, "not_found"))
    stub.default = lambda asked: Reply(200, {**AGENT, "is_active": len(stub.asked) > 2})
    assert wait_until_agent_is_active(connect(stub), 5, verbose=False) is True
    assert (len(stub.asked), clock.slept) == (3, [0.5, 0.5])
