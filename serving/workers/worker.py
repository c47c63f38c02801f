"""A worker: a process of one thread that hosts many agents. Loads no TensorFlow.

Agents are served in turn: one request each, with short updates between. Acts come first: they are polled after each
step, and between the updates of a turn. Agents with long requests come behind the others, which wait for one of these
at most. Of agents that replay a journal, the one with the least left has every turn of a replay: if they shared these,
none would answer before nearly all do. Accepted records are forced to the disk in a thread before they are
acknowledged; long updates have other threads, those of a replay, too. The gateway kills a worker that hangs: child.py.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from ...run_dir.files import make_folders
from .. import logs
from ..hosting.agent import HostedAgent, to_bytes
from ..logs import SERVING
from .messages import BEAT, SPIN_SECONDS, Head, answer, cut, encode, wait_for
from .responses import respond
from .settings import WorkerSettings
from .slots import AGENTS, KEEPS_ORDER, Slot, Slots

_TURN_SECONDS: Final = 0.002
"""Seconds that an agent may apply records before the next agent's turn; an update is never interrupted."""
_ACT_SECONDS: Final = 0.0002
"""Seconds of such a turn between looks at new acts: a look costs as much as storing a transition."""
_STEPS_AT_ONCE: Final = 64
"""Number of step requests per turn: they are forced to the disk together."""
_LONG_SECONDS, _BEHIND = 0.02, 1000.0
"""Seconds of the processor above which a request is long; seconds for which others come first, for each of these."""
_HOUSEKEEPING_SECONDS, _BEAT_SECONDS = 1.0, 1.0
_BEAT: Final = encode({"id": BEAT})
_UPDATES: Final = 32
"""Maximum number of long updates at once: with one at a time, a large agent would keep others from learning."""
_NICE: Final = 10
"""Niceness of their threads: a tenth of a contended processor. With less, they would hold the interpreter for long."""
_M_MMAP_THRESHOLD, _MMAP_BYTES = -3, 128 * 1024
logger = logging.getLogger("axonrl.serving")


class Worker:
    """Hosts agents for the gateway at the other end of a socket.

    Args:
        connection: socket to the gateway.
        settings: the worker's settings.
    """

    def __init__(self, connection: socket.socket, settings: WorkerSettings) -> None:
        self._connection = connection
        self._settings = settings
        self._in = bytearray()
        self._agents = Slots(settings, self._beat, self._wake)
        self._slots = self._agents.by_name
        self._ready: collections.deque[Slot] = collections.deque()
        self._acting: collections.deque[Slot] = collections.deque()
        """Ready slots that can act at once."""
        self._behind, self._turns_before = collections.deque[Slot](), 0
        """Ready slots that come behind the others, and the turns of others before the next one of these."""
        self._replaying = collections.deque[Slot]()
        """Ready slots that can only go on with a replay."""
        self._queues = self._ready, self._acting, self._behind, self._replaying
        self._out = self._agents.out
        self._done: collections.deque[Slot] = collections.deque()
        """Slots whose sync or update in another thread is done."""
        self._gateway_is_gone = False
        self._spins = False
        """Whether the last request arrived within the time of a spin, as the next may."""
        self._stopping: Head | None = None
        self._updates = ThreadPoolExecutor(_UPDATES, "update", initializer=_give_way)
        self._woken, self._wakes = socket.socketpair()
        self._housekept = self._beaten = time.monotonic()

    def run(self) -> None:
        """Serve until the gateway is gone, or tells the worker to stop."""
        try:
            self._serve_all()
        finally:
            self._updates.shutdown(wait=False, cancel_futures=True)
            self._agents.shut_down()
            self._woken.close()
            self._wakes.close()

    def _serve_all(self) -> None:
        self._connection.setblocking(False)
        self._out += _BEAT  # the worker has started
        while not self._gateway_is_gone:
            self._receive(0.0 if any(self._queues) else _HOUSEKEEPING_SECONDS)
            self._act()
            if self._ready:
                self._turn(self._ready.popleft())
                self._turns_before -= 1
            if self._behind and (self._turns_before <= 0 or not self._ready):
                self._turn(self._behind.popleft())
                self._turns_before = len(self._ready)
            if self._replaying:
                shortest = min(self._replaying, key=lambda slot: slot.left)
                self._replaying.remove(shortest)
                self._turn(shortest)
            self._hand_over()
            SERVING.agent = None
            self._keep_house()
            if self._stopping is not None and not any(self._queues) and not self._agents.busy():
                self._stop(self._stopping)
                return
        self._agents.abandon_all()

    # -- the gateway --------------------------------------------------------------------------------------------------

    def _receive(self, seconds: float) -> None:
        began = time.monotonic()
        readable = self._readable(seconds)
        if self._woken in readable:
            self._woken.recv(1 << 10)
            while self._done:
                self._finish(self._done.popleft())
        if self._connection not in readable:
            return
        try:
            content = self._connection.recv(1 << 18)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            content = b""
        if not content:
            self._gateway_is_gone = True
            return
        self._spins = time.monotonic() - began < SPIN_SECONDS
        self._in += content
        for head, body in cut(self._in):
            if head["do"] == "stop":
                self._stopping = head
                continue
            if head["do"] == "tally":
                self._out += answer(head, 200, to_bytes(self._agents.counts()))
                continue
            slot = self._slots.get(head["agent"]) or self._slots.setdefault(head["agent"], Slot(head["agent"]))
            slot.queue.append((head, body))
            self._make_ready(slot)

    def _readable(self, seconds: float) -> list[socket.socket]:
        """Wait for the gateway or a thread; spin first where a request may come at once, and yield the processor."""
        both = self._connection, self._woken
        if self._spins and seconds and not self._out:
            end = time.monotonic() + SPIN_SECONDS
            while time.monotonic() < end:
                if found := wait_for(both, 0.0):
                    return found
                os.sched_yield()
        return wait_for(both, seconds, writes=[self._connection] if self._out else [])

    def _make_ready(self, slot: Slot) -> None:
        """Queue a slot for a turn, if it has anything to do, after a save that its steps wait for."""
        self._agents.save_held(slot)
        if not slot.is_ready and (slot.may_answer or slot.may_work):
            self._queue(slot, self._acting if slot.may_act else self._ready)

    def _queue(self, slot: Slot, ready: collections.deque[Slot]) -> None:
        slot.is_ready = True
        if slot.is_replaying and slot.may_work and not slot.may_answer:
            ready = self._replaying
        elif slot.behind_until > time.monotonic():
            ready = self._behind
        ready.append(slot)

    def _act(self) -> None:
        """Answer one act of each slot that can. A slot with other work gets a turn before its next act."""
        for _ in range(len(self._acting)):
            slot = self._acting.popleft()
            self._begin(slot)
            self._serve(slot)
            if slot.may_work:
                self._queue(slot, self._ready)
            else:
                self._make_ready(slot)

    def _let_act(self) -> None:
        """Answer new acts of other agents during long work."""
        self._receive(0.0)
        if self._acting:
            serving = SERVING.agent
            self._act()
            self._hand_over()
            SERVING.agent = serving

    def _hand_over(self) -> None:
        """Send ready answers, and start the syncs that the others wait for."""
        self._agents.begin_syncs()
        self._send()

    def _send(self) -> None:
        while self._out:
            try:
                sent = self._connection.send(self._out)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self._gateway_is_gone = True
                return
            del self._out[:sent]

    def _beat(self) -> None:
        """Send a heartbeat once a second; see :func:`.child.watch_for_hang`."""
        now = time.monotonic()
        if now - self._beaten >= _BEAT_SECONDS:
            self._beaten = now
            self._out += _BEAT
            self._send()

    def _stop(self, head: Head) -> None:
        """Save every agent, report it, and end."""
        self._agents.put_all_away()
        self._hand_over()
        self._connection.setblocking(True)
        with contextlib.suppress(OSError):
            self._connection.sendall(bytes(self._out) + answer(head, 200, b"{}"))

    # -- agents -------------------------------------------------------------------------------------------------------

    def _begin(self, slot: Slot) -> None:
        """Begin the turn of a slot that was ready."""
        SERVING.agent = slot.name
        slot.is_ready = False
        if not slot.queue or slot.queue[0][0].get("wake") is not False:  # listing an agent is not using it
            slot.used = time.monotonic()
            self._slots.move_to_end(slot.name)

    def _turn(self, slot: Slot) -> None:
        """Serve one request of an agent (or several steps), and apply some of its records."""
        self._begin(slot)
        self._serve(slot)
        agent = slot.agent
        if agent is not None and slot.update is None:
            now = looked = time.monotonic()
            end = now + _TURN_SECONDS
            while agent.learning.has_work and slot.agent is agent and now < end:
                self._agents.tally.updates_total += agent.learning.next_is_update
                if agent.learning.next_is_long:
                    agent.bring_up_to_date()
                    agent.updating = True
                    slot.update = self._updates.submit(_update, slot.name, agent)
                    slot.update.add_done_callback(lambda _: self._wake(slot))
                    break
                agent.work()
                now = time.monotonic()
                if now - looked >= _ACT_SECONDS:
                    self._let_act()
                    looked = now = time.monotonic()
        self._make_ready(slot)

    def _wake(self, slot: Slot) -> None:
        """Have the loop finish what another thread has done for a slot; called there."""
        self._done.append(slot)
        with contextlib.suppress(OSError):  # the gateway is gone
            self._wakes.send(b".")

    def _finish(self, slot: Slot) -> None:
        if slot.sync is not None and slot.sync.done():
            self._agents.settle(slot)
        if slot.update is not None and slot.update.done():
            SERVING.agent = slot.name
            error, slot.update = slot.update.exception(), None
            if slot.agent is not None:
                slot.agent.updating = False
            if error is not None:
                logger.error("an update of agent %s failed: it is opened again", slot.name, exc_info=error)
                self._agents.lose(slot)
        self._make_ready(slot)

    def _serve(self, slot: Slot) -> None:
        for _ in range(_STEPS_AT_ONCE):
            if not slot.may_answer:
                return
            do = slot.next
            head, body = slot.queue.popleft()
            frame = self._respond(slot, head, body)
            slot.is_replaying = not frame
            if not frame:
                slot.queue.appendleft((head, body))
                return
            self._agents.deliver(slot, head, frame)
            if do not in KEEPS_ORDER:
                return
            self._let_act()
            if slot.next not in KEEPS_ORDER:
                return

    def _respond(self, slot: Slot, head: Head, body: bytes) -> bytes:
        """Carry out a request; a long one, not counting loading, puts its agent behind the others."""
        is_loaded, began = slot.agent is not None, time.thread_time()
        frame = respond(self._agents, slot, head, body)
        if is_loaded and (took := time.thread_time() - began) > _LONG_SECONDS:
            slot.behind_until = max(slot.behind_until, time.monotonic() + _BEHIND * took)
        return frame

    def _keep_house(self) -> None:
        """Once a second, look after all agents."""
        now = time.monotonic()
        if now - self._housekept >= _HOUSEKEEPING_SECONDS:
            self._housekept = now
            self._beat()
            if not self._settings.syncs:
                self._agents.begin_syncs(all_agents=True)
            self._agents.keep_house(now)


def _give_way() -> None:
    """Lower this thread's priority below the answering one's; on Linux threads have their own."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _NICE)


def _update(name: str, agent: HostedAgent) -> None:
    SERVING.agent = name
    agent.work()


def _keep_large_arrays_apart() -> None:
    """Allocate each large array by its own mmap, and return it when freed. Only with glibc.

    Otherwise glibc takes them from its heap once one was freed, and writes an empty memory's zeros: a DQN's of 100,000
    transitions takes 7 MB instead of 1.4 MB.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)


def main() -> int:
    """``python -m axonrl.serving.workers.worker FD SETTINGS NUMBER``: what the pool starts."""
    for number in (signal.SIGINT, signal.SIGTERM):  # for the gateway, which ends this process in an orderly way
        signal.signal(number, signal.SIG_IGN)
    settings = WorkerSettings(**json.loads(sys.argv[2]))
    logs.configure_child(settings.log_level, int(sys.argv[3]))
    _keep_large_arrays_apart()
    make_folders(Path(settings.data) / AGENTS)
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        try:
            Worker(connection, settings).run()
        except Exception:
            logger.exception("the worker ends")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
