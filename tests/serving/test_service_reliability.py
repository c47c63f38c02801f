"""What a service keeps, also when its processes are killed, or its disk is full: every step that it acknowledged."""

import contextlib
import functools
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from axonrl.serving import AuthenticationError, Conflict, InvalidRequest, NotFound, RemoteAgent, ServiceError
from axonrl.serving.accounts import Accounts, open_service
from axonrl.serving.accounts import folder as folders
from axonrl.tests.experiments.sharing import wait
from axonrl.tests.raising import raised

from .commands import Commands
from .experience import alike, batch, step, stepped
from .for_accounts import PASSWORD
from .hosted import DQN, Built, data
from .live import running
from .service import SMALL, Service, dropping, is_there, serving, timesteps

pytestmark = pytest.mark.server
CLIENTS = 8
STEPS = 400


@pytest.fixture
def twin(server: Service) -> RemoteAgent:
    """An agent that nothing disturbed; the tests do not change it."""
    agent = server.agent("twin", **SMALL)
    if not agent.exists:
        agent.create_agent(4, 2, "dqn")
        agent.step_batch(*batch(0, STEPS))
    return agent


@pytest.fixture
def absent(server: Service) -> Iterator[RemoteAgent]:
    with server.agent("a", **SMALL) as agent:
        agent.remove(agent_name="a")
        yield agent


@pytest.fixture
def a(absent: RemoteAgent) -> RemoteAgent:
    absent.create_agent(4, 2, "dqn")
    return absent


def test_steps_are_applied_once_whatever_is_killed_and_whichever_answers_are_lost(
    server: Service, a: RemoteAgent, twin: RemoteAgent
) -> None:
    kinds = iter([True, False])

    def kill() -> None:
        server.kill(workers=next(kinds))
        server.start()

    with dropping() as answers, server.agent("a", retry_deadline=120.0) as through:
        stepped(through, 2, kill, steps=STEPS)
        assert len(answers) >= 580  # each third one is lost: of 598, 399 arrived; some were lost with the gateway
    assert timesteps(a) == STEPS
    assert alike(a, twin)


def test_the_agents_of_other_workers_answer_while_one_is_killed(
    server: Service, a: RemoteAgent, twin: RemoteAgent
) -> None:
    twin.act([0.0] * 4)
    folder, ours = server.folder("a"), server.worker_of("twin")
    assert server.worker_of("a") != ours

    def kill() -> None:
        pid = int((folder / "lock.pid").read_text())
        os.kill(pid, signal.SIGKILL)
        wait(lambda: (folder / "lock.pid").read_text() not in ("", str(pid)))

    stop = threading.Event()
    with ThreadPoolExecutor(1) as one, server.agent("twin", retry_deadline=0.0) as bystander:

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
    assert server.worker_of("twin") == ours
    assert timesteps(a) == STEPS
    assert alike(a, twin)


def test_a_gateway_that_is_killed_leaves_no_process_and_no_lock(server: Service, a: RemoteAgent) -> None:
    a.step(*step(0))
    folder = server.folder("a")
    with ThreadPoolExecutor(1) as one, server.agent("building", retry_deadline=0.0, hidden_layers=[9]) as other:
        creating = one.submit(other.create_agent, 4, 2, "dqn")
        wait(lambda: len(server.children()) == 3)  # the builder loads TensorFlow
        children = server.children()
        server.kill(workers=False)
        wait(lambda: not any(map(is_there, children)))
        assert isinstance(creating.exception(60), ServiceError)
    assert folders.holder(server.data) is None
    with FileLock(folder / "lock", timeout=30):  # a process is a zombie before its last thread has ended
        pass
    server.start()
    listed = {one["name"]: one for one in server.ask("GET", "/api/v1/agents")[2]}
    assert (listed["a"]["counters"]["global_timestep"], listed["a"]["executor"]) == (1, None)  # it is not opened
    assert timesteps(a) == 1
    assert other.exists is False
    assert [one.name for one in (server.data / "agents").iterdir() if one.name.startswith(".")] == []


def steps_until_it_fails(agent: RemoteAgent, begun: threading.Semaphore) -> int:
    count = 0
    with agent, contextlib.suppress(ServiceError):
        while True:
            agent.step(*step(count % STEPS))
            count += 1
            begun.release()
    return count


def test_a_signal_under_load_loses_nothing_that_was_answered(server: Service, a: RemoteAgent) -> None:
    begun = threading.Semaphore(0)
    with ThreadPoolExecutor(CLIENTS) as clients:
        counting = [
            clients.submit(steps_until_it_fails, server.agent("a", environment=f"e{k}", retry_deadline=0.0), begun)
            for k in range(CLIENTS)
        ]
        try:
            for _ in range(400):
                assert begun.acquire(timeout=240)
            assert server.stop() == 143
        finally:
            server.end()
        acknowledged = sum(one.result(60) for one in counting)
    server.start()
    assert acknowledged <= timesteps(a) <= acknowledged + CLIENTS


def test_a_worker_that_hangs_is_killed_and_started_again_and_does_not_delay_the_end(server: Service) -> None:
    sets = ["--set", "agents.hung_seconds=5", "--set", "agents.checkpoint_steps=10", "--grace", "2"]
    other = Service(server.data.with_name("hung"), server.programs, sets)
    with contextlib.closing(open_service(other.data, None)) as database:
        prometheus, _ = Accounts(database).create_token("alice", "metrics", ["metrics"], by_administrator=True)
    with running(other):
        agent = other.agent("a", **SMALL)
        agent.create_agent(4, 2, "dqn")
        for k in range(20):
            agent.step(*step(k))
        hung, checkpoints = other.worker_of("a"), other.folder("a") / "checkpoints"
        wait(lambda: len(list(checkpoints.glob("checkpoint-*"))) == 2)
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
        assert b"axonrl_hung_workers_total 1.0" in other.ask("GET", "/metrics", token=prometheus)[2]
        assert len(other.children()) == 2
        lines = [json.loads(line) for line in other.log.read_text().splitlines()]
        children = other.children()
        with ThreadPoolExecutor(1) as one:
            os.kill(other.worker_of("a"), signal.SIGSTOP)
            acting = one.submit(other.agent("a", retry_deadline=0.0).act, [0.0] * 4)
            wait(lambda: other.ask("GET", "/livez")[0] == 200)
            assert other.stop() == 143
            assert isinstance(acting.exception(60), ServiceError)
        assert not any(map(is_there, children))
    (killed,) = [line for line in lines if "hangs" in line["message"]]
    assert (killed["level"], f"process {hung}" in killed["message"]) == ("error", True)
    (warning,) = [line for line in lines if "is damaged" in line["message"]]
    assert (warning["level"], warning["logger"], warning["worker"]) == ("warning", "py.warnings", killed["worker"])
    assert warning["agent"] == newest.parts[-3]


def step_status(service: Service, k: int) -> tuple[int, str]:
    """A step that is sent once: status, and the code of a failure."""
    status, _, body = service.ask("POST", "/api/v1/agents/a/step", {"step_data": data(k)}, f"key-{k}")
    return status, body.get("code", "")


def fill(path: Path) -> None:
    """Write a file until the disk is full."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 12))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_disk_that_is_full(built: Built, programs: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        built("dqn", DQN)
        with serving(disk / "data", programs) as service:
            agent = service.agent("a", **SMALL)
            agent.create_agent(4, 2, "dqn")
            agent.step(*step(0))
            fill(disk / "filling")
            refused = [step_status(service, k) for k in range(1, 100)]
            assert refused[-1] == (507, "storage_full")
            kept = [k for k, answer in enumerate(refused, 1) if answer[0] == 200]  # what fitted into the last page
            assert {answer for answer in refused if answer[0] != 200} == {(507, "storage_full")}
            assert agent.act([0.0] * 4) in (0, 1)
            assert service.ready() == 503
            (disk / "filling").unlink()
            assert step_status(service, 100) == (200, "")
            wait(lambda: service.ready() == 200)
            service.kill()
            service.start()
            assert timesteps(agent) == len(kept) + 2
            service.end()
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


ZEROS = [0.0] * 4


def test_the_life_of_an_agent(server: Service, absent: RemoteAgent) -> None:
    a = absent
    assert a.exists is False
    created = a.create_agent(4, 2, "DQN")
    assert (created["name"], created["model"], created["is_active"], created["discrete"]) == ("a", "dqn", True, True)
    assert (a.exists, a.is_active) == (True, True)
    conflict = raised(Conflict, a.create_agent, 4, 2, "dqn")
    assert (conflict.status, conflict.code) == (409, "name_taken")
    assert a.act(ZEROS) in (0, 1)
    assert a.step(*step(0), key="k") is a.step(*step(0), key="k") is True
    assert raised(InvalidRequest, a.step, *step(1), key="k").code == "idempotency_key_reused"
    assert timesteps(a) == 1
    assert a.step_batch(*batch(1, 30)) == 29
    with server.agent("a") as second:  # which was told nothing
        second.sync()
        assert (second.state_size, second.action_size, second.agent_model) == (4, 2, "dqn")
        assert second.hparams == a.hparams
        assert {type(value) for value in a.hparams.values()} <= {int, float, str}
    state = a.get_state()
    a.deactivate()
    assert raised(Conflict, a.act, ZEROS).code == "agent_inactive"
    a.activate()
    assert a.get_state() == state
    assert a.upload_state(state) is True
    assert timesteps(a) == 30
    assert a.remove(agent_name="a") is True
    raised(NotFound, a.info)


def test_nobody_else_can_read_what_is_kept(server: Service, a: RemoteAgent) -> None:
    a.step_batch(*batch(0, 10))
    a.deactivate()  # is saved
    a.activate()
    a.step(*step(10))
    folder = server.folder("a")
    kept: dict[Any, int] = {path: path.stat().st_mode & 0o777 for path in (folder.parent, folder, *folder.rglob("*"))}
    assert {path.name for path in kept} >= {"run.json", "state.json", "arrays.safetensors", "lock", "journal"}
    assert {path: oct(mode) for path, mode in kept.items() if mode != (0o700 if path.is_dir() else 0o600)} == {}


def test_what_commands_change_holds_while_the_service_runs(server: Service, commands: Commands) -> None:
    def command(*words: str, stdin: str = "") -> str:
        done = commands.on(server.data)(*words, stdin=stdin)
        assert done.code == 0, done.err
        return done.out

    def client(name: str = "carol", **more: Any) -> RemoteAgent:
        given = more or {"username": name, "password": PASSWORD}
        return RemoteAgent("cart", url=server.url, retry_deadline=0.0, **given)

    for name in ("carol", "bob"):
        command("add-user", name, "--password-stdin", stdin=f"{PASSWORD}\n")
    made = command("create-token", "carol", "--name", "game", "--scopes", "act,read").strip()
    kept = command("create-token", "carol", "--name", "another", "--scopes", "read").strip()
    carol, bob = client(), client("bob")  # a login asks for what is new in the database
    game, other = client(access_token=made), client(access_token=kept)
    assert [one.exists for one in (carol, bob, game, other)] == [False] * 4
    listed = json.loads(command("list-tokens", "carol", "--json"))
    (id,) = (one["id"] for one in listed if one["name"] == "game")
    command("revoke-token", id)
    command("set-password", "carol", "--password-stdin", stdin="another horse battery\n")
    command("disable-user", "bob")
    for ended in (game, carol, bob):
        wait(functools.partial(is_refused, ended))
    assert other.exists is False  # a token that was made is not a login
    for name in ("carol", "bob"):
        assert raised(AuthenticationError, client, name).code == "invalid_credentials"
    again = client(username="carol", password="another horse battery")
    assert again.exists is False
    for one in (carol, bob, game, other, again):
        one.close()
    tokens = json.loads(command("list-tokens", "carol", "--json"))
    assert [one["name"] for one in tokens if one["revoked_at"] is None] == ["another"]  # closed logins have ended


def is_refused(client: RemoteAgent) -> bool:
    try:
        client.exists  # noqa: B018
    except AuthenticationError as error:
        return (error.status, error.code) == (401, "invalid_token")
    return False
