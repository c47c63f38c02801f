"""A child process of the gateway, at the other end of a socket, with its requests and answers."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from typing import Any, Final

from .messages import BEAT, SPIN_SECONDS, Head, cut, encode

CHECKS: Final = 10
"""Number of checks within the time after which a child is given up."""
START_SECONDS: Final = 60.0
"""Minimum seconds allowed until a child's first frame, as it must load its modules."""
logger = logging.getLogger("axonrl.serving")


class Child(asyncio.Protocol):
    """One child process.

    Args:
        name: name for messages.
        number: number of a worker; None for another child.
    """

    def __init__(self, name: str, number: int | None = None) -> None:
        self.name = name
        self.number = number
        self.process: subprocess.Popen[bytes] | None = None
        self.waiting: dict[int, asyncio.Future[tuple[Head, bytes]]] = {}
        self.gone = asyncio.Event()
        self.heard = 0
        """Number of frames received: answers and heartbeats."""
        self._answered = 0
        self._held = bytearray()
        self._transport: asyncio.Transport | None = None
        self._numbers = 0
        self._spins = False
        """Whether the last answer came within the time of a spin, as the next may."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = transport  # type: ignore[assignment] # sockets have this kind

    def data_received(self, content: bytes) -> None:
        """Called by the loop."""
        self._held += content
        for head, body in cut(self._held):
            number = head["id"]
            self.heard += 1
            self._answered += number != BEAT
            future = self.waiting.pop(number, None)
            if future is not None and not future.done():
                future.set_result((head, body))

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the loop: fails all waiting requests."""
        self.gone.set()
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(ConnectionError(f"{self.name} is gone"))
        self.waiting.clear()

    async def ask(self, head: Head, body: bytes, seconds: float) -> tuple[Head, bytes]:
        """Send a frame and wait for its answer; ConnectionError, TimeoutError."""
        if self._transport is None or self.gone.is_set():
            raise ConnectionError(f"{self.name} is gone")
        self._numbers += 1
        number = self._numbers
        loop, began = asyncio.get_running_loop(), time.monotonic()
        future: asyncio.Future[tuple[Head, bytes]] = loop.create_future()
        self.waiting[number] = future
        self._transport.write(encode({**head, "id": number}, body))
        timer = loop.call_later(seconds, _time_out, future)
        try:
            # The event loop stays awake for an answer that may come at once.
            end = began + SPIN_SECONDS if self._spins else began
            while not future.done() and len(self.waiting) == 1 and time.monotonic() < end:
                os.sched_yield()
                await asyncio.sleep(0)
            return await future
        finally:
            self._spins = time.monotonic() - began < SPIN_SECONDS
            timer.cancel()
            self.waiting.pop(number, None)

    @property
    def owes(self) -> int:
        """Number of unanswered requests, including abandoned ones."""
        return self._numbers - self._answered

    def close(self) -> None:
        """Close the connection, which makes the child end."""
        if self._transport is not None:
            self._transport.close()


async def start(name: str, module: str, arguments: Iterable[str], number: int | None = None) -> Child:
    """Start a child process that runs a module, at the other end of a socket."""
    ours, theirs = socket.socketpair()
    child = Child(name, number)
    with theirs:
        descriptor = theirs.fileno()
        command = [sys.executable, "-m", "axonrl.serving.workers.parent_death", str(descriptor), module, *arguments]
        # A separate session: Ctrl-C in a terminal is for the gateway only.
        child.process = subprocess.Popen(
            command, pass_fds=[descriptor], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
        )
    ours.setblocking(False)
    await asyncio.get_running_loop().create_connection(lambda: child, sock=ours)
    return child


async def watch_for_hang(child: Child, seconds: float) -> int:
    """Wait until a worker has ended, and kill it if it hangs: its process exists, but makes no progress.

    Between answers a worker sends a heartbeat once a second: from its only loop, and from long operations there
    (replaying a journal, saving agents). So a heartbeat proves progress; one from a thread would only prove that the
    process runs. Long updates run in a separate thread, and do not delay heartbeats.

    It hangs if it has unanswered requests and sent nothing during :data:`CHECKS` checks in a row. The pool's own poll
    of counters is such a request, so an idle worker is watched, too. Checks are counted instead of reading a clock:
    while the gateway itself is stopped, or the machine asleep, none happen.

    Args:
        child: a worker.
        seconds: time without progress that counts as hanging.

    Returns:
        Number of kills: 0 if it ended by itself.
    """
    interval = seconds / CHECKS
    heard, silent, killed = 0, 0, 0
    while not child.gone.is_set():
        try:
            await asyncio.wait_for(child.gone.wait(), interval)
        except asyncio.TimeoutError:
            silent = silent + 1 if child.owes and child.heard == heard else 0
            heard = child.heard
        most = CHECKS if heard else max(CHECKS, START_SECONDS / interval)
        if silent > most and child.process is not None:
            logger.error(
                "%s hangs (process %d): it sent nothing for %g seconds with %d answers outstanding, and is killed",
                child.name, child.process.pid, silent * interval, child.owes, extra={"worker": child.number},
            )  # fmt: skip
            child.process.kill()
            silent, killed = 0, killed + 1
    return killed


async def wait_or_kill(process: subprocess.Popen[bytes] | None, seconds: float) -> None:
    """Wait for a process, and kill it if it takes too long."""
    if process is None:
        return
    try:
        await asyncio.to_thread(process.wait, seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _time_out(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_exception(asyncio.TimeoutError())
