"""Kill the processes of a service while it is used, and send it what it was not made for.

    python -m axonrl.benchmarks.serving_soak [--minutes 30] [--kills 20] [--requests 200000] [--only kills mixed fuzz]

``make soak`` does so after the trainings on Ray. Three parts: *kills* of the gateway at random instants of 1,000 steps,
after which the weights are those of an agent that nothing disturbed; *mixed*, 50 clients that act, step, read, create,
remove and move states while workers are killed; *fuzz*, requests that are made up. It prints Markdown: memory,
descriptors, threads and files and their growth after the first fifth of the time, and whether steps add up. It ends
with code 1 where something does not.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from axonrl.serving import Conflict, NotFound, RemoteAgent
from axonrl.serving.accounts import Accounts, open_service
from axonrl.serving.accounts.grants import SCOPES

from ..tests.experiments.sharing import wait
from ..tests.serving.experience import STEPS, alike, batch, step, stepped
from ..tests.serving.service import Service, is_there, serving
from .serving_fuzz import AGENTS, USERS, bombard
from .serving_watch import Watch, workers_of

PARTS: Final = ("kills", "mixed", "fuzz")
SMALL: Final[dict[str, Any]] = {"seed": 0, "hidden_layers": [8], "batch_size": 8, "buffer_size": 500}
CLIENTS: Final = {"step": 20, "act": 14, "batch": 4, "read": 5, "state": 3, "create": 4}
SHARED: Final = 10
"""Agents that the clients share."""
PASSWORD: Final = "correct horse battery"
MOST_REFUSED: Final = 0.1
"""Share of made-up requests that may be refused as if their tokens were invalid."""
PAUSE_S: Final = 0.02
BYTES_OF_KEY: Final = 450
"""Memory of a request with steps in a worker; an agent remembers the last 100,000. 370 were measured."""
BYTES_OF_EPISODE: Final = 300
"""Memory of an episode; an agent remembers the last 10,000. 240 were measured. One step of 20 ends one."""


# -- kills of the gateway ---------------------------------------------------------------------------------------------


def kill_gateway(service: Service, kills: int) -> list[str]:
    """Kill the gateway, and every other time its workers too, at random instants of 1,000 steps."""
    print(f"\n### The gateway killed {kills} times within {STEPS:,} steps\n")
    agents = [service.agent(name, retry_deadline=300.0, **SMALL) for name in ("disturbed", "twin")]
    for agent in agents:
        agent.create_agent(4, 2, "dqn")
    found, starts = list[str](), list[float]()

    def kill() -> None:
        children = service.children()
        service.kill(workers=len(starts) % 2 == 1)
        began = time.monotonic()
        try:
            wait(lambda: not any(map(is_there, children)), 2)
        except AssertionError:
            found.append(f"kills: a process is there 2 s after the gateway: {[p for p in children if is_there(p)]}")
        service.start()
        starts.append(time.monotonic() - began)

    stepped(agents[0], kills, kill, seed=random.randrange(2**32))
    agents[1].step_batch(*batch(0, STEPS))
    counted = agents[0].info()["counters"]["global_timestep"]
    if counted != STEPS:
        found.append(f"kills: {STEPS} steps were acknowledged, and {counted} counted")
    if not alike(*agents):
        found.append("kills: the weights differ from those of an agent that was not disturbed")
    print(f"Counted {counted} steps; ready again within {max(starts):.1f} s.", flush=True)
    return found


# -- mixed clients ----------------------------------------------------------------------------------------------------


class Mixed:
    """Work of the clients, each over and over until the time is over."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.stop = threading.Event()
        self.acknowledged: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self._guard = threading.Lock()

    def client(self, kind: str, number: int) -> None:
        """One of the clients."""
        dice = random.Random(f"{kind} {number}")
        shared = f"shared-{number % SHARED}"
        name = {"state": f"state-{number}", "create": f"created-{number}"}.get(kind, shared)
        act: Callable[[RemoteAgent, str, random.Random], None] = getattr(self, f"_{kind}")
        with self._service.agent(name, environment=f"{kind}{number}", retry_deadline=120.0, **SMALL) as agent:
            if kind == "state":
                agent.create_agent(4, 2, "dqn")
            while not self.stop.wait(PAUSE_S * dice.random() * 2):
                act(agent, name, dice)
                with self._guard:
                    self.calls[kind] += 1

    def _count(self, name: str, steps: int) -> None:
        with self._guard:
            self.acknowledged[name] += steps

    def _step(self, agent: RemoteAgent, name: str, dice: random.Random) -> None:
        agent.step(*step(dice.randrange(STEPS)))
        self._count(name, 1)

    def _batch(self, agent: RemoteAgent, name: str, dice: random.Random) -> None:
        begin = dice.randrange(STEPS - 32)
        self._count(name, agent.step_batch(*batch(begin, begin + 32)))
        self.stop.wait(1)

    def _act(self, agent: RemoteAgent, name: str, dice: random.Random) -> None:
        agent.act([dice.random() for _ in range(4)], noise=dice.random())

    def _read(self, agent: RemoteAgent, name: str, dice: random.Random) -> None:
        match dice.randrange(4):
            case 0:
                agent.info()
            case 1:
                agent.episodes()
            case 2:
                agent.sync()
            case _:
                self.calls["loss"] += bool(agent.loss)

    def _state(self, agent: RemoteAgent, name: str, dice: random.Random) -> None:
        agent.upload_state(agent.get_state())
        self.stop.wait(1)

    def _create(self, agent: RemoteAgent, name: str, dice: random.Random) -> None:
        with contextlib.suppress(Conflict):  # of an attempt whose answer was lost
            agent.create_agent(4, 2, "dqn")
        with contextlib.suppress(NotFound):
            agent.step(*step(dice.randrange(STEPS)))
        agent.remove(agent_name=name)
        self.stop.wait(1)


def run_mixed_clients(service: Service, seconds: float, every: float) -> list[str]:
    """Fifty clients, and a worker killed every few seconds."""
    count = sum(CLIENTS.values())
    print(f"\n### {count} mixed clients for {seconds / 60:g} minutes, a worker killed every {every:g} s\n")
    doing, dice, kills = Mixed(service), random.Random(1), 0
    for number in range(SHARED):
        service.agent(f"shared-{number}", **SMALL).create_agent(4, 2, "dqn")
    with ThreadPoolExecutor(count) as pool, Watch(service) as watch:
        running = [pool.submit(doing.client, kind, k) for kind, many in CLIENTS.items() for k in range(many)]
        end = time.monotonic() + seconds
        try:
            while (left := end - time.monotonic()) > 0:
                time.sleep(min(every, left))
                workers = workers_of(service)
                if workers and left > every:
                    os.kill(dice.choice(workers), signal.SIGKILL)
                    kills += 1
        finally:
            doing.stop.set()
    found = [f"mixed: a client ended with {error!r}" for one in running if (error := one.exception()) is not None]
    for name, steps in sorted(doing.acknowledged.items()):
        counted = service.agent(name).info()["counters"]["global_timestep"]
        if counted != steps:
            found.append(f"mixed: {name} acknowledged {steps} steps, and counts {counted}")
    calls = ", ".join(f"{kind} {count}" for kind, count in doing.calls.items())
    total = sum(doing.acknowledged.values())
    print(f"Kills of workers {kills}. Calls: {calls}. Steps acknowledged {total}.")
    return found + watch.report("mixed", _allowed_growth(doing.calls["step"] + doing.calls["batch"], total))


def _allowed_growth(requests: int, steps: int) -> float:
    """Megabytes by which workers may grow. Once every agent remembers all that it can, there is no more."""
    keys, episodes = min(requests, SHARED * 100_000), min(steps // 20, SHARED * 10_000)
    return (keys * BYTES_OF_KEY + episodes * BYTES_OF_EPISODE) / 1e6


# -- made-up requests -------------------------------------------------------------------------------------------------


def send_made_up_requests(service: Service, requests: int, seconds: float) -> list[str]:
    """Made-up requests over a few connections, until there were so many or the time is over."""
    print(f"\n### {requests:,} made-up requests, or {seconds / 60:g} minutes\n")
    database = open_service(service.data)
    try:
        accounts = Accounts(database)
        for user in ("root", *USERS):
            accounts.add_user(user, PASSWORD, admin=user == "root")
        administrator, _ = accounts.create_token("root", "fuzz", SCOPES)  # "admin" is not among the usual ones
    finally:
        database.close()
    wait(lambda: service.ask("GET", "/api/v1/users", token=administrator)[0] == 200, 10)
    restored = _restore(service, administrator)
    stop, threads, before = threading.Event(), 4, workers_of(service)
    timer = threading.Timer(seconds, stop.set)
    timer.start()
    began = time.monotonic()
    try:
        with ThreadPoolExecutor(threads) as pool, Watch(service) as watch:
            tokens = [service.token] * 3 + [administrator]
            running = [pool.submit(bombard, service, tokens, requests // threads, stop, k) for k in range(threads)]
            while not all(one.done() for one in running):
                time.sleep(1)
                restored += _restore(service, administrator)
            seen = sum((one.result() for one in running), Counter[int]())
    finally:
        stop.set()
        timer.cancel()
    statuses = ", ".join(f"{status} {count}" for status, count in sorted(seen.items()))
    took = time.monotonic() - began
    print(f"{seen.total():,} requests in {took:.0f} s: {statuses}. What was removed came back: {restored} times.")
    lost = [pid for pid in before if not is_there(pid)]
    return _fuzz_mistakes(seen, requests // threads * threads, lost) + watch.report("fuzz", 30.0)


def _restore(service: Service, administrator: str) -> int:
    """Have the agents and users again that requests have removed; how many there are."""
    made = 0
    for name, model in zip(AGENTS, ("dqn", "ddpg"), strict=False):
        with contextlib.suppress(Conflict, NotFound):  # it is there, or a request removed it while it was created
            service.agent(name, **SMALL).create_agent(4, 2, model)
            made += 1
    for user in USERS:
        body = {"name": user, "password": PASSWORD}
        made += service.ask("POST", "/api/v1/users", body, token=administrator)[0] == 201
    return made


def _fuzz_mistakes(seen: Counter[int], wanted: int, lost: Sequence[int]) -> list[str]:
    """Mistakes in the answers to made-up requests."""
    total = seen.total()
    found = [f"fuzz: {seen[500]} answers were 500"] if seen[500] else []
    found += [f"fuzz: workers {lost} ended"] if lost else []
    found += [f"fuzz: {seen[0]} requests had no answer"] if seen[0] else []
    found += [f"fuzz: {total:,} requests were sent instead of {wanted:,}"] if total < wanted else []
    # One of 50 has no token, and all others a valid one: with many refused, workers would not be reached.
    found += [f"fuzz: {seen[401]:,} answers were 401"] if seen[401] > MOST_REFUSED * total else []
    return found + ([] if seen[200] > total / 50 else ["fuzz: nearly nothing was accepted"])


def soak(
    folder: Path,
    minutes: float,
    every: float = 10.0,
    kills: int = 20,
    requests: int = 200_000,
    parts: Sequence[str] = PARTS,
) -> list[str]:
    """Do all of it, with a server for each part; what is wrong."""
    found = list[str]()
    programs = folder / "programs"
    programs.mkdir()
    for part in parts:
        with serving(folder / part, programs, ["--set", "agents.checkpoint_seconds=5"]) as service:
            match part:
                case "kills":
                    found += kill_gateway(service, kills)
                case "mixed":
                    found += run_mixed_clients(service, 60 * minutes, every)
                case "fuzz":
                    found += send_made_up_requests(service, requests, 60 * minutes)
            if "Traceback" in (log := service.log.read_text()):
                found.append(f"{part}: the log has errors: {log[log.index('Traceback') :][:1500]}")
    return found


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30, help="of the mixed clients, and at most of the requests")
    parser.add_argument("--every", type=float, default=10, help="seconds between kills of workers")
    parser.add_argument("--kills", type=int, default=20, help="of the gateway")
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="axonrl-soak-", ignore_cleanup_errors=True) as folder:
        found = soak(Path(folder), chosen.minutes, chosen.every, chosen.kills, chosen.requests, chosen.only)
    print("\n" + ("\n".join(["Wrong:", *(f"- {one}" for one in found)]) if found else "Nothing is wrong."))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
