"""A service and a bare endpoint as processes, what is asked of them, and their memory."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ...serving import RemoteAgent
from ..processes import AXONRL
from .load import Load

USER: Final = "alice"
PASSWORD: Final = "a long password of a benchmark"
UNLIMITED: Final = (
    "limits.requests_per_minute=1000000000",
    "limits.steps_per_second=1000000000",
    "limits.changes_per_minute=0",
    "limits.creations_per_minute=0",
    "limits.agents=0",
    "limits.bytes=0",
)
"""Limits must not be what is measured. Those of every request are counted, as they always are."""
START_SECONDS: Final = 60.0
WORKER: Final = "axonrl.serving.workers.worker"


@dataclasses.dataclass(frozen=True)
class Service:
    """A service that runs.

    Args:
        port: where it listens.
        pid: of its gateway.
        token: of an account.
        folder: its data.
        seconds: that it took to be ready.
    """

    port: int
    pid: int
    token: str
    folder: Path
    seconds: float

    def agent(self, name: str, **more: Any) -> RemoteAgent:
        """The client of an agent."""
        url = f"http://127.0.0.1:{self.port}"
        return RemoteAgent(name, url=url, access_token=self.token, timeout=60.0, retry_deadline=120.0, **more)

    def create(self, name: str, **hyperparameters: Any) -> float:
        """A DQN of CartPole's sizes; returns the seconds until it could act."""
        with self.agent(name, **hyperparameters) as agent:
            began = time.perf_counter()
            agent.create_agent(4, 2, "dqn")
            return time.perf_counter() - began

    def load(self, agent: str, kind: str, **more: Any) -> dict[str, float]:
        """Measure with the load generator."""
        return load(Load(self.port, self.token, agent, kind, **more))

    def get(self, path: str) -> bytes:
        """The answer to a GET."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
            answer = connection.getresponse()
            if answer.status != http.HTTPStatus.OK:
                raise RuntimeError(f"{path} was answered with {answer.status}")
            return answer.read()

    def workers(self) -> list[int]:
        """The process ids of the workers."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [int(pid) for pid in children if WORKER.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def mebibytes(self) -> float:
        """Resident memory of gateway and workers."""
        return sum(map(resident, [self.pid, *self.workers()]))


def resident(pid: int) -> float:
    """Resident memory of a process, in MiB."""
    found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def load(given: Load) -> dict[str, float]:
    """Measure with the load generator; RuntimeError if an answer is not the wanted one."""
    command = [sys.executable, "-m", "axonrl.benchmarks.service.load", json.dumps(dataclasses.asdict(given))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    if wrong := found.pop("wrong"):
        raise RuntimeError(f"a request of kind {given.kind} was refused: {wrong}")
    return found


def account(folder: Path) -> str:
    """An account in a data folder, and a token of it."""
    where = ["--data", str(folder)]
    add = [*AXONRL, "service", "add-user", USER, "--password-stdin", *where]
    subprocess.run(add, input=f"{PASSWORD}\n", check=True, text=True, stdout=subprocess.DEVNULL)
    create = [*AXONRL, "service", "create-token", USER, "--name", "benchmark", *where]
    return subprocess.run(create, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


@contextlib.contextmanager
def service(folder: Path, token: str | None = None, **sets: Any) -> Iterator[Service]:
    """A service with its data in a folder; it ends in good order.

    Args:
        folder: for its data.
        token: of an account that is there; None: there is none yet.
        **sets: of the configuration, with ``__`` for the dot.
    """
    token = token or account(folder)
    given = [*UNLIMITED, *(f"{name.replace('__', '.')}={value}" for name, value in sets.items())]
    options = [word for one in given for word in ("--set", one)]
    command = [*AXONRL, "serve", "--port", "0", "--data", str(folder), *options]
    began = time.perf_counter()
    log = folder.with_name(f"{folder.name}.log")
    with (
        log.open("ab") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            port = int(first_line(process).rpartition(":")[2] or 0)
            if not port:
                raise RuntimeError(f"the service did not start: {log.read_text()[-1000:]}")
            yield Service(port, process.pid, token, folder, time.perf_counter() - began)
        finally:
            end(process)


@contextlib.contextmanager
def bare() -> Iterator[int]:
    """The bare endpoint's port."""
    command = [sys.executable, "-m", "axonrl.benchmarks.service.bare"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield int(first_line(process))
        finally:
            end(process)


def first_line(process: subprocess.Popen[str]) -> str:
    """The first line of its output; empty if it has ended."""
    return process.stdout.readline().strip() if process.stdout is not None else ""


def end(process: subprocess.Popen[str]) -> None:
    """End it, in good order if it does so."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(START_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def kill(running: Service) -> None:
    """End gateway and workers at once, like a crash."""
    for pid in [running.pid, *running.workers()]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
