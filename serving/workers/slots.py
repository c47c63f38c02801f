"""Slots: the agents of a worker, which are opened when they are asked for and put away when nobody uses them."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import gc
import logging
import os
import shutil
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Final

from ...estimators.stepping import Stepper
from ..catalogue.recipes import Recipe
from ..hosting.agent import HostedAgent
from ..hosting.failures import RefusedError
from ..hosting.fencing import OutdatedError
from ..hosting.opening import discard_weights, open_stepper
from ..hosting.programs import PROGRAMS
from ..logs import SERVING
from .messages import Head
from .settings import WorkerSettings
from .tally import Tally

AGENTS: Final = "agents"
logger = logging.getLogger("axonrl.serving")


@dataclasses.dataclass
class Slot:
    """An agent's requests, and the agent itself while it is in memory."""

    queue: collections.deque[tuple[Head, bytes]] = dataclasses.field(default_factory=collections.deque)
    agent: HostedAgent | None = None
    used: float = 0.0
    is_ready: bool = False
    update: Future[None] | None = None
    """An update that runs in the other thread. Nobody touches the agent meanwhile, but a relaxed one goes on acting."""


class Slots:
    """Opens agents, saves them, and keeps within the memory that the worker may have.

    Args:
        settings: how agents are kept.
        tally: counts what is done.
        beat: called now and then while something takes long: the worker gets on.
    """

    def __init__(self, settings: WorkerSettings, tally: Tally, beat: Callable[[], None]) -> None:
        self._settings = settings
        self._tally = tally
        self._beat = beat
        self._folder = Path(settings.data)
        self.by_name: collections.OrderedDict[str, Slot] = collections.OrderedDict()
        """The agent that was unused longest comes first."""

    def loaded(self) -> int:
        """How many agents are in memory."""
        return sum(slot.agent is not None for slot in self.by_name.values())

    def updating(self) -> bool:
        """Does an update run in the other thread?"""
        return any(slot.update is not None for slot in self.by_name.values())

    # -- one agent ----------------------------------------------------------------------------------------------------

    def open(self, name: str, head: Head, recipe: Recipe | None) -> HostedAgent:
        """An agent from its folder, or a new one of a recipe.

        Raises:
            RefusedError: there is no such agent, or another process has it.
            ProgramMissingError: its program must be built first.
            OutdatedError: another server has it.
            CheckpointError: no checkpoint of it is whole.
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
        """Where an agent's files are."""
        return self._folder / AGENTS / name

    def stepper_of(self, recipe: Recipe, fresh: bool) -> Stepper:
        """See :func:`~axonrl.serving.hosting.opening.open_stepper`."""
        return open_stepper(recipe, self._folder / PROGRAMS, fresh)

    def follow(self, slot: Slot, head: Head) -> None:
        """An agent that another server has had since must be read again; what was sent before that is outdated."""
        if slot.agent is None or slot.agent.epoch == head.get("epoch", 0):
            return
        if slot.agent.epoch > head.get("epoch", 0):
            raise RefusedError("unavailable", "the request came before the agent was taken over", retry_after=1)
        self.lose(slot)

    def lose(self, slot: Slot) -> None:
        """Nothing of the agent is saved here: another server has it, or what is in memory is not to be trusted."""
        if slot.agent is not None:
            slot.agent.abandon()
            slot.agent = None

    def reopen(self, name: str, slot: Slot) -> None:
        """The next request opens the agent again: it is what its checkpoint and journal say, and not half changed."""
        if slot.agent is not None and self.sync(name, slot):
            self.lose(slot)

    def sync(self, name: str, slot: Slot) -> bool:
        """Force what was accepted to the disk; False, and the agent is in memory no more, if that failed."""
        try:
            if slot.agent is not None:
                SERVING.agent = name
                self._beat()
                with self._tally.syncing():
                    slot.agent.sync()
        except OutdatedError as error:  # the other server may have read what is in the file: it stays
            logger.warning("a request is not acknowledged: %s", error)
            self.lose(slot)
            return False
        except OSError:
            logger.exception("the journal of agent %s cannot be synced: it is opened again", name)
            if slot.agent is not None:
                slot.agent.abandon(drop_unsynced=self._settings.syncs)
            slot.agent = None
            return False
        return True

    def put_away(self, name: str, slot: Slot) -> None:
        """Save an agent, and have it in memory no more."""
        agent, slot.agent = slot.agent, None
        if agent is None:
            return
        self._tally.evictions_total += 1
        SERVING.agent = name
        self._beat()
        try:
            agent.close()
        except Exception:  # of one agent, which may not be the end of the others
            logger.exception("agent %s cannot be saved; its journal has everything", name)

    def remove(self, name: str, slot: Slot) -> None:
        """Remove its folder, which is renamed first, so that it is there whole or not at all."""
        self.lose(slot)
        path = self.folder_of(name)
        gone = path.with_name(f".removed-{name}")
        with contextlib.suppress(FileNotFoundError):
            path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    # -- all of them --------------------------------------------------------------------------------------------------

    def put_all_away(self) -> None:
        """Save every agent."""
        for name, slot in self.by_name.items():
            self.put_away(name, slot)

    def abandon_all(self) -> None:
        """Leave every folder without saving, but for agents whose update still runs."""
        for slot in self.by_name.values():
            if slot.update is None:
                self.lose(slot)

    def keep_house(self, now: float) -> None:
        """Checkpoints that are due, agents that nobody uses, and the limit of memory."""
        settings = self._settings
        for name, slot in list(self.by_name.items()):
            agent = slot.agent
            if agent is None and not slot.queue and not slot.is_ready:
                del self.by_name[name]
            if agent is None or slot.queue or slot.update is not None:
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
        """The agents that were unused longest, a quarter of those in memory, but never the only one."""
        slots = self.by_name.items()
        loaded = [(k, slot) for k, slot in slots if slot.agent is not None and not slot.queue and slot.update is None]
        for name, slot in loaded[: len(loaded) // 4 or (len(loaded) > 1)]:
            self.put_away(name, slot)
        gc.collect()


def resident_bytes() -> int:
    """This process's memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
