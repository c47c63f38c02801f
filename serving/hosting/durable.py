"""An agent as it lasts: a journal has what it accepts, checkpoints what it makes of that, and both bring it back."""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, TypeVar

from ...core.errors import CheckpointError, NonFiniteError
from ...core.protocols import State
from ...estimators.stepper import Stepper
from ..catalogue.recipes import Recipe
from .accepted_steps import AcceptedSteps
from .agent_store import Folder, bring_back, service_part, transition_specs_of
from .failures import RefusedError
from .fencing import OutdatedError
from .journal import DamagedJournalError
from .keys import Keys
from .records import Codec, Record
from .segments import LARGEST

StepperOf: TypeAlias = Callable[[Recipe, bool], Stepper]
_Agent = TypeVar("_Agent", bound="DurableAgent")


class DurableAgent:
    """Accepts records, applies them, saves what it becomes, and comes back after a crash. Knows no requests.

    A record is appended to the journal, and may be acknowledged after :meth:`sync`. What was accepted is applied by
    :meth:`work`, a piece at a time; whoever asks for something that depends on it calls :meth:`finish` before.

    Args:
        recipe: what it was created with.
        stepper_of: makes the stepper of a recipe; are its initial weights to be those of the seed?
        folder: locked by this process.
        state: the checkpoint that it goes on from, with what its journal has after it; None for a new agent, of which a
            first checkpoint is written.
        gets_on: called after each piece of what it applies at once, as when its journal is replayed.
    """

    def __init__(
        self, recipe: Recipe, stepper_of: StepperOf, folder: Folder, state: State | None, gets_on: Callable[[], None]
    ) -> None:
        self._folder = folder
        self._gets_on = gets_on
        stepper = stepper_of(recipe, state is None)
        self._use(recipe, AcceptedSteps(stepper, recipe.gathers))
        self._specs = transition_specs_of(stepper)
        self._codec = Codec(self._specs, stepper.behaviour.recorded)
        self._keys = Keys()
        self._seq = 0
        self._number = 0
        self._saved = 0
        """The number of the last record in the newest checkpoint."""
        self._saved_seq = 0
        self._saved_at = time.monotonic()
        self._learns = True
        self._damage: str | None = None
        self._damaged: int | None = None
        """How many records cannot be applied."""
        self._unsynced = False
        if state is None:
            folder.describe(recipe, stepper)
            self.save()
        else:
            self._restore(state)
            folder.weigh()
            self._begin()

    def _use(self, recipe: Recipe, learning: AcceptedSteps) -> None:
        self.recipe = recipe
        self._learning = learning
        self._stepper = learning.stepper
        self._folder.use(self._stepper)

    # -- beginning ----------------------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls: type[_Agent],
        path: Path,
        stepper_of: StepperOf,
        recipe: Recipe | None = None,
        epoch: int = 0,
        gets_on: Callable[[], None] = lambda: None,
    ) -> _Agent:
        """The agent of a folder, as it was: its newest checkpoint, and its journal from there on.

        Args:
            path: the folder; locked from now on, until :meth:`close`.
            stepper_of: makes the stepper of a recipe; are its initial weights to be those of the seed?
            recipe: of an agent that is created now; None for one that exists.
            epoch: how often it was taken over.
            gets_on: called again and again while this takes long.

        Raises:
            RefusedError: ``unavailable``: another process has the folder.
            CheckpointError: no checkpoint of it is whole.
            ValueError: there is no compiled program.
        """
        folder = Folder(path, epoch)
        folder.lock()
        try:
            state = folder.open()
            if state is not None:
                recipe = Recipe.from_json(service_part(state)["recipe"])
            elif recipe is None:
                raise CheckpointError(f"{path} holds no agent")
            return cls(recipe, stepper_of, folder, state, gets_on)
        except BaseException:
            folder.close()
            raise

    def _restore(self, state: State) -> None:
        """Bring back a checkpoint, and what the journal has from there on."""
        part = service_part(state)
        bring_back(state, self._learning)
        self._number = self._saved = int(part["number"])
        self._seq = self._saved_seq = self._learning.streams.steps = int(part["seq"])
        self._learns = bool(part["learns"])
        self._keys.load_state_dict(part["accepted"])
        try:
            for number, content in self._folder.journal.read(self._number + 1):
                self._accept(self._decoded(number, content))
                self._learning.finish(self._gets_on)
                if self._learning.failure is not None:
                    break
        except DamagedJournalError as error:
            self._damage, self._damaged = str(error), error.lost

    def _begin(self) -> None:
        """Where others can see the folder: what somebody else still writes does not count from here on."""
        if self.epoch and self.failure is None:
            self._folder.journal.begin(self._number + 1)

    def _decoded(self, number: int, content: bytes) -> Record:
        try:
            record = self._codec.decode(content)
            if record.number != number:
                raise ValueError(f"record {number} says that it is {record.number}")
        except ValueError as error:
            raise self._folder.journal.damage_at(number) from error
        return record

    def _recover(self) -> int:
        """Go on from what is whole: before a damaged record, or from the checkpoint before updates failed."""
        if self._damaged is not None:
            lost = self._damaged
            self._set_rest_aside()
            self.save()
            return lost
        lost = self._folder.journal.set_aside(self._saved + 1)
        self._learning.reset()
        self._keys = Keys()
        state = self._folder.open()
        if state is not None:
            self._restore(state)
        self._folder.weigh()
        return lost

    def _set_rest_aside(self) -> None:
        """Read no more what the journal has behind the last record that was applied: damage, or what followed it."""
        self._folder.journal.set_aside(self._number + 1)
        self._damage = self._damaged = None

    # -- what was accepted --------------------------------------------------------------------------------------------

    @property
    def failure(self) -> str | None:
        """Why it takes no steps; None if it does."""
        return self._damage or self._learning.failure

    @property
    def has_work(self) -> bool:
        """Was anything accepted that is not applied yet?"""
        return self._learning.has_work

    @property
    def next_is_update(self) -> bool:
        """Would :meth:`work` run an update?"""
        return self._learning.next_is_update

    @property
    def next_is_long(self) -> bool:
        """Would :meth:`work` run an update that others should not wait for?"""
        return self._learning.next_is_long

    def work(self) -> None:
        """Apply a piece of it; also in another thread, while nobody else uses the agent."""
        self._learning.work()
        if self._learning.failure is not None:
            self._act_as_saved()

    def finish(self) -> None:
        """Apply all of it."""
        while self.has_work:
            self.work()
            self._gets_on()

    def _act_as_saved(self) -> None:
        """Updates have failed: act with the weights of the newest checkpoint, which are finite."""
        state = None
        with contextlib.suppress(CheckpointError):  # then with those that there are, if they are finite
            state = self._folder.open()
        if state is not None:
            self._stepper.set_weights(state["weights"])

    def _append(self, record: Record) -> None:
        content = self._codec.encode(record)
        if len(content) > LARGEST:  # it could not be read again
            what = f"the steps take {len(content):,} bytes in the journal, of which a request may have {LARGEST:,}"
            raise RefusedError("body_too_large", f"{what}: send fewer at once")
        try:
            self._folder.journal.append(record.number, content)
        except OSError as error:
            code = "storage_full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "unavailable"
            raise RefusedError(code, f"the step cannot be kept: {error.strerror}", retry_after=1) from error
        self._unsynced = True

    def _accept(self, record: Record) -> None:
        self._number = record.number
        self._seq += len(record.steps)
        self._keys.add(record, self._seq)
        self._learning.accept(record)

    # -- what is kept -------------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """How often it was taken over, when this process did; 0 where no other can."""
        return self._folder.fence.epoch

    @property
    def unsynced(self) -> bool:
        """Was anything accepted that may not be on the disk yet?"""
        return self._unsynced

    def sync(self) -> None:
        """Everything that was accepted before this began is on the disk, and nobody has taken the agent over.

        It may run in a thread of its own, while the agent acts, accepts and applies, but is neither saved nor closed.

        Raises:
            OSError: that is not known, and then it must be opened again.
            OutdatedError: somebody has, and what was accepted must not be acknowledged.
        """
        self._unsynced = False  # before: what is appended meanwhile sets it again, when it has been written
        try:
            self._folder.journal.sync()
            self._folder.fence.check()
        except BaseException:
            self._unsynced = True
            raise

    def due_for_saving(self, steps: int, seconds: float) -> bool:
        """Were so many steps accepted since the newest checkpoint, or any of them that long ago?"""
        if self._number == self._saved or self.failure is not None:
            return False
        return self._seq - self._saved_seq >= steps or time.monotonic() - self._saved_at >= seconds

    def save(self) -> None:
        """Write a checkpoint; nothing, if the agent has failed.

        Raises:
            CheckpointError: it cannot be written; nothing is lost.
            OutdatedError: another process has taken it over.
        """
        self.finish()
        if self.failure is not None:
            return
        extra = {
            "recipe": self.recipe.to_json(),
            "seq": self._seq,
            "learns": self._learns,
            "accepted": self._keys.state_dict(),
        }
        try:
            self._folder.save(self._learning, self._number, extra, self._learning.progress(self._seq))
        except NonFiniteError as error:
            self._learning.failure = str(error)
            self._act_as_saved()
            return
        self._saved, self._saved_seq, self._saved_at = self._number, self._seq, time.monotonic()
        self._unsynced = False

    def close(self) -> None:
        """Save what is new, and leave the folder to others."""
        try:
            if self._number != self._saved:
                self.save()
        except (CheckpointError, OutdatedError):
            pass  # the journal has it; or another process has the agent
        finally:
            self._folder.close()

    def abandon(self, *, drop_unsynced: bool = False) -> None:
        """Leave the folder to others without saving: nobody knows what is on the disk.

        Args:
            drop_unsynced: remove what was appended since the last :meth:`sync` that worked; nobody was told of it.
        """
        if drop_unsynced:
            self._folder.journal.drop_unsynced()
        self._folder.close()
