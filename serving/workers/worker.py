"""A worker: a process of one thread that hosts many agents. Loads no TensorFlow.

Agents are served in turn: one request each, and one update between. What was accepted in a round is forced to the disk
once, before it is acknowledged.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import gc
import json
import logging
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeAlias

from ...errors import CheckpointError
from ...estimators.stepping import Stepper
from ...runs.files import make_folders
from ..catalogue.recipes import Recipe
from ..hosting.agent import Answer, HostedAgent, to_bytes
from ..hosting.allocating import keep_large_arrays_apart
from ..hosting.failures import RefusedError, of_checkpoint
from ..hosting.fencing import OutdatedError
from ..hosting.opening import ProgramMissingError, open_stepper
from .ending import wait_for
from .messages import cut, encode
from .settings import WorkerSettings
from .tally import Tally

AGENTS: Final = "agents"
PROGRAMS: Final = "programs"
_TURN_SECONDS: Final = 0.002
"""How long an agent may apply what it accepted before it is another one's turn; an update is never cut."""
_STEPS_AT_ONCE: Final = 64
"""Requests to step that one turn takes: they are forced to the disk together."""
_HOUSEKEEPING_SECONDS: Final = 1.0
_KEEPS_ORDER: Final = ("step", "steps", "end_episode")
"""Requests that need not wait until what was accepted before is applied."""
Head: TypeAlias = dict[str, Any]
logger = logging.getLogger("axonrl.serving")


@dataclasses.dataclass
class _Slot:
    """An agent's requests, and the agent itself while it is in memory."""

    queue: collections.deque[tuple[Head, bytes]] = dataclasses.field(default_factory=collections.deque)
    agent: HostedAgent | None = None
    used: float = 0.0
    is_ready: bool = False
    update: Future[None] | None = None
    """An update that runs in the other thread; nobody touches the agent meanwhile."""


class Worker:
    """Hosts agents for the gateway at the other end of a socket.

    Args:
        connection: to the gateway.
        settings: how it keeps them.
    """

    def __init__(self, connection: socket.socket, settings: WorkerSettings) -> None:
        self._connection = connection
        self._settings = settings
        self._folder = Path(settings.data)
        self._in = bytearray()
        self._slots: collections.OrderedDict[str, _Slot] = collections.OrderedDict()
        self._ready: collections.deque[str] = collections.deque()
        self._answers: list[tuple[str, bytes]] = []
        self._out = bytearray()
        self._gateway_is_gone = False
        self._stopping: Head | None = None
        self._tally = Tally()
        self._updates = ThreadPoolExecutor(1, "update")
        self._woken, self._wakes = socket.socketpair()
        self._housekept = self._synced = time.monotonic()

    def run(self) -> None:
        """Serve until the gateway is gone, or says that this is the end."""
        try:
            self._serve_all()
        finally:
            self._updates.shutdown(wait=False, cancel_futures=True)
            self._woken.close()
            self._wakes.close()

    def _serve_all(self) -> None:
        self._connection.setblocking(False)
        while not self._gateway_is_gone:
            self._receive(0.0 if self._ready else _HOUSEKEEPING_SECONDS)
            for _ in range(len(self._ready)):
                self._turn(self._ready.popleft())
            self._acknowledge()
            self._send()
            self._keep_house()
            if self._stopping is not None and not self._ready and not self._updating():
                self._stop(self._stopping)
                return
        for slot in self._slots.values():
            if slot.agent is not None and slot.update is None:
                slot.agent.abandon()

    # -- the gateway --------------------------------------------------------------------------------------------------

    def _receive(self, seconds: float) -> None:
        readable = wait_for([self._connection, self._woken], seconds, writes=[self._connection] if self._out else [])
        if self._woken in readable:
            self._woken.recv(1 << 10)
            self._finish_updates()
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
        self._in += content
        for head, body in cut(self._in):
            if head["do"] == "stop":
                self._stopping = head
                continue
            if head["do"] == "tally":
                self._tally.loaded_agents = sum(slot.agent is not None for slot in self._slots.values())
                self._out += encode({"id": head["id"], "status": 200}, to_bytes(dataclasses.asdict(self._tally)))
                continue
            name = head["agent"]
            slot = self._slots.setdefault(name, _Slot())
            slot.queue.append((head, body))
            if slot.update is None:
                self._make_ready(name, slot)

    def _make_ready(self, name: str, slot: _Slot) -> None:
        if not slot.is_ready:
            slot.is_ready = True
            self._ready.append(name)

    def _answer(self, name: str, head: Head, status: int, body: bytes, **more: Any) -> None:
        self._answers.append((name, encode({"id": head["id"], "status": status, **more}, body)))

    def _refuse(self, name: str, head: Head, error: RefusedError) -> None:
        more = {} if error.retry_after is None else {"retry_after": error.retry_after}
        self._answer(name, head, error.status, to_bytes(error.to_json()), **more)

    def _acknowledge(self) -> None:
        """Force what was accepted to the disk, then hand the answers over."""
        lost = set()
        if self._settings.syncs or time.monotonic() - self._synced >= _HOUSEKEEPING_SECONDS:
            self._synced = time.monotonic()
            names = {name for name, _ in self._answers} if self._settings.syncs else set(self._slots)
            for name in names:
                slot = self._slots.get(name)
                if slot is not None and slot.agent is not None and slot.agent.unsynced and not self._sync(name, slot):
                    lost.add(name)
        for name, content in self._answers:
            self._out += content if name not in lost else _not_kept(content)
        self._answers.clear()

    def _sync(self, name: str, slot: _Slot) -> bool:
        try:
            if slot.agent is not None:
                with self._tally.syncing():
                    slot.agent.sync()
        except OutdatedError as error:  # the other server may have read what is in the file: it stays
            logger.warning("a request is not acknowledged: %s", error)
            self._lose(slot)
            return False
        except OSError:
            logger.exception("the journal of agent %s cannot be synced: it is opened again", name)
            if slot.agent is not None:
                slot.agent.abandon(drop_unsynced=self._settings.syncs)
            slot.agent = None
            return False
        return True

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

    def _stop(self, head: Head) -> None:
        """Save every agent, say so, and end."""
        for name, slot in self._slots.items():
            self._put_away(name, slot)
        self._connection.setblocking(True)
        with contextlib.suppress(OSError):
            self._connection.sendall(bytes(self._out) + encode({"id": head["id"], "status": 200}, b"{}"))

    # -- agents -------------------------------------------------------------------------------------------------------

    def _turn(self, name: str) -> None:
        """One request of an agent (or several steps), and some of what it accepted."""
        slot = self._slots[name]
        slot.is_ready = False
        slot.used = time.monotonic()
        self._slots.move_to_end(name)
        if slot.queue:
            self._serve(name, slot)
        agent = slot.agent
        if agent is not None:
            end = time.monotonic() + _TURN_SECONDS
            while agent.has_work and time.monotonic() < end:
                self._tally.updates_total += agent.next_is_update
                if agent.next_is_long:
                    slot.update = self._updates.submit(agent.work)
                    slot.update.add_done_callback(self._wake)
                    return
                agent.work()
        if slot.queue or (agent is not None and agent.has_work):
            self._make_ready(name, slot)

    def _wake(self, _: object) -> None:
        with contextlib.suppress(OSError):  # the gateway is gone, and so is everything here
            self._wakes.send(b".")

    def _updating(self) -> bool:
        return any(slot.update is not None for slot in self._slots.values())

    def _finish_updates(self) -> None:
        """Go on with the agents whose updates in the other thread are done."""
        for name, slot in self._slots.items():
            if slot.update is None or not slot.update.done():
                continue
            error, slot.update = slot.update.exception(), None
            if error is not None:
                logger.error("an update of agent %s failed: it is opened again", name, exc_info=error)
                if slot.agent is not None:
                    slot.agent.abandon()
                slot.agent = None
            self._make_ready(name, slot)

    def _serve(self, name: str, slot: _Slot) -> None:
        for _ in range(_STEPS_AT_ONCE):
            head, body = slot.queue[0]
            do = head["do"]
            waits = do not in _KEEPS_ORDER and not (do == "act" and slot.agent is not None and slot.agent.relaxed)
            if waits and slot.agent is not None and slot.agent.has_work:
                return
            slot.queue.popleft()
            self._handle(name, slot, head, body)
            if not slot.queue or slot.queue[0][0]["do"] not in _KEEPS_ORDER or do not in _KEEPS_ORDER:
                return

    def _handle(self, name: str, slot: _Slot, head: Head, body: bytes) -> None:
        try:
            if time.time() > head.get("deadline", float("inf")):
                raise RefusedError("unavailable", "the request waited too long, and was not begun", retry_after=1)
            self._follow(slot, head)
            if head["do"] == "open":
                slot.agent = slot.agent or self._open(name, head, Recipe.from_json(json.loads(body)))
                self._answer(name, head, 200, to_bytes(slot.agent.info().value))
            elif head["do"] == "remove":
                self._remove(name, slot)
                self._answer(name, head, 200, b"{}")
            elif head["do"] == "close":
                self._put_away(name, slot)
                self._answer(name, head, 200, b"{}")
            elif slot.agent is None and head.get("wake") is False:
                self._answer(name, head, 200, b"{}")
            else:
                slot.agent = slot.agent or self._open(name, head, None)
                self._ask(name, slot.agent, head, body)
        except RefusedError as error:
            self._refuse(name, head, error)
        except ProgramMissingError as error:
            self._answer(name, head, 503, to_bytes(error.recipe.to_json()), needs_program=True)
        except OutdatedError as error:
            self._lose(slot)
            refused = RefusedError("unavailable", str(error), retry_after=1)
            self._answer(name, head, refused.status, to_bytes(refused.to_json()), retry_after=1, outdated=True)
        except CheckpointError as error:
            logger.exception("request %s of agent %s failed", head["do"], name)
            self._reopen(name, slot)
            self._refuse(name, head, of_checkpoint(error))
        except Exception:
            logger.exception("request %s of agent %s failed", head["do"], name)
            self._reopen(name, slot)
            self._refuse(name, head, RefusedError("internal", "the service failed; its log says why"))

    def _reopen(self, name: str, slot: _Slot) -> None:
        """The next request opens the agent again: it is what its checkpoint and journal say, and not half changed."""
        if slot.agent is not None and self._sync(name, slot):
            slot.agent.abandon()
            slot.agent = None

    def _ask(self, name: str, agent: HostedAgent, head: Head, body: bytes) -> None:
        do = head["do"]
        is_file = head.get("form") == "safetensors"
        if do == "put_state":
            answer = agent.put_state(body, self._stepper_of, is_file=is_file)
        elif do == "get_state":
            answer = agent.get_state(as_file=is_file)
        else:
            answer = _ASKED[do](agent, head, body)
        more = {"replayed": True} if answer.replayed else {}
        content = answer.value if isinstance(answer.value, bytes) else to_bytes(answer.value)
        self._answer(name, head, 200, content, **more)

    def _open(self, name: str, head: Head, recipe: Recipe | None) -> HostedAgent:
        self._tally.openings_total += 1
        path = self._folder / AGENTS / name
        if recipe is None and not path.is_dir():
            raise RefusedError("not_found", "there is no such agent")
        return HostedAgent.open(path, self._stepper_of, recipe, int(head.get("epoch", 0)))

    def _follow(self, slot: _Slot, head: Head) -> None:
        """An agent that another server has had since must be read again; what was sent before that is outdated."""
        if slot.agent is None or slot.agent.epoch == head.get("epoch", 0):
            return
        if slot.agent.epoch > head.get("epoch", 0):
            raise RefusedError("unavailable", "the request came before the agent was taken over", retry_after=1)
        self._lose(slot)

    def _lose(self, slot: _Slot) -> None:
        """Another server has the agent: nothing of it is saved here."""
        if slot.agent is not None:
            slot.agent.abandon()
            slot.agent = None

    def _stepper_of(self, recipe: Recipe, fresh: bool) -> Stepper:
        return open_stepper(recipe, self._folder / PROGRAMS, fresh)

    def _put_away(self, name: str, slot: _Slot) -> None:
        """Save an agent, and have it in memory no more."""
        agent, slot.agent = slot.agent, None
        if agent is None:
            return
        self._tally.evictions_total += 1
        try:
            agent.close()
        except Exception:  # of one agent, which may not be the end of the others
            logger.exception("agent %s cannot be saved; its journal has everything", name)

    def _remove(self, name: str, slot: _Slot) -> None:
        """The folder is renamed first, so that it is there whole or not at all."""
        if slot.agent is not None:
            slot.agent.abandon()
            slot.agent = None
        path = self._folder / AGENTS / name
        gone = path.with_name(f".removed-{name}")
        with contextlib.suppress(FileNotFoundError):
            path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    def _keep_house(self) -> None:
        """Once a second: checkpoints that are due, and agents that nobody uses."""
        now = time.monotonic()
        if now - self._housekept < _HOUSEKEEPING_SECONDS:
            return
        self._housekept = now
        settings = self._settings
        for name, slot in list(self._slots.items()):
            agent = slot.agent
            if agent is None and not slot.queue and not slot.is_ready:
                del self._slots[name]
            if agent is None or slot.queue or slot.update is not None:
                continue
            if now - slot.used > settings.idle_seconds:
                self._put_away(name, slot)
            elif agent.due_for_saving(settings.checkpoint_steps, settings.checkpoint_seconds):
                self._save(name, agent)
        if settings.memory and resident_bytes() > settings.memory:
            self._put_away_oldest()

    def _save(self, name: str, agent: HostedAgent) -> None:
        try:
            agent.save()
        except Exception:
            logger.exception("agent %s cannot be saved; its journal has everything", name)

    def _put_away_oldest(self) -> None:
        """The agents that were unused longest, a quarter of those in memory, but never the only one."""
        slots = self._slots.items()
        loaded = [(k, slot) for k, slot in slots if slot.agent is not None and not slot.queue and slot.update is None]
        for name, slot in loaded[: len(loaded) // 4 or (len(loaded) > 1)]:
            self._put_away(name, slot)
        gc.collect()


_ASKED: Final[Mapping[str, Callable[[HostedAgent, Head, bytes], Answer]]] = {
    "act": lambda agent, head, body: agent.act(body, head.get("noise", 0.0)),
    "step": lambda agent, head, body: agent.step(body, head.get("key")),
    "steps": lambda agent, head, body: agent.step(body, head.get("key"), several=True),
    "end_episode": lambda agent, head, body: agent.end_episode(body, head.get("key")),
    "info": lambda agent, head, body: agent.info(),
    "loss": lambda agent, head, body: agent.loss(),
    "episodes": lambda agent, head, body: agent.episodes(head.get("after", 0), head.get("limit", 100)),
    "patch": lambda agent, head, body: agent.patch(head.get("learning"), recover=bool(head.get("recover"))),
}
"""What an agent is asked, but for its state."""


def _not_kept(content: bytes) -> bytes:
    """In place of an answer to a step that may not be on the disk."""
    ((head, _),) = cut(bytearray(content))
    error = RefusedError("unavailable", "the step could not be kept on the disk", retry_after=1)
    more = {"retry_after": 1, "outdated": True}
    return encode({"id": head["id"], "status": error.status, **more}, to_bytes(error.to_json()))


def resident_bytes() -> int:
    """This process's memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> int:
    """``python -m axonrl.serving.workers.worker FD SETTINGS``: what the pool starts."""
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the gateway, which ends this process in good order
        signal.signal(number, signal.SIG_IGN)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
    logging.captureWarnings(True)
    keep_large_arrays_apart()
    settings = WorkerSettings(**json.loads(sys.argv[2]))
    make_folders(Path(settings.data) / AGENTS)
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        Worker(connection, settings).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
