"""Slots: the agents of a worker with their requests, loaded on demand and unloaded when unused."""

from __future__ import annotations

import collections
import dataclasses
import gc
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeAlias

from ...estimators.stepper import Stepper
from ..catalogue.recipes import Recipe
from ..hosting.agent import HostedAgent
from ..hosting.agent_store import remove_agent
from ..hosting.fencing import OutdatedError
from ..hosting.programs import PROGRAMS, open_stepper
from ..logs import SERVING
from ..refusals import RefusedError
from .messages import Head, refusal
from .settings import WorkerSettings

AGENTS: Final = "agents"
_MOST_SECONDS_OWED: Final = 1.0
"""Seconds of pending updates up to which an agent is saved, for which all of them are run."""
ACT: Final = "act"
KEEPS_ORDER: Final = ("step", "steps", "end_episode")
"""Requests that need not wait until accepted records are applied."""
Answer: TypeAlias = tuple[Head, bytes]
"""The head of a request, and the frame that answers it."""
logger = logging.getLogger("axonrl.serving")


@dataclasses.dataclass
class Tally:
    """Counts since the worker's start; names that end in ``_total`` only grow."""

    updates_total: int = 0
    openings_total: int = 0
    evictions_total: int = 0
    journal_syncs_total: int = 0
    journal_sync_seconds_total: float = 0.0


@dataclasses.dataclass
class Slot:
    """An agent's requests, and the agent itself while it is in memory."""

    name: str
    queue: collections.deque[tuple[Head, bytes]] = dataclasses.field(default_factory=collections.deque)
    agent: HostedAgent | None = None
    used: float = 0.0
    is_ready: bool = False
    is_held: bool = False
    """Whether its steps wait until it is saved, which is due: while they keep it busy, it is never settled."""
    is_replaying: bool = False
    """Whether a request waits until the journal's records are applied."""
    behind_until: float = 0.0
    """Time until which others come first, because one of its requests took long."""
    update: Future[None] | None = None
    """An update in the other thread. Meanwhile nothing uses the agent, except that a relaxed one continues to act."""
    sync: Future[None] | None = None
    """A sync in a separate thread. Meanwhile the agent acts and accepts, but is neither saved nor closed."""
    syncing: list[Answer] = dataclasses.field(default_factory=list)
    """Answers that wait for this sync."""
    waiting: list[Answer] = dataclasses.field(default_factory=list)
    """Answers that wait for the next sync."""

    @property
    def next(self) -> str:
        """The next request; empty: none."""
        return str(self.queue[0][0]["do"]) if self.queue else ""

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is in another thread, or about to be."""
        return not self.waiting and self.update is None and self.sync is None

    @property
    def rests(self) -> bool:
        """Whether nothing is in progress, and nothing long is left to do, so that it can be unloaded at once."""
        idle = not self.queue and self.is_quiet
        return idle and (self.agent is None or self.agent.learning.seconds_owed() < _MOST_SECONDS_OWED)

    @property
    def is_settled(self) -> bool:
        """Whether everything accepted is applied and on the disk, so that it can be saved at once."""
        return self.is_quiet and (self.agent is None or not self.agent.learning.has_work)

    @property
    def may_answer(self) -> bool:
        """Whether its next request may be answered now: it waits for updates and syncs that it depends on."""
        do, agent = self.next, self.agent
        if not do or agent is None:
            return bool(do) and self.update is None
        if do in KEEPS_ORDER:
            return not agent.step_waits(held=self.is_held) and (self.update is None or agent.relaxed)
        if do == ACT:
            return agent.relaxed or (self.update is None and not agent.learning.has_work)
        return self.is_settled

    @property
    def may_work(self) -> bool:
        """Whether there is something to apply, and no thread is applying it."""
        return self.update is None and self.agent is not None and self.agent.learning.has_work

    @property
    def left(self) -> int:
        """Steps and transitions left to apply."""
        return 0 if self.agent is None else self.agent.learning.left

    @property
    def may_act(self) -> bool:
        """Whether it can act at once, without longer work."""
        return self.next == ACT and self.agent is not None and self.may_answer


class Slots:
    """Loads and saves agents, within the worker's limit of memory.

    Args:
        settings: the worker's settings.
        beat: sends a heartbeat; called during long operations.
        wake: called in another thread, with a slot whose sync or update is done.
    """

    def __init__(self, settings: WorkerSettings, beat: Callable[[], None], wake: Callable[[Slot], None]) -> None:
        self._settings = settings
        self.tally = Tally()
        self._beat = beat
        self._wake = wake
        self._syncs = ThreadPoolExecutor(1, "sync")
        self._to_sync: dict[str, Slot] = {}
        """Slots with answers that wait for a sync."""
        self.out = bytearray()
        """Frames to be sent."""
        self._folder = Path(settings.data)
        self.by_name: collections.OrderedDict[str, Slot] = collections.OrderedDict()
        """Slots by name, the least recently used first."""

    def counts(self) -> dict[str, float]:
        """Counters, and the number of agents in memory."""
        loaded = sum(slot.agent is not None for slot in self.by_name.values())
        return {"loaded_agents": loaded, **dataclasses.asdict(self.tally)}

    def busy(self) -> bool:
        """Whether anything runs in another thread, or is about to."""
        slots = self.by_name.values()
        return bool(self._to_sync) or any(slot.update is not None or slot.sync is not None for slot in slots)

    def shut_down(self) -> None:
        """Start nothing new."""
        self._syncs.shutdown(wait=False, cancel_futures=True)

    # -- one agent ----------------------------------------------------------------------------------------------------

    def open(self, slot: Slot, head: Head, recipe: Recipe | None = None) -> HostedAgent:
        """The agent of a slot: in memory, from its folder, or a new one of a recipe.

        Raises:
            RefusedError: there is no such agent, or another process has it.
            ProgramMissingError: its program must be built first.
            OutdatedError: another server has it.
            CheckpointError: all its checkpoints are damaged.
        """
        if slot.agent is not None:
            return slot.agent
        self.tally.openings_total += 1
        self._beat()
        path = self.folder_of(slot.name)
        if recipe is None and not path.is_dir():
            raise RefusedError("not_found", "there is no such agent")
        epoch = int(head.get("epoch", 0))
        slot.agent = HostedAgent.open(path, self.stepper_of, recipe, epoch, self._beat)
        return slot.agent

    def folder_of(self, name: str) -> Path:
        """Folder of an agent's files."""
        return self._folder / AGENTS / name

    def stepper_of(self, recipe: Recipe, fresh: bool) -> Stepper:
        """See :func:`~axonrl.serving.hosting.programs.open_stepper`."""
        return open_stepper(recipe, self._folder / PROGRAMS, fresh)

    def follow(self, slot: Slot, head: Head) -> None:
        """Reload an agent that another server has had since; earlier requests are outdated."""
        if slot.agent is None or slot.agent.epoch == head.get("epoch", 0):
            return
        if slot.agent.epoch > head.get("epoch", 0):
            raise RefusedError("unavailable", "the request came before the agent was taken over", retry_after=1)
        self.lose(slot)

    def lose(self, slot: Slot) -> None:
        """Drop an agent without saving: another server has it, or its memory cannot be trusted."""
        self.settle(slot)
        self._abandon(slot, drop_unsynced=False)

    def _abandon(self, slot: Slot, *, drop_unsynced: bool) -> None:
        """Drop an agent; answers that wait for a sync are not acknowledged."""
        if slot.agent is not None:
            slot.agent.abandon(drop_unsynced=drop_unsynced)
            slot.agent = None
        self._release(slot.waiting, kept=False)

    def _release(self, answers: list[Answer], *, kept: bool) -> None:
        """Send answers that waited for a sync; refusals, if what they acknowledge may not be on the disk."""
        for request, frame in answers:
            lost = RefusedError("unavailable", "the step could not be stored on the disk", retry_after=1)
            self.out += frame if kept else refusal(request, lost, outdated=True)
        answers.clear()

    def reopen(self, slot: Slot) -> None:
        """Make the next request reload the agent from checkpoint and journal, so that no change is partial."""
        self._sync_now(slot)
        self.lose(slot)

    def put_away(self, slot: Slot) -> None:
        """Save and unload an agent."""
        if slot.waiting or slot.sync is not None:
            self._sync_now(slot)
        agent, slot.agent = slot.agent, None
        if agent is not None:
            self.tally.evictions_total += 1
            self._save(slot, agent.close)

    def _save(self, slot: Slot, save: Callable[[], object]) -> None:
        SERVING.agent = slot.name
        self._beat()
        try:
            save()
        except OutdatedError as error:
            logger.warning("agent %s is unloaded: %s", slot.name, error)
            self.lose(slot)
        except Exception:  # one agent's error must not affect the others
            logger.exception("agent %s cannot be saved; its journal has everything", slot.name)

    def remove(self, slot: Slot) -> None:
        """Remove an agent with its folder; OSError if something is left, which the next removal removes."""
        self.lose(slot)
        remove_agent(self.folder_of(slot.name))

    # -- persistence ------------------------------------------------------------------------------------------

    def deliver(self, slot: Slot, request: Head, frame: bytes) -> None:
        """Send an answer: at once, or once all that it may reveal is on the disk."""
        is_unsynced = slot.agent is not None and slot.agent.unsynced
        may_reveal = request["do"] != ACT and (is_unsynced or slot.waiting or slot.sync is not None)
        if may_reveal and self._settings.syncs:
            slot.waiting.append((request, frame))
            self._to_sync[slot.name] = slot
        else:
            self.out += frame

    def begin_syncs(self, *, all_agents: bool = False) -> None:
        """Start syncs that answers wait for, or of all agents, in a separate thread, an agent at a time."""
        for name, slot in list((self.by_name if all_agents else self._to_sync).items()):
            if slot.sync is None:
                self._to_sync.pop(name, None)
                self._begin_sync(slot)

    def _begin_sync(self, slot: Slot) -> None:
        if slot.agent is None or not slot.agent.unsynced:
            return
        slot.syncing, slot.waiting = slot.waiting, []
        slot.sync = self._syncs.submit(self._sync, slot.name, slot.agent)
        slot.sync.add_done_callback(lambda _: self._wake(slot))

    def _sync(self, name: str, agent: HostedAgent) -> None:
        SERVING.agent, began = name, time.perf_counter()
        agent.sync()
        self.tally.journal_syncs_total += 1
        self.tally.journal_sync_seconds_total += time.perf_counter() - began

    def settle(self, slot: Slot) -> None:
        """Wait for a running sync. If it failed, the agent is unloaded, and waiting answers become failures."""
        if slot.sync is None:
            return
        self._beat()
        error, slot.sync = slot.sync.exception(), None
        self._release(slot.syncing, kept=error is None)
        if slot.agent is not None and not slot.agent.unsynced:  # later records are on the disk as well
            self._release(slot.waiting, kept=error is None)
        SERVING.agent = slot.name
        match error:
            case None:
                pass
            case OutdatedError():  # the other server may have read the file: it stays
                logger.warning("a request is not acknowledged: %s", error)
                self._abandon(slot, drop_unsynced=False)
            case OSError():
                logger.error("the journal of agent %s cannot be synced: it is opened again", slot.name, exc_info=error)
                self._abandon(slot, drop_unsynced=self._settings.syncs)
            case _:
                raise error

    def _sync_now(self, slot: Slot) -> None:
        """Wait until accepted records are on the disk; on failure like :meth:`settle`."""
        self.settle(slot)
        self._begin_sync(slot)
        self.settle(slot)

    # -- all agents --------------------------------------------------------------------------------------------------

    def save_held(self, slot: Slot) -> None:
        """Save an agent whose steps wait for that, if it is settled."""
        if slot.is_held and slot.is_settled:
            slot.is_held = False
            if slot.agent is not None:
                self._save(slot, slot.agent.save)

    def put_all_away(self) -> None:
        """Save every agent."""
        for slot in self.by_name.values():
            self.put_away(slot)

    def abandon_all(self) -> None:
        """Release every folder without saving, except for agents with a running update."""
        for slot in self.by_name.values():
            if slot.update is None:
                self.lose(slot)

    def keep_house(self, now: float) -> None:
        """Write due checkpoints, unload unused agents, and enforce the limit of memory."""
        settings = self._settings
        for name, slot in list(self.by_name.items()):
            agent = slot.agent
            if agent is None and slot.rests and not slot.is_ready:
                del self.by_name[name]
            if agent is None:
                continue
            if slot.rests and now - slot.used > settings.idle_seconds:
                self.put_away(slot)
            elif agent.due_for_saving(settings.checkpoint_steps, settings.checkpoint_seconds):
                slot.is_held = True
                self.save_held(slot)
        if settings.memory and resident_bytes() > settings.memory:
            self._put_away_oldest()
        SERVING.agent = None

    def _put_away_oldest(self) -> None:
        """Unload the least recently used quarter of the agents in memory, but never the only one."""
        loaded = [slot for slot in self.by_name.values() if slot.agent is not None and slot.rests]
        for slot in loaded[: len(loaded) // 4 or (len(loaded) > 1)]:
            self.put_away(slot)
        gc.collect()


def resident_bytes() -> int:
    """Memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
