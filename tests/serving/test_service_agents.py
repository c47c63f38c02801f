"""Agents of a running service: what changes them and what does not, with real workers and a real data folder."""

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from axonrl.serving import Conflict, RemoteAgent
from axonrl.serving.catalogue import Recipe

from .experience import alike, batch, step
from .service import Service, serving, wait_for

Built = Callable[..., Recipe]
Created = Callable[..., RemoteAgent]
SMALL: dict[str, Any] = {"seed": 0, "hidden_layers": [8], "batch_size": 8, "buffer_size": 500}
SIZES = {**SMALL, "state_size": 4, "action_size": 2}
API = "/api/v1/agents"
ZEROS = [0.0] * 4


@pytest.fixture(scope="module")
def service(built: Built, programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    built("dqn", SIZES)
    built("ddpg", {**SMALL, "state_size": 3, "action_size": 3})
    with serving(tmp_path_factory.mktemp("service") / "data", programs) as started:
        yield started
        assert "Traceback" not in started.log.read_text()


@pytest.fixture
def created(service: Service) -> Iterator[Created]:
    """Makes agents, which are removed after the test."""
    made: list[RemoteAgent] = []

    def create(name: str, model: str = "dqn", size: int = 4, actions: int = 2, **more: Any) -> RemoteAgent:
        made.append(service.agent(name, **{**SMALL, **more}))
        made[-1].create_agent(size, actions, model)
        return made[-1]

    yield create
    for one in made:
        one.remove(agent_name=one.agent_name)
        one.close()


def data(k: int, **more: Any) -> dict[str, Any]:
    """Step k of the made-up environment."""
    state, action, reward, after, done = step(k)
    return {"state": state, "action": [action], "reward": reward, "next_state": after, "done": done, **more}


def send(service: Service, name: str, steps: list[dict[str, Any]]) -> None:
    """As a client of its own would: nothing is put right on the way."""
    status, _, body = service.ask("POST", f"{API}/{name}/steps", {"steps": steps})
    assert (status, body["accepted"]) == (200, len(steps)), body


def executor(service: Service, name: str) -> str | None:
    """What runs it; None while it is not in memory. The list of agents wakes none."""
    found: str | None = next(one["executor"] for one in service.ask("GET", API)[2] if one["name"] == name)
    return found


# -- resting ----------------------------------------------------------------------------------------------------------


def test_an_inactive_agent_takes_no_memory_and_is_the_same_when_it_is_active_again(
    service: Service, created: Created
) -> None:
    a = created("a")
    a.step_batch(*batch(0, 30))
    before, folder = a.get_state(), service.folder("a")
    assert executor(service, "a") == "litert"
    a.deactivate()
    assert executor(service, "a") is None
    with FileLock(folder / "lock", timeout=0):  # no process has it
        uses: list[Callable[[], object]] = [lambda: a.act(ZEROS), lambda: a.step(*step(0))]
        for use in uses:
            with pytest.raises(Conflict) as error:
                use()
            assert (error.value.status, error.value.code) == (409, "agent_inactive")
    info = a.info()
    assert (info["is_active"], info["executor"], info["counters"]["global_timestep"]) == (False, None, 30)
    a.activate()
    assert (a.is_active, a.act(ZEROS) in (0, 1)) == (True, True)
    assert a.get_state() == before


# -- endings ----------------------------------------------------------------------------------------------------------


def test_a_step_that_is_done_and_truncated_is_terminal(service: Service, created: Created) -> None:
    endings: dict[str, dict[str, Any]] = {
        "both": {"done": True, "truncated": True},
        "done": {"done": True, "truncated": False},
        "truncated": {"done": False, "truncated": True},
    }
    agents = {name: created(name) for name in endings}
    for name, ending in endings.items():
        send(service, name, [data(k, **(ending if k % 4 == 3 else {})) for k in range(16)])
    assert [(one["terminated"], one["truncated"]) for one in agents["both"].episodes()] == [(True, False)] * 4
    assert alike(agents["both"], agents["done"])
    assert agents["both"].get_state().encoded_network != agents["truncated"].get_state().encoded_network


def test_an_episode_that_is_ended_by_hand_is_truncated(service: Service, created: Created) -> None:
    ended, truncated, running = (created(name, n_steps=3) for name in ("ended", "truncated", "running"))
    for name in ("ended", "truncated", "running"):
        ends = {"truncated": True} if name == "truncated" else {}
        send(service, name, [data(k, environment="e", **(ends if k == 9 else {})) for k in range(10)])
        if name == "ended":
            ended.end_episode()
        send(service, name, [data(k, environment="e") for k in range(10, 30)])
    found = [(one["length"], one["terminated"], one["truncated"], one["environment"]) for one in ended.episodes()]
    assert found == [(10, False, True, "e"), (10, True, False, "e")]
    network = ended.get_state().encoded_network
    assert network == truncated.get_state().encoded_network
    assert network != running.get_state().encoded_network  # whose sums of rewards go on over the reset


# -- exploring --------------------------------------------------------------------------------------------------------


def test_an_agent_s_own_exploration_follows_its_timesteps(created: Created) -> None:
    """Epsilon falls from 1 to 0.05 in 10,000 timesteps; half of the random actions are the greedy one."""
    agent, states = created("explorer", warm_up=100_000), [ZEROS] * 1_000
    greedy = agent.act(ZEROS)

    def explored() -> int:
        return sum(action != greedy for action in agent.act_batch(states, explore=True))

    assert 420 < explored() < 580  # 500 expected, of a standard deviation of 16
    for timesteps, least, most in ((5_000, 185, 340), (10_000, 3, 60)):  # 262 of 14; 25 of 5
        for _ in range(5):
            agent.step_batch(*batch(0, 1_000))
        assert agent.info()["counters"]["global_timestep"] == timesteps
        assert least < explored() < most
    assert agent.act_batch(states, explore=False) == [greedy] * 1_000


# -- states -----------------------------------------------------------------------------------------------------------


def test_a_state_travels_as_one_file(service: Service, created: Created) -> None:
    first, second = created("first"), created("second")
    first.step_batch(*batch(0, 40))
    second.step_batch(*batch(100, 110))
    status, file = service.transfer("GET", f"{API}/first/state")
    assert status == 200
    assert service.transfer("GET", f"{API}/second/state")[1] != file
    assert service.transfer("PUT", f"{API}/second/state", file) == (200, b'{"uploaded":"second"}')
    assert service.transfer("GET", f"{API}/second/state") == (200, file)
    assert second.get_state() == first.get_state()
    states = np.random.default_rng(0).normal(size=(50, 4)).tolist()
    assert second.act_batch(states) == first.act_batch(states)
    assert second.info()["counters"] == first.info()["counters"]


# -- what is refused --------------------------------------------------------------------------------------------------


def test_refused_steps_leave_an_agent_that_has_learned_as_it_was(service: Service, created: Created) -> None:
    dqn, box = created("dqn"), created("box", "ddpg", 3, 3)
    dqn.step_batch(*batch(0, 30))
    whole = {"state": [0.1, 0.2, 0.3], "action": [0.5, 0.0, 1.0], "reward": 1.0, "next_state": [0.0] * 3, "done": False}
    send(service, "box", [whole] * 20)
    before = [(agent.info()["counters"], agent.get_state()) for agent in (dqn, box)]
    assert all(counters["global_step"] > 0 for counters, _ in before)
    refused: list[tuple[str, dict[str, Any], str]] = [
        ("dqn", data(0, action=[2]), "action[0]"),
        ("dqn", data(0, action=[True]), "action[0]"),
        ("dqn", data(0, state=[1, 2, 3, None]), "state[3]"),
        ("dqn", data(0, reward=1e39), "reward"),
        ("dqn", data(0, done="yes"), "done"),
        ("box", {**whole, "action": [0.5, 1.001, 0.5]}, "action[1]"),
        ("box", {**whole, "action": [-0.001, 0.5, 0.5]}, "action[0]"),
        ("box", {**whole, "action": [0.5, 0.5]}, "action"),
        ("box", {**whole, "action": [0.5, 0.5, 0.5, 0.5]}, "action"),
        ("box", {**whole, "action": [[0.5, 0.5, 0.5]]}, "action"),
        ("box", {**whole, "action": 0.5}, "action"),
    ]
    for name, sent, where in refused:
        status, _, body = service.ask("POST", f"{API}/{name}/step", {"step_data": sent})
        assert (status, body["code"], body["errors"][0]["where"]) == (422, "invalid_value", f"step_data.{where}")
        good = {**sent, **(whole if name == "box" else data(0))}
        status, _, body = service.ask("POST", f"{API}/{name}/steps", {"steps": [good, sent]})
        assert (status, body["errors"][0]["where"]) == (422, f"steps[1].{where}")
    assert [(agent.info()["counters"], agent.get_state()) for agent in (dqn, box)] == before


def test_what_comes_behind_a_body_is_no_request(service: Service, created: Created) -> None:
    """Where ``Content-Length`` says less than what is sent."""
    a = created("a")
    a.step_batch(*batch(0, 10))
    before = a.get_state()
    body = json.dumps({"step_data": data(0)}).encode()
    for length, sent in ((len(body) - 5, body), (len(b"{}"), b"{}" + body), (0, body)):
        head = f"POST {API}/a/step HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.token}\r\n"
        with socket.create_connection(("127.0.0.1", service.port), timeout=30) as connection:
            connection.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % length + sent + b"\r\n\r\n")
            received = b""
            while part := connection.recv(65536):  # until the service closes the connection
                received += part
        found = [line.split()[1] for line in received.splitlines() if line.startswith(b"HTTP/1.1 ")]
        assert set(found) <= {b"400", b"422"}  # it may be closed without an answer
    assert a.get_state() == before


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"lr": -1}, "lr", "0 .. inf"),
    ({"gamma": 2}, "gamma", "at most 1"),
    ({"buffer_size": 1e12}, "buffer_size", "at most 2,147,483,647"),
    ({"hidden_layers": [1e9]}, "hidden_layers", "at most 1024"),
    ({"hiden_layers": [8]}, "hiden_layers", "'hidden_layers'"),
    ({"nosuch": 1}, "nosuch", "hidden_layers"),
]


def test_refused_hyperparameters_leave_nothing_on_the_disk(service: Service, created: Created) -> None:
    created("there").step(*step(0))

    def files() -> set[Path]:
        found = {path.relative_to(service.data) for path in service.data.rglob("*")}
        return {path for path in found if not path.name.startswith("service.db-")}  # SQLite's own come and go

    wait_for(lambda: executor(service, "there") == "litert")
    before, programs, children = files(), set(service.programs.iterdir()), service.children()
    for given, name, told in [*BAD, ({f"k{k}": 1 for k in range(10_000)}, "", "100")]:
        config = {**SIZES, **given}
        status, _, body = service.ask("POST", API, {"name": "new", "model": "dqn", "config": config})
        where = f"config.{name}" if name else "config.config"
        assert (status, body["code"], body["errors"][0]["where"]) == (422, "invalid_value", where), body
        assert told in body["detail"], body
    assert service.ask("GET", f"{API}/new")[0] == 404
    assert (files(), set(service.programs.iterdir()), service.children()) == (before, programs, children)


# -- the folder -------------------------------------------------------------------------------------------------------


def test_nobody_else_can_read_what_is_kept(service: Service, created: Created) -> None:
    a = created("a")
    a.step_batch(*batch(0, 10))
    a.deactivate()  # is saved
    a.activate()
    a.step(*step(10))
    folder = service.folder("a")
    kept = {path: path.stat().st_mode & 0o777 for path in (folder.parent, folder, *folder.rglob("*"))}
    assert {path.name for path in kept} >= {"run.json", "state.json", "arrays.safetensors", "lock", "journal"}
    assert {path: oct(mode) for path, mode in kept.items() if mode != (0o700 if path.is_dir() else 0o600)} == {}
