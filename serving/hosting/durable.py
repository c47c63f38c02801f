"""A crash-safe agent: a journal holds what it accepts, checkpoints hold its state, and both together restore it."""

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
from ..idempotency import Accepted, Keys
from ..refusals import RefusedError
from .accepted_steps import AcceptedSteps
from .agent_store import Folder, bring_back, service_part, transition_specs_of
from .fencing import OutdatedError
from .journal import LARGEST, DamagedJournalError
from .records import NO_KEY, Codec, Record

StepperOf: TypeAlias = Callable[[Recipe, bool], Stepper]
_Agent = TypeVar("_Agent", bound="DurableAgent")


class DurableAgent:
    """Accepts records, applies them, saves its state, and recovers after a crash. Independent of requests.

    A record is appended to the journal, and may be acknowledged after :meth:`sync`. :meth:`work` applies accepted
    records a piece at a time; call :meth:`finish` before using anything that depends on them.

    Args:
        recipe: recipe of its creation.
        stepper_of: makes the stepper of a recipe; its second argument: whether initial weights must be the seed's.
        folder: folder, locked by this process.
        state: the checkpoint to continue from, together with the journal after it; None for a new agent, for which a
            first checkpoint is written.
        beat: called after each piece of long work, such as a record of the journal.
    """

    def __init__(
        self,
        recipe: Recipe,
        stepper_of: StepperOf,
        folder: Folder,
        state: State | None,
        beat: Callable[[], None],
    ) -> None:
        self._folder, self._beat = folder, beat
        stepper = stepper_of(recipe, state is None)
        self._use(recipe, AcceptedSteps(stepper, recipe.gathers))
        self._keys = Keys()
        self._seq = stepper.counters.global_timestep  # above 0 for a run that is imported
        self._number = 0
        self._saved = 0
        """Number of the last record in the newest checkpoint."""
        self._saved_seq = 0
        self._saved_at = time.monotonic()
        self._learns = True
        self._damage: DamagedJournalError | None = None
        """Place in the journal from which on records cannot be applied."""
        self.unsynced = False
        """Whether anything accepted may not be on the disk yet."""
        if state is None:
            folder.describe(recipe, stepper)
            self.save()
        else:
            self._restore(state)
            with contextlib.suppress(CheckpointError):  # a kill came between a checkpoint and its description
                folder.describe(recipe, stepper)
            if self.epoch and self.failure is None:  # from here on, other processes' records are void
                folder.journal.begin(self._number + 1)

    def _use(self, recipe: Recipe, learning: AcceptedSteps) -> None:
        self.recipe, self.learning = recipe, learning
        self._stepper = learning.stepper
        self._specs = transition_specs_of(self._stepper)
        self._codec = Codec(self._specs, self._stepper.behaviour.recorded)
        self._folder.use(self._stepper)

    # -- beginning ----------------------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls: type[_Agent],
        path: Path,
        stepper_of: StepperOf,
        recipe: Recipe | None = None,
        epoch: int = 0,
        beat: Callable[[], None] = lambda: None,
    ) -> _Agent:
        """Open the agent of a folder: its newest checkpoint, and the journal from there on, which :meth:`work` applies.

        Args:
            path: the folder; locked until :meth:`close`.
            stepper_of: makes the stepper of a recipe; its second argument: whether initial weights must be the seed's.
            recipe: recipe of a new agent; None for an existing one.
            epoch: number of times that it was taken over.
            beat: called repeatedly while this takes long.

        Raises:
            RefusedError: ``unavailable``: another process has the folder.
            CheckpointError: all its checkpoints are damaged.
            ProgramMissingError: its program must be built first.
        """
        folder = Folder(path, epoch)
        try:
            folder.lock()
            state = folder.open()
            if state is not None:
                recipe = Recipe.from_json(service_part(state)["recipe"])
            elif recipe is None:
                raise CheckpointError(f"{path} holds no agent")
            return cls(recipe, stepper_of, folder, state, beat)
        except BaseException:
            folder.close()
            raise

    def _restore(self, state: State) -> None:
        """Restore a checkpoint, and accept the journal from there on."""
        part = service_part(state)
        bring_back(state, self.learning)
        self._number = self._saved = int(part["number"])
        self._seq = self._saved_seq = self.learning.streams.steps = int(part["seq"])
        self._learns = bool(part["learns"])
        self._keys.load_state_dict(part["accepted"])
        try:
            for record in self._folder.journal.read(self._number + 1, self._codec.decode):
                self._accept(record)
                self._beat()
        except DamagedJournalError as error:
            self._damage = error.with_traceback(None)

    def _recover(self) -> int:
        """Continue from intact state: before a damaged record, or from the checkpoint before updates failed."""
        if self._damage is not None:
            lost, self._damage = self._damage.lost, None
            self.save()
            self._set_rest_aside()
            return lost
        lost = self._folder.journal.set_aside(self._saved + 1)
        self.learning.reset()
        self._keys = Keys()
        state = self._folder.open()
        if state is not None:
            self._restore(state)
        return lost

    def _set_rest_aside(self) -> None:
        """Set aside the journal after the newest checkpoint: damage, or records after a failure.

        Before that checkpoint, a full disk or a kill would leave an agent that lacks records, and does not say so.
        """
        self._folder.journal.set_aside(self._number + 1)

    # -- accepted records --------------------------------------------------------------------------------------------

    @property
    def failure(self) -> str | None:
        """Why it refuses steps; None if it takes them."""
        return self.learning.failure if self._damage is None else str(self._damage)

    def work(self) -> None:
        """Apply a piece; also in another thread, while nothing else uses the agent."""
        self.learning.work()
        if self.learning.failure is not None:
            self._act_as_saved()

    def finish(self) -> None:
        """Apply all accepted records."""
        while self.learning.has_work:
            self.work()
            self._beat()

    def _act_as_saved(self) -> None:
        """Act with the weights of the newest checkpoint, which are finite, after failed updates."""
        state = None
        with contextlib.suppress(CheckpointError):  # then keep the current ones, if they are finite
            state = self._folder.open()
        if state is not None:
            self._stepper.set_weights(state["weights"])

    def _append(self, record: Record) -> None:
        content = self._codec.encode(record)
        if len(content) > LARGEST:  # it could not be read back
            what = f"the steps take {len(content):,} bytes in the journal, above a request's limit of {LARGEST:,}"
            raise RefusedError("body_too_large", f"{what}: send fewer at once")
        try:
            self._folder.journal.append(record.number, content)
        except OSError as error:
            code = "storage_full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "unavailable"
            raise RefusedError(code, f"the step cannot be stored: {error.strerror}", retry_after=1) from error
        self.unsynced = True

    def _accept(self, record: Record) -> None:
        self._number = record.number
        self._seq += len(record.steps)
        if record.key != NO_KEY:
            self._keys.add(record.key, Accepted(record.body, len(record.steps), self._seq))
        self.learning.accept(record)

    # -- persistence -------------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """Number of takeovers, this process's included; 0 if no other process can take over."""
        return self._folder.fence.epoch

    def sync(self) -> None:
        """Force to the disk everything accepted before this call, and check that nobody has taken over the agent.

        It may run in a separate thread while the agent acts, accepts and applies, but is neither saved nor closed.

        Raises:
            OSError: the state on the disk is unknown, and the agent must be reopened.
            OutdatedError: another process has taken over, and accepted records must not be acknowledged.
        """
        self.unsynced = False  # before: later appends set it again
        try:
            self._folder.journal.sync()
            if self.epoch:
                self._folder.fence.check()
        except BaseException:
            self.unsynced = True
            raise

    def due_for_saving(self, steps: int, seconds: float) -> bool:
        """Whether ``steps`` were accepted since the newest checkpoint, or any step over ``seconds`` ago."""
        if self._number == self._saved or self.failure is not None:
            return False
        return self._seq - self._saved_seq >= steps or time.monotonic() - self._saved_at >= seconds

    def save(self) -> None:
        """Write a checkpoint; nothing, if the agent has failed.

        Raises:
            CheckpointError: it cannot be written; nothing is lost.
            OutdatedError: another process has taken over.
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
            self._folder.save(self.learning, self._number, extra, self.learning.progress(self._seq))
        except NonFiniteError as error:
            self.learning.failure = str(error)
            self._act_as_saved()
            return
        self._saved, self._saved_seq, self._saved_at = self._number, self._seq, time.monotonic()
        self.unsynced = False

    def close(self) -> None:
        """Save changes, and release the folder."""
        try:
            if self._number != self._saved:
                self.save()
        except (CheckpointError, OutdatedError):
            pass  # the journal has everything; or another process has the agent
        finally:
            self._folder.close()

    def abandon(self, *, drop_unsynced: bool = False) -> None:
        """Release the folder without saving, as the state on the disk is unknown.

        Args:
            drop_unsynced: remove records appended since the last successful :meth:`sync`; none was acknowledged.
        """
        if drop_unsynced:
            self._folder.journal.drop_unsynced()
        self._folder.close()
