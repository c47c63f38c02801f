"""Leases: which of several servers has an agent. Wraps the pool if the data folder is shared.

While a lease lasts, requests cost nothing extra; leases are renewed in the background, for all agents at once.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import math
import os
import secrets
import socket
import time
from typing import Any, Final

from ..accounts import AgentRows, RefusedError
from ..workers.pool import Pool, WorkerResponse

_RENEWALS: Final = 3
"""Renewals within the duration of a lease."""
_ENDS: Final = ("open", "close")
"""Requests after which an agent is released at once: later requests may go to another server."""
logger = logging.getLogger("axonrl.serving")


@dataclasses.dataclass
class _Held:
    """A lease of this server: its end, on a clock that runs while processes and machines are suspended."""

    epoch: int
    until: float
    used: float
    asking: int = 0
    """Number of requests in progress, while which it is kept: a state may take longer than a lease."""


class LeasedPool:
    """A pool for this server's agents; takes over others' agents when their leases have expired.

    Args:
        pool: the workers.
        rows: the agents' table, in a database that all servers share.
        seconds: duration of a lease. An agent without requests for that long is released: they may go to another server
            now.
    """

    def __init__(self, pool: Pool, rows: AgentRows, seconds: float) -> None:
        self._pool, self._rows, self._seconds = pool, rows, seconds
        self.home = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._held: dict[str, _Held] = {}
        self._taking: dict[str, asyncio.Task[_Held | WorkerResponse]] = {}
        self._renewing: asyncio.Task[None] | None = None
        self._returns: set[asyncio.Task[None]] = set()
        """Agents that are being saved and released."""

    async def start(self) -> None:
        """Start the workers, and the renewal of leases."""
        await self._pool.start()
        self._renewing = asyncio.create_task(self._renew_always())

    async def stop(self, seconds: float) -> None:
        """Save every agent, and release them all."""
        await self._pool.stop(seconds)
        if self._renewing is not None:
            self._renewing.cancel()
        await asyncio.gather(*self._returns, return_exceptions=True)
        try:
            await asyncio.to_thread(self._rows.release, self.home)
        except RefusedError:
            logger.warning("the leases cannot be released: other servers wait until they expire")

    async def ask(self, agent: str, do: str, body: bytes = b"", **head: Any) -> WorkerResponse:
        """See :meth:`Pool.ask`; 503 while another server has the agent."""
        held = self._held.get(agent)
        if held is None or held.until <= _now():
            if do == "close":  # nothing to do here
                return WorkerResponse(200, b"{}")
            if head.get("wake") is False:  # any server may read its folder
                return await self._pool.ask(agent, do, body, **head)
            found = await self._shared_lease(agent)
            if isinstance(found, WorkerResponse):
                return found
            held = found
        held.asking += 1
        try:
            answer = await self._pool.ask(agent, do, body, epoch=held.epoch, **head)
        finally:
            held.asking -= 1
            held.used = _now()
        if answer.outdated and self._held.get(agent) is held:
            del self._held[agent]
        if held.until <= _now():
            what = "this server was stopped for longer than its lease of the agent"
            return WorkerResponse.refused(RefusedError("unavailable", what))
        if do == "remove" and answer.status == 200:
            self._held.pop(agent, None)
        elif do in _ENDS and answer.status == 200 and self._held.get(agent) is held:
            await self._give_back(agent, held)
        return answer

    async def _shared_lease(self, agent: str) -> _Held | WorkerResponse:
        """A new lease, shared by all requests that wait for it; or the reason why there is none."""
        task = self._taking.get(agent)
        if task is None:
            task = self._taking[agent] = asyncio.create_task(self._take(agent))
            task.add_done_callback(lambda _: self._taking.pop(agent, None))
        return await asyncio.shield(task)

    async def _take(self, agent: str) -> _Held | WorkerResponse:
        began = _now()
        try:
            lease = await asyncio.to_thread(self._rows.take, agent, self.home, self._seconds)
        except RefusedError as error:
            return WorkerResponse.refused(error)
        if lease.home != self.home:
            what, wait = f"another server has the agent: {lease.home}", max(1, math.ceil(lease.seconds))
            return WorkerResponse.refused(RefusedError("unavailable", what, retry_after=wait))
        held = self._held[agent] = _Held(lease.epoch, began + self._seconds, began)
        return held

    async def _renew_always(self) -> None:
        while True:
            await asyncio.sleep(self._seconds / _RENEWALS)
            try:
                await self._renew()
            except RefusedError as error:
                logger.warning("leases cannot be renewed: %s", error)
            except Exception:
                logger.exception("leases cannot be renewed")
            self._give_back_unused()

    async def _renew(self) -> None:
        began, before = _now(), dict(self._held)
        renewed = await asyncio.to_thread(self._rows.renew, self.home, self._seconds)
        for agent, held in before.items():
            if renewed.get(agent) == held.epoch:
                held.until = began + self._seconds

    def _give_back_unused(self) -> None:
        """Release unused agents; also forget lost leases."""
        for agent, held in list(self._held.items()):
            if held.until <= _now():
                self._held.pop(agent, None)
            elif not held.asking and held.used < _now() - self._seconds:
                self._give_back(agent, held)

    def _give_back(self, agent: str, held: _Held) -> asyncio.Task[None]:
        """Save an agent and release it, beside renewals; requests that arrive meanwhile take it again."""
        del self._held[agent]
        task = asyncio.create_task(self._release(agent, held.epoch))
        self._returns.add(task)
        task.add_done_callback(self._returns.discard)
        return task

    async def _release(self, agent: str, epoch: int) -> None:
        await self._pool.ask(agent, "close", epoch=epoch)
        if agent not in self._held and agent not in self._taking:
            try:
                await asyncio.to_thread(self._rows.release, self.home, agent, epoch)
            except RefusedError as error:
                logger.warning("the lease of agent %s is kept until it expires: %s", agent, error)

    # -- like the pool ------------------------------------------------------------------------------------------------

    def gauges(self) -> dict[str, float]:
        """Metrics of the pool, and of leases."""
        return {**self._pool.gauges(), "leases": float(len(self._held))}

    def trouble(self) -> str:
        """Describe what is wrong; empty: nothing."""
        return self._pool.trouble()


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
