"""What a service keeps when its processes are killed: every step that it acknowledged, once."""

import contextlib
import json
import os
import random
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from filelock import FileLock

from axonrl.serving import RemoteAgent, ServiceError
from axonrl.serving.accounts import Accounts, open_service
from axonrl.serving.accounts import folder as folders

from .experience import alike, batch, step, stepped
from .live import running
from .service import SMALL, Service, dropping, is_there, quiet, serving, timesteps, wait_for

pytestmark = pytest.mark.server
CLIENTS = 8
STEPS = 400


@pytest.fixture(scope="module", autouse=True)
def _quiet(served_once: Service) -> Iterator[None]:
    with quiet(served_once):
        yield


@pytest.fixture
def twin(service: Service) -> RemoteAgent:
    """An agent that nothing disturbed; the tests do not change it."""
    agent = service.agent("twin", **SMALL)
    if not agent.exists:
        agent.create_agent(4, 2, "dqn")
        agent.step_batch(*batch(0, STEPS))
    return agent


@pytest.fixture
def a(service: Service) -> Iterator[RemoteAgent]:
    with service.agent("a", **SMALL) as agent:
        agent.remove(agent_name="a")
        agent.create_agent(4, 2, "dqn")
        yield agent


# -- kill -9 ----------------------------------------------------------------------------------------------------------


def test_steps_are_applied_once_whatever_is_killed_and_whichever_answers_are_lost(
    service: Service, a: RemoteAgent, twin: RemoteAgent
) -> None:
    kinds = iter([True, False])

    def kill() -> None:
        service.kill(workers=next(kinds))
        service.start()

    with dropping(service.url) as (url, proxy), service.agent("a", url=url, retry_deadline=120.0) as through:
        stepped(through, 2, kill, steps=STEPS)
        assert proxy.answers >= 580  # each third one is lost: of 598, 399 arrived; some were lost with the gateway
    assert timesteps(a) == STEPS
    assert alike(a, twin)


def test_the_agents_of_other_workers_answer_while_one_is_killed(
    service: Service, a: RemoteAgent, twin: RemoteAgent
) -> None:
    twin.act([0.0] * 4)
    folder, ours = service.folder("a"), service.worker_of("twin")
    assert service.worker_of("a") != ours

    def kill() -> None:
        pid = int((folder / "lock.pid").read_text())
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: (folder / "lock.pid").read_text() not in ("", str(pid)))

    stop = threading.Event()
    with ThreadPoolExecutor(1) as one, service.agent("twin", retry_deadline=0.0) as bystander:

        def look_on() -> int:
            count = 0
            while not stop.is_set():
                bystander.act([0.0] * 4)
                count += 1
            return count

        looking = one.submit(look_on)
        try:
            stepped(a, 2, kill, steps=STEPS)
        finally:
            stop.set()
        assert looking.result(60) > 50
    assert service.worker_of("twin") == ours
    assert timesteps(a) == STEPS
    assert alike(a, twin)


def test_a_gateway_that_is_killed_leaves_no_process_and_no_lock(service: Service, a: RemoteAgent) -> None:
    a.step(*step(0))
    folder = service.folder("a")
    with ThreadPoolExecutor(1) as one, service.agent("building", retry_deadline=0.0, hidden_layers=[9]) as other:
        creating = one.submit(other.create_agent, 4, 2, "dqn")
        wait_for(lambda: len(service.children()) == 3)  # the builder loads TensorFlow
        children = service.children()
        service.kill(workers=False)
        wait_for(lambda: not any(map(is_there, children)))
        assert isinstance(creating.exception(60), ServiceError)
    assert folders.holder(service.data) is None
    with FileLock(folder / "lock", timeout=0):
        pass
    service.start()
    listed = {one["name"]: one for one in service.ask("GET", "/api/v1/agents")[2]}
    assert (listed["a"]["counters"]["global_timestep"], listed["a"]["executor"]) == (1, None)  # it is not opened
    assert timesteps(a) == 1
    assert other.exists is False
    assert [one.name for one in (service.data / "agents").iterdir() if one.name.startswith(".")] == []


# -- ending in good order ---------------------------------------------------------------------------------------------


def steps_until_it_fails(agent: RemoteAgent, begun: threading.Semaphore) -> int:
    count = 0
    with agent, contextlib.suppress(ServiceError):
        while True:
            agent.step(*step(count % STEPS))
            count += 1
            begun.release()
    return count


@pytest.mark.parametrize("signals", [1, 2])
def test_a_signal_under_load_loses_nothing_that_was_answered(service: Service, a: RemoteAgent, signals: int) -> None:
    begun = threading.Semaphore(0)
    with ThreadPoolExecutor(CLIENTS) as clients:
        counting = [
            clients.submit(steps_until_it_fails, service.agent("a", environment=f"e{k}", retry_deadline=0.0), begun)
            for k in range(CLIENTS)
        ]
        try:
            for _ in range(400):
                assert begun.acquire(timeout=60)
            process = service.process
            assert process is not None
            for _ in range(signals - 1):
                process.send_signal(signal.SIGTERM)
                time.sleep(0.02)  # two of a kind at once would be one
            assert service.stop() == 143
        finally:
            service.end()
        acknowledged = sum(one.result(60) for one in counting)
    service.start()
    assert acknowledged <= timesteps(a) <= acknowledged + CLIENTS


def test_a_worker_that_hangs_is_killed_and_started_again(service: Service) -> None:
    sets = ["--set", "agents.hung_seconds=5", "--set", "agents.checkpoint_steps=10"]
    other = Service(service.data.with_name("hung"), service.programs, sets)
    with contextlib.closing(open_service(other.data, None)) as database:
        prometheus, _ = Accounts(database).create_token("alice", "metrics", ["metrics"], by_administrator=True)
    with running(other):
        agent = other.agent("a", **SMALL)
        agent.create_agent(4, 2, "dqn")
        for k in range(20):
            agent.step(*step(k))
        hung, checkpoints = other.worker_of("a"), other.folder("a") / "checkpoints"
        wait_for(lambda: len(list(checkpoints.glob("checkpoint-*"))) == 2)
        os.kill(hung, signal.SIGSTOP)
        newest = max(checkpoints.glob("checkpoint-*"))
        (newest / "state.json").write_bytes(b"damaged")  # of which the worker that is started again warns
        began = time.monotonic()
        status, headers, problem = other.ask("POST", "/api/v1/agents/a/act", [0.0] * 4)
        assert (status, problem["code"], headers["retry-after"]) == (503, "unavailable", "1")
        assert "has just ended" in problem["detail"]  # as of a crash; a request alone is given up after 10 seconds
        assert time.monotonic() - began > 4
        agent.act([0.0] * 4)  # the client repeats it until the worker is there again
        assert not is_there(hung)
        assert timesteps(agent) == 20
        assert "axonrl_hung_workers_total 1.0" in metrics(other, prometheus)
        assert len(other.children()) == 2
        lines = [json.loads(line) for line in other.log.read_text().splitlines()]
    (killed,) = [line for line in lines if "hangs" in line["message"]]
    assert (killed["level"], f"process {hung}" in killed["message"]) == ("error", True)
    (warning,) = [line for line in lines if "is damaged" in line["message"]]
    assert (warning["level"], warning["logger"], warning["worker"]) == ("warning", "py.warnings", killed["worker"])
    assert warning["agent"] == newest.parts[-3]


def metrics(service: Service, token: str) -> str:
    request = urllib.request.Request(f"{service.url}/metrics", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        text: str = answer.read().decode()
    return text


def test_a_worker_that_hangs_is_given_up(service: Service) -> None:
    with serving(service.data.with_name("hanging"), service.programs, ["--grace", "2"]) as other:
        agent = other.agent("a", retry_deadline=0.0, **SMALL)
        agent.create_agent(4, 2, "dqn")
        agent.step(*step(0))
        with ThreadPoolExecutor(1) as one:
            os.kill(other.worker_of("a"), signal.SIGSTOP)
            acting = one.submit(agent.act, [0.0] * 4)
            wait_for(lambda: other.ask("GET", "/livez")[0] == 200)
            children = other.children()
            assert other.stop() == 143
            assert isinstance(acting.exception(60), ServiceError)
        assert not any(map(is_there, children))


# -- keys -------------------------------------------------------------------------------------------------------------


def test_a_key_is_applied_once_in_turn_at_once_and_after_a_restart(service: Service, a: RemoteAgent) -> None:
    path = "/api/v1/agents/a/step"
    data: dict[str, Any] = {"state": [0.0] * 4, "action": [1], "reward": 1.0, "next_state": [1.0] * 4, "done": False}

    def ask(key: str, **more: Any) -> tuple[int, bool, Any]:
        status, headers, body = service.ask("POST", path, {"step_data": {**data, **more}}, key)
        return status, headers.get("idempotent-replayed") == "true", body

    in_turn = [ask("in turn") for _ in range(5)]
    with ThreadPoolExecutor(5) as clients:
        at_once = list(clients.map(ask, ["at once"] * 5))
    assert in_turn == [(200, k > 0, {"accepted": 1, "seq": 1}) for k in range(5)]
    assert sorted(at_once, key=lambda one: one[1]) == [(200, k > 0, {"accepted": 1, "seq": 2}) for k in range(5)]
    before = a.get_state()
    status, _, body = service.ask("POST", path, {"step_data": {**data, "reward": 2.0}}, "in turn")
    assert (status, body["code"]) == (422, "idempotency_key_reused")
    service.kill()
    service.start()
    assert [ask("at once") for _ in range(5)] == [(200, True, {"accepted": 1, "seq": 2})] * 5
    assert a.get_state() == before


# -- removing ---------------------------------------------------------------------------------------------------------


def test_an_agent_that_is_removed_under_load_is_gone(service: Service, a: RemoteAgent) -> None:
    folder, begun = service.folder("a"), threading.Semaphore(0)

    def use(k: int) -> int | None:
        dice = random.Random(k)
        with service.agent("a", environment=f"e{k}", retry_deadline=0.0) as agent:
            try:
                while True:
                    if dice.random() < 0.5:
                        agent.act([0.0] * 4)
                    else:
                        agent.step(*step(k))
                    begun.release()
            except ServiceError as error:
                return error.status

    with ThreadPoolExecutor(CLIENTS) as clients:
        using = [clients.submit(use, k) for k in range(CLIENTS)]
        for _ in range(100):
            assert begun.acquire(timeout=60)
        assert a.remove(agent_name="a") is True
        wait_for(lambda: not list(folder.parent.glob(f"*{folder.name}*")))
        assert {one.result(60) for one in using} <= {404, 409}
    assert a.exists is False
    a.create_agent(4, 2, "dqn")
    assert timesteps(a) == 0
    a.step(*step(0))
    assert timesteps(a) == 1
