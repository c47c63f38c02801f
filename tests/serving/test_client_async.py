import asyncio
import threading
from typing import Any

import pytest

from axonrl.serving import (
    AsyncRemoteAgent,
    AuthenticationError,
    Conflict,
    EncodedAgentState,
    NotFound,
    ServiceUnavailable,
)
from axonrl.serving.client.errors import ArgumentError

from .client_stub import ACCEPTED, AGENT, LOST, STATE, Reply, Stub, problem

KNOWN: dict[str, Any] = {"state_size": 4, "action_size": 2, "agent_model": "dqn", "environment": "e"}


def connect(stub: Stub, **more: Any) -> AsyncRemoteAgent:
    credentials = {} if "username" in more else {"access_token": "axp_secret"}
    return AsyncRemoteAgent("a/b", url=stub.url, **{**KNOWN, **credentials, **more})


def test_a_life(stub: Stub) -> None:
    snapshot = {"model": "dqn", "state_size": 4, "action_size": 2}
    snapshot |= {"encoded_config": "a", "encoded_network": "b", "encoded_buffer": "c"}
    script: list[tuple[str, Reply]] = [
        ("GET /agents/a%2Fb", problem(404, "not_found")),
        ("POST /agents/", Reply(201, AGENT)),
        ("POST /agents/a%2Fb/act?noise=0.5", Reply(200, {"action": [1]})),
        ("POST /agents/a%2Fb/step", ACCEPTED),
        ("POST /agents/a%2Fb/act?noise=0", Reply(200, {"actions": [[0], [1]]})),
        ("POST /agents/a%2Fb/steps", Reply(200, {"accepted": 1, "seq": 2})),
        ("POST /agents/a%2Fb/end_episode", Reply(200, {})),
        ("GET /agents/a%2Fb", Reply(200, AGENT)),
        ("GET /agents/a%2Fb/loss", Reply(200, {"loss": 0.5})),
        ("GET /agents/a%2Fb/episodes?limit=100", Reply(200, [])),
        ("GET /snapshots/a%2Fb", Reply(200, snapshot)),
        ("POST /snapshots/a%2Fb", Reply(201, {})),
        ("PATCH /agents/a%2Fb", Reply(200, AGENT)),
        ("DELETE /agents/a%2Fb", Reply(202, {"removed": "a/b"})),
    ]
    stub.replies.extend(reply for _, reply in script)

    async def live() -> None:
        async with connect(stub) as agent:
            assert await agent.exists() is False
            assert await agent.create_agent(4, 2, "dqn") == AGENT
            assert await agent.act(STATE, 0.5) == 1
            assert await agent.step(STATE, 1, 1.0, STATE, False) is True
            assert await agent.act_batch([STATE, STATE]) == [0, 1]
            assert await agent.step_batch([STATE], [1], [1.0], [STATE], [True]) == 1
            await agent.end_episode()
            assert await agent.is_active() is True
            assert await agent.loss() == {"loss": 0.5}
            assert await agent.episodes() == []
            state = await agent.get_state()
            assert state == EncodedAgentState(**snapshot)  # type: ignore[arg-type]
            assert await agent.upload_state(state) is True
            await agent.deactivate()
            assert (await agent.hparams())["lr"] == 0.001
            assert (await agent.state_size(), await agent.obs_size(), await agent.action_size()) == (4, 4, 2)
            assert (await agent.agent_model(), await agent.discrete()) == ("dqn", True)
            assert await agent.get_access_token(access_token="axp_other") == "axp_other"
            assert await agent.remove(agent_name="a/b") is True

    asyncio.run(live())
    assert stub.paths == [path for path, _ in script]
    assert stub.asked[2].json == {"observation": STATE, "environment": "e"}
    assert (stub.asked[2].headers["Authorization"], stub.connections) == ("Bearer axp_secret", 1)


def test_it_logs_in_once_when_it_is_first_needed_and_again_when_that_has_expired(stub: Stub) -> None:
    refused = problem(400, "invalid_credentials", "secret password")
    stub.replies.extend([refused, Reply(200, {"access_token": "axl_t"})])
    stub.default = lambda asked: Reply(200, {**AGENT, "access_token": "axl_u"})

    async def ask() -> None:
        async with connect(stub, username="u", password="secret password") as agent:
            with pytest.raises(AuthenticationError, match=r"^(?!.*secret)"):
                await agent.exists()
            assert await asyncio.gather(*(agent.exists() for _ in range(4))) == [True] * 4
            assert "secret" not in repr(agent)
            stub.ended["axl_t"] = "token_expired"
            assert await agent.exists()

    asyncio.run(ask())
    assert stub.paths[0] == stub.paths[1] == stub.paths[7] == "POST /login/access-token"
    assert stub.paths[2:7] == ["GET /agents/a%2Fb"] * 5
    assert [asked.token for asked in stub.asked] == [None, None, *["axl_t"] * 5, None, "axl_u", "axl_u"]
    assert stub.paths[8:] == ["GET /agents/a%2Fb", "POST /logout"]


def test_repetition_and_errors(stub: Stub) -> None:
    stub.replies.extend([LOST, problem(503, "unavailable"), ACCEPTED, problem(409, "agent_inactive")])

    async def step() -> None:
        async with connect(stub, retry_deadline=5) as agent:
            assert await agent.step(STATE, 1, 1.0, STATE, False) is True
            with pytest.raises(Conflict):
                await agent.step(STATE, 1, 1.0, STATE, False)
            with pytest.raises(ArgumentError):
                await agent.act("left")

    asyncio.run(step())
    first, second, third, fourth = (asked.key for asked in stub.asked)
    assert first == second == third != fourth


def test_no_answer(stub: Stub) -> None:
    late = threading.Event()
    stub.replies.append(Reply(after=late))

    async def ask() -> tuple[str, str]:
        codes = []
        async with connect(stub, timeout=0.1, retry_deadline=0) as agent:
            for _ in range(2):
                with pytest.raises(ServiceUnavailable) as caught:
                    await agent.info()
                codes.append(caught.value.code)
                stub.server.server_close()
        return codes[0], codes[1]

    assert asyncio.run(ask()) == ("timeout", "unreachable")
    late.set()


def test_steps_of_one_agent_are_sent_in_order(stub: Stub) -> None:
    stub.default = lambda asked: ACCEPTED if asked.method == "POST" else problem(404, "not_found")

    async def steps() -> None:
        async with connect(stub) as agent:
            await asyncio.gather(*(agent.step([k] * 4, 1, 0.0, [k] * 4, False) for k in range(20)))
            with pytest.raises(NotFound):
                await agent.info()

    asyncio.run(steps())
    assert [asked.json["step_data"]["state"][0] for asked in stub.asked[:-1]] == list(range(20))
