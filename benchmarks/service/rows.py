"""Rows of the benchmark: a function for each, from its sizes to quantities by name."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final
from unittest import mock

from ...serving.accounts import Accounts, AgentRows, RefusedError, open_service
from ...serving.limits import LoginLimits
from ..timing import seconds_of
from .load import Load
from .processes import PASSWORD, USER, Service, bare, kill, load, service

BATCH: Final = 256
ADDED_MILLISECONDS: Final = 0.15
"""Milliseconds that an act may take beyond the bare endpoint."""
SECRET: Final = "x"
"""Stand-in for a token at the bare endpoint."""
AT_MOST: Final = "at most"
"""A row with what another one should not exceed."""
BESIDE_SLOW: Final = "beside 500 connections that never finish"
ROUNDS: Final = 3
PROGRAMS: Final = "AXONRL_BENCHMARK_PROGRAMS"
"""A variable of the environment: the folder of compiled programs, that not every row compiles its own."""
EVERY_4: Final = {"update_freq": 4, "seed": 1}
NEVER: Final[dict[str, Any]] = {"agents__checkpoint_steps": 10**9, "agents__checkpoint_seconds": 10**6}
"""Checkpoints, where all that was accepted is to stay in the journal."""
TENSORFLOW: Final = """
import sys, tempfile
from axonrl import Agent, RunConfig
from axonrl.environments import make
from axonrl.memories import ReplayMemory
from axonrl.models import dqn
config = RunConfig(seed=0, runtime="tensorflow", progress=False)
agent = Agent(dqn.model_fn, ReplayMemory(100_000, batch_size=64), tempfile.mkdtemp(), config)
agent.train("CartPole-v1", first_update=64, timesteps=200)
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS")][0], flush=True)
"""


@contextlib.contextmanager
def running(**sets: Any) -> Iterator[Service]:
    """A service with an empty folder."""
    with data_folder() as data, service(data, **sets) as found:
        yield found


@contextlib.contextmanager
def data_folder() -> Iterator[Path]:
    """A data folder, which links the compiled programs that there are."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        data.mkdir(mode=0o700)
        if PROGRAMS in os.environ:
            (data / "programs").symlink_to(os.environ[PROGRAMS])
        yield data


def act(seconds: float, connections: int) -> dict[str, float]:
    """Acts from several connections, beside the bare endpoint."""
    ours, theirs = compare_with_bare("act", seconds, connections, "rate")
    return {"act": ours, "act, bare endpoint": theirs}


def step(seconds: float, connections: int) -> dict[str, float]:
    """Steps from several connections, one update per 4, beside the bare endpoint."""
    ours, theirs = compare_with_bare("step", seconds, connections, "rate")
    return {"step, one update per 4": ours, "step, bare endpoint": theirs}


def latency(seconds: float) -> dict[str, float]:
    """The time of an act over one connection, beside the bare endpoint."""
    ours, theirs, slowest, their_slowest = compare_with_bare("act", seconds, 1, "p50", "p99")
    return {
        "act, p50, ms": ours,
        "act, p50, ms, bare endpoint": theirs,
        f"act, p50, ms, {AT_MOST}": theirs + ADDED_MILLISECONDS,
        "act, p99, ms": slowest,
        "act, p99, ms, bare endpoint": their_slowest,
    }


def compare_with_bare(kind: str, seconds: float, connections: int, *quantities: str) -> list[float]:
    """Each quantity, of the service and of the bare endpoint: medians of three measurements in turn."""
    found: list[list[float]] = [[] for _ in range(2 * len(quantities))]
    with running() as one, bare() as port:
        one.create("cart", **EVERY_4)
        for _ in range(ROUNDS):
            for k, (at, token) in enumerate(((one.port, one.token), (port, SECRET))):
                measured = load(Load(at, token, "cart", kind, connections=connections, seconds=seconds))
                for number, quantity in enumerate(quantities):
                    found[2 * number + k].append(measured[quantity])
    return list(map(statistics.median, found))


def step_batch(seconds: float) -> dict[str, float]:
    """Batches of steps, one update per 4, beside a Stepper in a loop of its own process."""
    with running() as one:
        one.create("cart", **EVERY_4)
        command = [sys.executable, "-m", "axonrl.benchmarks.service.stepper", str(one.folder / "programs")]
        ours, theirs = [], []
        for _ in range(ROUNDS):
            found = one.load("cart", "step_batch", connections=2, seconds=seconds, batch=BATCH)
            ours.append(found["rate"] * BATCH)
            done = subprocess.run(
                [*command, json.dumps(EVERY_4), str(seconds)], check=True, stdout=subprocess.PIPE, text=True
            )
            theirs.append(float(done.stdout))
    return {f"step_batch of {BATCH}": statistics.median(ours), "a Stepper in a loop": statistics.median(theirs)}


def act_batch(seconds: float) -> dict[str, float]:
    """Batches of acts beside single ones, over one connection: observations per second."""
    with running() as one:
        one.create("cart", seed=1)
        many, single = [], []
        for _ in range(ROUNDS):
            many.append(one.load("cart", "act_batch", seconds=seconds, batch=BATCH)["rate"] * BATCH)
            single.append(one.load("cart", "act", seconds=seconds)["rate"])
    return {f"act_batch of {BATCH}": statistics.median(many), "single acts": statistics.median(single)}


def client(calls: int) -> dict[str, float]:
    """Microseconds that an act costs the client, beside http.client."""
    from ..serving_client import measure_calls

    found = measure_calls(calls, 3)
    return {"client, act, us": found["RemoteAgent.act"], "client, http.client, us": found["http.client"]}


def agents(number: int) -> dict[str, float]:
    """Creating agents, and the memory of many; beside a TensorFlow process for each."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, AXONRL_CACHE=""),  # so that the first of its kind is compiled
        service(Path(folder, "data")) as one,
    ):
        first = one.create("agent-0", seed=1)
        later = [one.create(f"agent-{k}") for k in range(1, number)]
        mebibytes = one.mebibytes()
    done = subprocess.run([sys.executable, "-c", TENSORFLOW], check=True, stdout=subprocess.PIPE, text=True)
    return {
        **with_limit("create, first of its kind, s", first, 8.0),
        **with_limit("create, next of its kind, s", statistics.median(later), 0.3),
        **with_limit("gateway and workers, MiB", mebibytes, 1024.0),
        "for each agent, MiB": mebibytes / number,
        "a TensorFlow process, MiB": int(done.stdout) / 1024,
    }


def asleep(number: int, transitions: int, woken: int) -> dict[str, float]:
    """Agents of whom nothing is in memory: what they cost, the page that lists them, and how soon one acts."""
    with data_folder() as data:
        with service(data) as one:
            token = one.token
            one.create("taught", **EVERY_4)
            one.load("taught", "step_batch", batch=100, requests=max(transitions // 100, 1))
        with service(data, token) as one:
            act_once(one, "taught")  # so that the worker is there
            alone = one.mebibytes()
        copies(data, "taught", number, woken)
        with service(data, token) as one:
            act_once(one, "taught")
            kibibytes = max(one.mebibytes() - alone, 0.0) * 1024
            pages = [seconds_of(lambda: one.get("/api/v1/agents/?limit=100")) for _ in range(20)]
            waking = [seconds_of(functools.partial(act_once, one, f"copy-{k}")) for k in range(woken)]
    slowest = sorted(waking)[min(woken * 99 // 100, woken - 1)]
    return {
        **with_limit("memory of each, KiB", kibibytes / number, 1.0),
        **with_limit("a page of the list, ms", 1000 * statistics.median(pages), 200.0),
        **with_limit("waking one, p99, ms", 1000 * slowest, 150.0),
    }


def fairness(seconds: float) -> dict[str, float]:
    """The p99 of a DQN's act, alone and beside one of 2x512 that learns at every step."""
    with running() as one:
        one.create("small", seed=1)
        one.create("large", seed=1, hidden_layers=[512, 512], update_freq=1)
        one.load("large", "step", requests=70)
        without = one.load("small", "act", seconds=seconds)["p99"]
        with ThreadPoolExecutor(1) as threads:
            busy = threads.submit(one.load, "large", "step", seconds=seconds * 3)
            time.sleep(seconds)
            together = one.load("small", "act", seconds=seconds)["p99"]
            busy.result()
    return {"act, p99, ms, beside a large one that learns": together, "act, p99, ms, alone": without}


def slow_clients(seconds: float, connections: int) -> dict[str, float]:
    """The p99 of an act, alone and beside connections of which each sends a byte of a header a second."""
    with running(http__connections_per_address=0) as one, contextlib.ExitStack() as opened:
        one.create("cart", seed=1)
        without = one.load("cart", "act", seconds=seconds)["p99"]
        address = ("127.0.0.1", one.port)
        slow = [opened.enter_context(socket.create_connection(address)) for _ in range(connections)]
        stop = threading.Event()
        with ThreadPoolExecutor(1) as threads:
            threads.submit(_drip, slow, stop)
            together = one.load("cart", "act", seconds=seconds)["p99"]
            stop.set()
    return {f"act, p99, ms, {BESIDE_SLOW}": together, "act, p99, ms, without them": without}


def _drip(connections: Sequence[socket.socket], stop: threading.Event) -> None:
    for byte in itertools.cycle(b"GET /livez HTTP/1.1\r\nX-Slow: " + b"x" * 10**6):
        for connection in connections:
            with contextlib.suppress(OSError):  # the service has closed it
                connection.send(bytes([byte]))
        if stop.wait(1):
            return


def logins(tries: int) -> dict[str, float]:
    """Time of a refused login, for a known and for an unknown name."""
    hours = itertools.count()
    with tempfile.TemporaryDirectory() as folder:
        database = open_service(Path(folder, "data"))
        accounts = Accounts(database, limits=LoginLimits(lambda: 3600.0 * next(hours)))
        try:
            accounts.add_user(USER, PASSWORD)
            took: dict[str, list[float]] = {USER: [], "nobody": []}
            for _ in range(tries):
                for name, seconds in took.items():
                    seconds.append(seconds_of(functools.partial(_fail_login, accounts, name)))
        finally:
            database.close()
    wrong, unknown = (1000 * statistics.median(seconds) for seconds in took.values())
    return {"a refused login, unknown name, ms": unknown, "a refused login, wrong password, ms": wrong}


def _fail_login(accounts: Accounts, name: str) -> None:
    with contextlib.suppress(RefusedError):
        accounts.login(name, "not the password of anybody", "192.0.2.1")
        raise RuntimeError("the login was not refused")


def recovery(number: int, records: int) -> dict[str, float]:
    """Agents with journals that nothing was saved of: seconds until the service is ready, and until they act."""
    with data_folder() as data:
        with service(data, **NEVER) as one:
            token = one.token
            one.create("taught", seed=1, update_freq=1)
            one.load("taught", "step", connections=8, requests=records)
            kill(one)
        copies(data, "taught", number, number)
        with service(data, token, **NEVER) as one, ThreadPoolExecutor(number) as threads:
            ready, began = one.seconds, time.perf_counter()
            each = list(threads.map(lambda k: act_once(one, f"copy-{k}") - began, range(number)))
    return {
        **with_limit("ready after a crash, s", ready, 3.0),
        **with_limit("the first agent acts, s", min(each), 5.0),
        **with_limit("all act, s", max(each), 60.0),
    }


def with_limit(name: str, value: float, most: float) -> dict[str, float]:
    """A quantity, and what it should not exceed."""
    return {name: value, f"{name}, {AT_MOST}": most}


def copies(data: Path, taught: str, number: int, whole: int) -> None:
    """Put agents into a service that is stopped: rows of all, and folders of the first, as the taught one has it."""
    database = open_service(data)
    try:
        owner, rows = Accounts(database).user(USER).id, AgentRows(database)
        model = rows.by_name(owner, taught)
        if model is None:
            raise RuntimeError(f"there is no agent {taught}")
        for k in range(number):
            row = rows.add(owner, f"copy-{k}", model.model, "", model.config)
            if k < whole:
                shutil.copytree(data / "agents" / model.id, data / "agents" / row.id)
            rows.set_ready(row.id)
    finally:
        database.close()


def act_once(one: Service, name: str) -> float:
    """Act; returns when that was done."""
    known: Mapping[str, Any] = {"state_size": 4, "action_size": 2, "agent_model": "dqn"}
    with one.agent(name, **known) as agent:
        agent.act([0.1, 0.2, 0.3, 0.4])
    return time.perf_counter()
