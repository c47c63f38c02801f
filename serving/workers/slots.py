"""Slots: the agents of a worker, loaded on demand and unloaded when unused."""

from __future__ import annotations

import collections
import contextlib
import gc
import logging
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from ...estimators.stepper import Stepper
from ..catalogue.recipes import Recipe
from ..hosting.agent import HostedAgent
from ..hosting.fencing import OutdatedError
from ..hosting.program_stepper import discard_weights, open_stepper
from ..hosting.programs import PROGRAMS
from ..logs import SERVING
from ..refusals import RefusedError
from .counters import Tally
from .messages import Head
from .settings import WorkerSettings
from .slot import Slot

AGENTS: Final = "agents"
logger = logging.getLogger("axonrl.serving")


class Slots:
    """Loads and saves agents, within the worker's limit of memory.

    Args:
        settings: the worker's settings.
        tally: counters.
        beat: sends a heartbeat; called during long operations.
        wake: called in another thread when a sync is done: :meth:`finish_syncs`.
    """

    def __init__(
        self, settings: WorkerSettings, tally: Tally, beat: Callable[[], None], wake: Callable[[object], None]
    ) -> None:
        self._settings = settings
        self._tally = tally
        self._beat = beat
        self._wake = wake
        self._syncs = ThreadPoolExecutor(1, "sync")
        self._to_sync: dict[str, Slot] = {}
        """Slots with answers that wait for a sync."""
        self._in_sync: dict[str, Slot] = {}
        self.told: list[tuple[bytes, bool]] = []
        """Answers ready to be sent, and whether their content is persisted."""
        self._folder = Path(settings.data)
        self.by_name: collections.OrderedDict[str, Slot] = collections.OrderedDict()
        """Slots by name, the least recently used first."""

    def loaded(self) -> int:
        """Number of agents in memory."""
        return sum(slot.agent is not None for slot in self.by_name.values())

    def busy(self) -> bool:
        """Whether anything runs in another thread, or is about to."""
        return bool(self._to_sync or self._in_sync) or any(slot.update is not None for slot in self.by_name.values())

    def shut_down(self) -> None:
        """Start nothing new."""
        self._syncs.shutdown(wait=False, cancel_futures=True)

    # -- one agent ----------------------------------------------------------------------------------------------------

    def open(self, name: str, head: Head, recipe: Recipe | None) -> HostedAgent:
        """An agent from its folder, or a new one of a recipe.

        Raises:
            RefusedError: there is no such agent, or another process has it.
            ProgramMissingError: its program must be built first.
            OutdatedError: another server has it.
            CheckpointError: all its checkpoints are damaged.
        """
        self._tally.openings_total += 1
        self._beat()
        path = self.folder_of(name)
        if recipe is None and not path.is_dir():
            raise RefusedError("not_found", "there is no such agent")
        agent = HostedAgent.open(path, self.stepper_of, recipe, int(head.get("epoch", 0)), self._beat)
        if recipe is not None and head.get("any_seed"):
            discard_weights(recipe, self._folder / PROGRAMS)
        return agent

    def folder_of(self, name: str) -> Path:
        """Folder of an agent's files."""
        return self._folder / AGENTS / name

    def stepper_of(self, recipe: Recipe, fresh: bool) -> Stepper:
        """See :func:`~axonrl.serving.hosting.program_stepper.open_stepper`."""
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
        self._settle(slot)
        self._abandon(slot, drop_unsynced=False)

    def _abandon(self, slot: Slot, *, drop_unsynced: bool) -> None:
        """Drop an agent; answers that wait for a sync are not acknowledged."""
        if slot.agent is not None:
            slot.agent.abandon(drop_unsynced=drop_unsynced)
            slot.agent = None
        self.told += [(content, False) for content in slot.waiting]
        slot.waiting.clear()

    def reopen(self, slot: Slot) -> None:
        """Make the next request reload the agent from checkpoint and journal, so that no change is partial."""
        self._sync_now(slot)
        self.lose(slot)

    def put_away(self, name: str, slot: Slot) -> None:
        """Save and unload an agent."""
        if slot.waiting or slot.sync is not None:
            self._sync_now(slot)
        agent, slot.agent = slot.agent, None
        if agent is None:
            return
        self._tally.evictions_total += 1
        SERVING.agent = name
        self._beat()
        try:
            agent.close()
        except Exception:  # one agent's error must not affect the others
            logger.exception("agent %s cannot be saved; its journal has everything", name)

    def remove(self, name: str, slot: Slot) -> None:
        """Remove an agent's folder, renamed first, so that it is complete or gone."""
        self.lose(slot)
        path = self.folder_of(name)
        gone = path.with_name(f".removed-{name}")
        with contextlib.suppress(FileNotFoundError):
            path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    # -- persistence ------------------------------------------------------------------------------------------

    def tell(self, slot: Slot, content: bytes, *, waits: bool) -> None:
        """Deliver an answer: at once, or once all that it may reveal is on the disk.

        Args:
            slot: the agent's slot.
            content: the answer.
            waits: whether it may reveal accepted records.
        """
        is_unsynced = slot.agent is not None and slot.agent.unsynced
        if waits and self._settings.syncs and (is_unsynced or slot.waiting or slot.sync is not None):
            slot.waiting.append(content)
            self._to_sync[slot.name] = slot
        else:
            self.told.append((content, True))

    def begin_syncs(self) -> None:
        """Start syncs that answers wait for, in a separate thread, an agent at a time."""
        for name, slot in list(self._to_sync.items()):
            if slot.sync is None:
                del self._to_sync[name]
                self._begin_sync(slot)

    def begin_all_syncs(self) -> None:
        """Start syncs of all agents with accepted records."""
        for slot in self.by_name.values():
            if slot.sync is None:
                self._begin_sync(slot)

    def finish_syncs(self) -> list[Slot]:
        """Process completed syncs; returns their slots."""
        done = [slot for slot in self._in_sync.values() if slot.sync is not None and slot.sync.done()]
        for slot in done:
            self._settle(slot)
        return done

    def _begin_sync(self, slot: Slot) -> None:
        if slot.agent is None or not slot.agent.unsynced:
            return
        slot.syncing, slot.waiting = slot.waiting, []
        slot.sync = self._syncs.submit(self._sync, slot.name, slot.agent)
        self._in_sync[slot.name] = slot
        slot.sync.add_done_callback(self._wake)

    def _sync(self, name: str, agent: HostedAgent) -> None:
        SERVING.agent = name
        with self._tally.syncing():
            agent.sync()

    def _settle(self, slot: Slot) -> None:
        """Wait for a running sync. If it failed, the agent is unloaded, and waiting answers become failures."""
        if slot.sync is None:
            return
        self._beat()
        error, slot.sync = slot.sync.exception(), None
        del self._in_sync[slot.name]
        self.told += [(content, error is None) for content in slot.syncing]
        slot.syncing = []
        if slot.agent is not None and not slot.agent.unsynced:  # later records are on the disk as well
            self.told += [(content, error is None) for content in slot.waiting]
            slot.waiting.clear()
        SERVING.agent = slot.name
        match error:
            case None:
                pass
            case OutdatedError():  # the other server may have read the file: it stays
                logger.warning("a request is not acknowledged: %s", error)
                self._abandon(slot, drop_unsynced=False)
            case OSError():
                message = "the journal of agent %s cannot be synced: it is opened again"
                logger.error(message, slot.name, exc_info=error)
                self._abandon(slot, drop_unsynced=self._settings.syncs)
            case _:
                raise error

    def _sync_now(self, slot: Slot) -> None:
        """Wait until accepted records are on the disk; on failure like :meth:`_settle`."""
        self._settle(slot)
        if slot.agent is not None and slot.agent.unsynced:
            self._begin_sync(slot)
            self._settle(slot)

    # -- all agents --------------------------------------------------------------------------------------------------

    def put_all_away(self) -> None:
        """Save every agent."""
        for name, slot in self.by_name.items():
            self.put_away(name, slot)

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
            if agent is None or not slot.rests:
                continue
            if now - slot.used > settings.idle_seconds:
                self.put_away(name, slot)
            elif agent.due_for_saving(settings.checkpoint_steps, settings.checkpoint_seconds):
                self._save(name, agent)
        if settings.memory and resident_bytes() > settings.memory:
            self._put_away_oldest()
        SERVING.agent = None

    def _save(self, name: str, agent: HostedAgent) -> None:
        SERVING.agent = name
        self._beat()
        try:
            agent.save()
        except Exception:
            logger.exception("agent %s cannot be saved; its journal has everything", name)

    def _put_away_oldest(self) -> None:
        """Unload the least recently used quarter of the agents in memory, but never the only one."""
        slots = self.by_name.items()
        loaded = [(name, slot) for name, slot in slots if slot.agent is not None and slot.rests]
        for name, slot in loaded[: len(loaded) // 4 or (len(loaded) > 1)]:
            self.put_away(name, slot)
        gc.collect()


def resident_bytes() -> int:
    """This process's memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
