"""What is measured: a function for each row, from its sizes to quantities by name."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from ...serving.accounts import Accounts, AgentRows, open_service
from .load import Load
from .running import USER, Service, bare, kill, load, service

BATCH: Final = 256
ADDED_MILLISECONDS: Final = 0.15
"""What an act may take beyond the bare endpoint."""
SECRET: Final = "x"
"""In place of a token, for the bare endpoint."""
EVERY_4: Final = {"update_freq": 4, "seed": 1}
NEVER: Final = {"agents__checkpoint_steps": 10**9, "agents__checkpoint_seconds": 10**6}
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
    with tempfile.TemporaryDirectory() as folder, service(Path(folder, "data"), **sets) as found:
        yield found


def act(seconds: float, connections: int) -> dict[str, float]:
    """Acts from several connections, and from one: rates and latencies, beside those of the bare endpoint."""
    found: dict[str, dict[str, list[float]]] = {}
    with running() as one, bare() as port:
        one.create("cart", seed=1)
        targets = {"service": (one.port, one.token), "bare endpoint": (port, SECRET)}
        for _ in range(3):
            for name, (at, token) in targets.items():
                for count in (1, connections):
                    measured = load(Load(at, token, "cart", "act", connections=count, seconds=seconds))
                    for quantity, value in measured.items():
                        found.setdefault(f"{name}, {count}", {}).setdefault(quantity, []).append(value)
    medians = {name: {key: statistics.median(all_) for key, all_ in values.items()} for name, values in found.items()}
    ours, theirs = medians["service, 1"], medians["bare endpoint, 1"]
    return {
        f"act, {connections} connections": medians[f"service, {connections}"]["rate"],
        f"act, {connections} connections, bare endpoint": medians[f"bare endpoint, {connections}"]["rate"],
        "act, p50": ours["p50"],
        "act, p50, bare endpoint": theirs["p50"],
        "act, p50, what it may be": theirs["p50"] + ADDED_MILLISECONDS,
        "act, p99": ours["p99"],
        "act, p99, bare endpoint": theirs["p99"],
    }


def step(seconds: float, connections: int) -> dict[str, float]:
    """Steps from several connections, one update per 4, beside the bare endpoint."""
    with running() as one, bare() as port:
        one.create("cart", **EVERY_4)
        ours, theirs = [], []
        for _ in range(3):
            ours.append(one.load("cart", "step", connections=connections, seconds=seconds)["rate"])
            theirs.append(load(Load(port, SECRET, "cart", "step", connections=connections, seconds=seconds))["rate"])
    name = f"step, {connections} connections"
    return {name: statistics.median(ours), f"{name}, bare endpoint": statistics.median(theirs)}


def step_batch(seconds: float) -> dict[str, float]:
    """Batches of steps, one update per 4, beside a Stepper in a loop of its own process."""
    with running() as one:
        one.create("cart", **EVERY_4)
        command = [sys.executable, "-m", "axonrl.benchmarks.service.stepper", str(one.folder / "programs")]
        ours, theirs = [], []
        for _ in range(3):
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
        for _ in range(3):
            many.append(one.load("cart", "act_batch", seconds=seconds, batch=BATCH)["rate"] * BATCH)
            single.append(one.load("cart", "act", seconds=seconds)["rate"])
    return {f"act_batch of {BATCH}": statistics.median(many), "single acts": statistics.median(single)}


def client(calls: int) -> dict[str, float]:
    """What an act costs the client, beside http.client: microseconds."""
    from ..serving_client import measured

    found = measured(calls, 3)
    return {"client, act": found["RemoteAgent.act"], "client, http.client": found["http.client"]}


def agents(number: int) -> dict[str, float]:
    """Creating agents, and the memory of many; beside a TensorFlow process for each: agents per GB."""
    with running() as one:
        first = one.create("agent-0", seed=1)
        with ThreadPoolExecutor(1) as threads:
            later = list(threads.map(lambda k: one.create(f"agent-{k}"), range(1, number)))
        mebibytes = one.mebibytes()
    done = subprocess.run([sys.executable, "-c", TENSORFLOW], check=True, stdout=subprocess.PIPE, text=True)
    gib = mebibytes / 1024
    return {
        "create, first of its kind": first,
        "create, next of its kind": statistics.median(later),
        f"{number} agents, GiB": gib,
        "agents per GiB": number / gib,
        "TensorFlow processes per GiB": 2**20 / float(done.stdout),
    }


def asleep(number: int, transitions: int, woken: int) -> dict[str, float]:
    """Agents of whom nothing is in memory: what they cost, the page that lists them, and how soon one acts."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        with service(data) as one:
            token = one.token
            one.create("taught", **EVERY_4)
            one.load("taught", "step_batch", batch=100, requests=max(transitions // 100, 1))
        with service(data, token) as one:
            alone = one.mebibytes()
        copies(data, "taught", number, woken)
        with service(data, token) as one:
            memory = one.mebibytes() - alone
            pages = [timed(lambda: one.get("/api/v1/agents/?limit=100")) for _ in range(20)]
            waking = [timed(functools.partial(act_once, one, f"copy-{k}")) for k in range(woken)]
    return {
        f"{number} asleep, MiB in all": max(memory, 0.0),
        "a page of the list, ms": 1000 * statistics.median(pages),
        f"waking with {transitions} transitions, p99, ms": 1000 * sorted(waking)[min(woken * 99 // 100, woken - 1)],
    }


def fairness(seconds: float) -> dict[str, float]:
    """The p99 of a DQN's act, alone and beside one of 2x512 that learns at every step."""
    with running() as one:
        one.create("small", seed=1)
        one.create("large", seed=1, hidden_layers=[512, 512], update_freq=1)
        one.load("large", "step", requests=200)
        without = one.load("small", "act", seconds=seconds)["p99"]
        with ThreadPoolExecutor(1) as threads:
            busy = threads.submit(one.load, "large", "step", seconds=seconds * 2)
            time.sleep(seconds / 2)
            beside = one.load("small", "act", seconds=seconds)["p99"]
            busy.result()
    return {"act, p99, beside a large agent that learns": beside, "act, p99, alone": without}


def recovery(number: int, records: int) -> dict[str, float]:
    """Agents with journals that nothing was saved of: seconds until the service is ready, and until they act."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        with service(data, **NEVER) as one:
            token = one.token
            one.create("taught", seed=1, update_freq=1)
            one.load("taught", "step", connections=8, requests=records)
            kill(one)
        copies(data, "taught", number, number)
        with service(data, token, **NEVER) as one, ThreadPoolExecutor(number) as threads:
            ready, began = one.seconds, time.perf_counter()
            each = list(threads.map(lambda k: act_once(one, f"copy-{k}") - began, range(number)))
    return {"ready after a crash": ready, "the first agent": min(each), "all agents": max(each)}


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
            rows.set_status(row.id, "ready")
    finally:
        database.close()


def timed(call: Callable[[], Any]) -> float:
    """Seconds of a call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def act_once(one: Service, name: str) -> float:
    """Act; returns when that was done."""
    known: Mapping[str, Any] = {"state_size": 4, "action_size": 2, "agent_model": "dqn"}
    with one.agent(name, **known) as agent:
        agent.act([0.1, 0.2, 0.3, 0.4])
    return time.perf_counter()
