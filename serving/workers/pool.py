"""The pool: workers as child processes, the assignment of agents to them, and requests."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import json
import logging
import os
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

from ...run_dir.programs import paths_in, program_folder
from ..hosting.programs import PROGRAMS, remove_unused
from ..refusals import RefusedError
from .child import Child, start, wait_or_kill, watch_for_hang
from .messages import Head
from .settings import WorkerSettings

_ASK_SECONDS: Final = 10.0
"""Timeout of the gateway; the request may still be carried out."""
_SLOW_SECONDS: Final = 120.0
_SLOW: Final = {"open", "get_state", "put_state", "patch", "remove", "close"}

_COUNT_SECONDS: Final = 5.0
_TIDY_SECONDS: Final = 20.0
_MOST_WAITING: Final = 1_000
"""Maximum number of waiting requests per agent."""
_LARGE: Final = 2**16
"""Size in bytes above which a worker gets bodies one at a time, so that other requests wait behind only one."""
_OF_STOP: Final = 0.8
"""Share of the shutdown time for saving; the rest is for the processes to end."""
_RESTART_SECONDS: Final = 0.2
_LONGEST_PAUSE_SECONDS: Final = 5.0
_LONG_LIFE_SECONDS: Final = 10.0
logger = logging.getLogger("axonrl.serving")


@dataclasses.dataclass(frozen=True)
class WorkerResponse:
    """A worker's answer: an HTTP status, and a body of JSON (or bytes, if requested)."""

    status: int
    body: bytes
    replayed: bool = False
    retry_after: int | None = None
    outdated: bool = False
    """Whether another server may have the agent, so that the lease must be checked again."""

    @classmethod
    def refused(cls, error: RefusedError) -> WorkerResponse:
        """The answer that an agent's worker would give with this refusal."""
        return cls(error.status, json.dumps(error.to_json()).encode(), retry_after=error.retry_after)


class Pool:
    """Workers, and the builder that compiles their programs.

    Args:
        data: the service's folder.
        workers: number of worker processes.
        settings: settings of each worker.
        hung_seconds: time without a sign of life after which a worker with unanswered requests is killed.
        program_seconds: time after which an unused compiled program is removed.
        program_bytes: maximum bytes of unused programs kept until then.
    """

    def __init__(
        self,
        data: Path,
        workers: int,
        settings: WorkerSettings,
        hung_seconds: float,
        program_seconds: float,
        program_bytes: int,
    ) -> None:
        self._data = data
        self._settings = settings
        self._hung_seconds = hung_seconds
        self._program_seconds, self._program_bytes = program_seconds, program_bytes
        self._hung = 0
        """Number of killed workers."""
        self._names = [f"worker {k + 1}" for k in range(workers)]
        self._children: dict[str, Child] = {}
        self._home: dict[str, str] = {}
        self._large = collections.defaultdict[str, asyncio.Lock](asyncio.Lock)
        """Locks by worker, held while a large body is in transfer."""
        self._waiting: collections.Counter[str] = collections.Counter()
        self._tallies: dict[str, dict[str, float]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._builder: Child | None = None
        self._building = asyncio.Lock()
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        """Start the workers; and the builder if there is no program anywhere, which the first agent will need."""
        for name in self._names:
            self._run_beside(self._watch(name, await self._start_worker(name)))
        folders = [self._data / PROGRAMS, program_folder()]
        if not any(paths_in(folder, "[!.]*") for folder in folders if folder is not None):
            await self._running_builder()
        self._run_beside(self._count())
        self._run_beside(self._tidy())

    async def stop(self, seconds: float) -> None:
        """Save every agent, then end the workers; kill those that take longer than ``seconds``."""
        self._stopping.set()
        end = time.monotonic() + seconds
        children = [child for child in self._children.values() if not child.gone.is_set()]
        asked = [child.ask({"do": "stop"}, b"", _OF_STOP * seconds) for child in children]
        await asyncio.gather(*asked, return_exceptions=True)
        for child in children:
            child.close()
        if self._builder is not None and self._builder.process is not None:
            self._builder.process.terminate()  # its writes are atomic, and nobody waits any more
        for child in [*self._children.values(), *([self._builder] if self._builder else [])]:
            await wait_or_kill(child.process, max(end - time.monotonic(), 0.0))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def gauges(self) -> dict[str, float]:
        """Metrics: waiting requests, running workers, and the sums of their counters."""
        there = sum(not child.gone.is_set() for child in self._children.values())
        found = {"waiting_requests": float(sum(self._waiting.values())), "workers": float(there)}
        found["hung_workers_total"] = float(self._hung)
        for told in self._tallies.values():
            for name, value in told.items():
                found[name] = found.get(name, 0.0) + value
        return found

    async def _count(self) -> None:
        """Poll every worker's counters. A busy one is asked later."""
        while not self._stopping.is_set():
            for name, child in list(self._children.items()):
                with contextlib.suppress(ConnectionError, asyncio.TimeoutError):
                    _, body = await child.ask({"do": "tally"}, b"", _ASK_SECONDS)
                    self._tallies[name] = json.loads(body)
            await asyncio.sleep(_COUNT_SECONDS)

    async def _tidy(self) -> None:
        """Periodically remove unused programs; none is built meanwhile."""
        while not self._stopping.is_set():
            await asyncio.sleep(_TIDY_SECONDS)
            try:
                async with self._building:
                    limits = self._program_seconds, self._program_bytes
                    await asyncio.to_thread(remove_unused, self._data / PROGRAMS, *limits)
            except OSError:
                logger.exception("could not remove unused programs")

    def trouble(self) -> str:
        """Describe what is wrong; empty: nothing."""
        gone = [name for name, child in self._children.items() if child.gone.is_set()]
        return f"{', '.join(gone)} restarting" if gone else ""

    # -- requests
    # -------------------------------------------------------------------------------------------------------

    async def ask(self, agent: str, do: str, body: bytes = b"", **head: Any) -> WorkerResponse:
        """Send a request to an agent's worker. A failure of the worker is an answer, too: 503.

        Args:
            agent: its id.
            do: see :mod:`axonrl.serving.workers.worker`.
            body: the client's body.
            **head: further fields of the request.
        """
        if self._waiting[agent] >= _MOST_WAITING:
            return WorkerResponse.refused(RefusedError("agent_busy", f"{_MOST_WAITING:,} requests wait for this agent"))
        seconds = _SLOW_SECONDS if do in _SLOW else _ASK_SECONDS
        sent: Head = {"agent": agent, "do": do, "deadline": time.time() + seconds, **head}
        self._waiting[agent] += 1
        try:
            for _ in range(2):
                home = self._home_of(agent)
                answered, content = await self._ask(home, sent, body, seconds)
                if "needs_program" not in answered:
                    if do == "remove" and answered["status"] == 200:
                        self._home.pop(agent, None)
                    return _as_answer(answered, content)
                failed = await self.build(content)
                if failed is not None:
                    return failed
            return _unavailable("the program of this agent is missing, although it was built")
        except ConnectionError:
            return _unavailable("the process that hosts this agent has just ended, and is being restarted")
        except asyncio.TimeoutError:
            return _unavailable(f"the agent did not answer within {seconds:g} seconds")
        finally:
            self._waiting[agent] -= 1
            if not self._waiting[agent]:
                del self._waiting[agent]

    async def _ask(self, home: str, head: Head, body: bytes, seconds: float) -> tuple[Head, bytes]:
        """Send a request, a large one in its turn; ConnectionError, TimeoutError."""
        if len(body) <= _LARGE:
            return await self._children[home].ask(head, body, seconds)
        turn = self._large[home]
        await asyncio.wait_for(turn.acquire(), seconds)
        try:
            return await self._children[home].ask(head, body, seconds)
        finally:
            turn.release()

    def _home_of(self, agent: str) -> str:
        home = self._home.get(agent)
        if home is None:
            load = collections.Counter(self._home.values())
            home = self._home[agent] = min(self._names, key=lambda name: load[name])
        return home

    # -- processes ----------------------------------------------------------------------------------------------------

    async def _start_worker(self, name: str) -> Child:
        settings = json.dumps({**dataclasses.asdict(self._settings), "data": str(self._data)})
        number = self._names.index(name) + 1
        child = await start(name, "axonrl.serving.workers.worker", [settings, str(number)], number)
        self._children[name] = child
        return child

    def _run_beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watch(self, name: str, child: Child) -> None:
        """Restart a worker that dies or hangs; with pauses if it ends repeatedly, as on a full disk."""
        short_lives, began = 0, time.monotonic()
        while True:
            self._hung += await watch_for_hang(child, self._hung_seconds)
            if self._stopping.is_set():
                return
            logger.error("%s has ended unexpectedly and is restarted", name, extra={"worker": child.number})
            await wait_or_kill(child.process, 1.0)
            short_lives = short_lives + 1 if time.monotonic() - began < _LONG_LIFE_SECONDS else 0
            pause = _RESTART_SECONDS * 2 ** min(short_lives - 1, 10) if short_lives > 1 else 0.0
            await asyncio.sleep(min(pause, _LONGEST_PAUSE_SECONDS))
            if self._stopping.is_set():
                return
            began = time.monotonic()
            try:
                child = await self._start_worker(name)
            except OSError:
                logger.exception("%s cannot be started", name)

    async def build(self, recipe: bytes) -> WorkerResponse | None:
        """Make the builder compile a recipe's program; None when it exists, else the failure."""
        async with self._building:
            try:
                for _ in range(2):  # it may just have ended for lack of work
                    with contextlib.suppress(ConnectionError):
                        head, content = await (await self._running_builder()).ask({}, recipe, _SLOW_SECONDS)
                        return None if head["status"] == 200 else _as_answer(head, content)
                logger.error("the builder has ended twice")
            except (OSError, asyncio.TimeoutError):
                logger.exception("the builder has failed")
        return _unavailable("the program of this agent cannot be built just now")

    async def _running_builder(self) -> Child:
        if self._builder is None or self._builder.gone.is_set():
            if self._builder is not None:
                await wait_or_kill(self._builder.process, 1.0)
            arguments = [str(self._data / PROGRAMS), self._settings.log_level]
            self._builder = await start("builder", "axonrl.serving.workers.builder", arguments)
        return self._builder


def _as_answer(head: Head, content: bytes) -> WorkerResponse:
    more = bool(head.get("replayed")), head.get("retry_after"), bool(head.get("outdated"))
    return WorkerResponse(head["status"], content, *more)


def _unavailable(detail: str) -> WorkerResponse:
    return WorkerResponse.refused(RefusedError("unavailable", detail))


def default_workers() -> int:
    """Number of processors minus one, at least one."""
    return max(len(os.sched_getaffinity(0)) - 1, 1)
