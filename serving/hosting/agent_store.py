"""The folder of a hosted agent: an ordinary run folder, and the journal beside its checkpoints."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ...core.errors import CheckpointError
from ...core.protocols import SpecTree, State
from ...environments import spaces
from ...estimators.batch_layout import recorded_specs, transition_specs
from ...estimators.episodes import Episodes
from ...estimators.failures import refuse_non_finite
from ...estimators.state import TrainingState
from ...estimators.stepper import Stepper
from ...policies.compiled import CompiledProgram
from ...policies.learner import Learner
from ...policies.reasons import LITERT
from ...run_dir import history, record
from ...run_dir.checkpoints import CheckpointStore
from ...run_dir.files import make_folders
from ...run_dir.provenance import provenance
from ..catalogue.recipes import Recipe
from . import programs
from .accepted_steps import AcceptedSteps
from .failures import RefusedError
from .fencing import Fence, lock_name
from .journal import Journal
from .streams import Streams

JOURNAL: Final = "journal"
CHECKPOINTS: Final = "checkpoints"
SERVICE: Final = "service"
"""The key of a checkpoint under which is what a service adds to it."""
_KEPT: Final = 2
"""Checkpoints."""


class Folder:
    """The folder of one agent, while this process is its only writer.

    Args:
        path: of the folder.
        epoch: see :class:`~axonrl.serving.hosting.journal.Journal`.
    """

    def __init__(self, path: Path, epoch: int = 0) -> None:
        self.path = path
        self.journal = Journal(path / JOURNAL, epoch)
        self.fence = Fence(path, epoch)
        self._store = CheckpointStore(path, _KEPT, lock_name(epoch))
        self._lock = contextlib.ExitStack()
        self._resting = 0
        """Bytes of the files that are not written to just now: all but the journal's newest one."""

    def lock(self) -> None:
        """Be the only writer; ``unavailable`` if another process is: one whose gateway has ended, and that ends too.

        Raises:
            RefusedError: that.
            OutdatedError: a later epoch has the folder.
        """
        make_folders(self.path)
        self.fence.put()
        try:
            self._lock.enter_context(self._store.lock())
        except CheckpointError as error:
            raise RefusedError("unavailable", str(error), retry_after=1) from error

    def close(self) -> None:
        """Leave it to others."""
        self.journal.close()
        self._lock.close()

    def describe(self, recipe: Recipe, stepper: Stepper) -> None:
        """Write ``run.json``, so that this is an ordinary run folder."""
        program = _program(stepper)
        record.RunRecord(
            seed=recipe.seed,
            model_fn=recipe.model_fn,
            params=recipe.params,
            unrecorded=(),
            observation_space=spaces.from_json(recipe.observation),
            action_space=spaces.from_json(recipe.action),
            num_envs=stepper.lanes,
            runtime=dict.fromkeys(program.why, LITERT),
            runtime_why={part: dataclasses.asdict(reason) for part, reason in program.why.items()},
            made_with={**provenance(), **{k: v for k, v in program.made_with.items() if k in ("tensorflow", "keras")}},
            memory=recipe.memory,
        ).write(self.path)
        self.weigh()

    def use(self, stepper: Stepper) -> None:
        """Note which compiled program the agent uses."""
        programs.use(_program(stepper).directory, self.path)

    def save(self, learning: AcceptedSteps, number: int, extra: State, about: Mapping[str, Any]) -> None:
        """Write a checkpoint of everything up to the record of this number, and trim the journal.

        Args:
            learning: to which nothing is left to do.
            number: of the last record.
            extra: what is saved beside.
            about: what is to be known of it while it is not in memory: see :mod:`.unloaded_agents`.

        Raises:
            NonFiniteError: a weight is NaN or infinite; nothing is written.
            CheckpointError: it cannot be written; the earlier ones and the journal stay.
            OutdatedError: another process has taken the agent over.
        """
        self.fence.check()
        stepper = learning.stepper
        state = dict(_training_state(stepper).content())
        state["counters"] = {**state["counters"], "global_episode": learning.streams.finished}
        refuse_non_finite(state["weights"], f"at global_step {stepper.counters.global_step}; no checkpoint is saved")
        self._write_episodes(learning.streams)
        state[SERVICE] = {"number": number, "epoch": self.fence.epoch, **learning.state_dict(), **extra}
        self._store.save(state, {"number": number, "epoch": self.fence.epoch, **about})
        self.fence.check()
        self.journal.start_segment()
        try:
            with contextlib.suppress(CheckpointError):  # the older one is damaged: the journal stays as it is
                self._trim()
        finally:
            self.weigh()

    def _write_episodes(self, streams: Streams) -> None:
        """Add to ``episodes.csv`` what it lacks, before the checkpoint that counts it.

        So a replay may bring rows once more. Those of a history that an agent has left, as after damage, go.
        """
        path, new = self.path / history.EPISODES, streams.unwritten
        try:
            last = history.last_episode(self.path)
            if last is None or last > streams.finished:
                before = streams.finished - len(new)
                kept = [row for row in history.read_episodes(self.path) if row.episode <= before]
                history.rewrite(path, history.Episode._fields, [*kept, *new])
            elif new:
                with path.open("a", encoding="utf-8", newline="\n") as file:
                    file.write("".join(history.line_of(row) for row in new if row.episode > last))
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path} cannot be written: {error}") from error
        new.clear()

    def forget_episodes(self) -> None:
        """The agent is another one from here on."""
        (self.path / history.EPISODES).unlink(missing_ok=True)

    def _trim(self) -> None:
        """Remove what neither checkpoint needs: the journal goes back to the older one, whichever process wrote it."""
        numbers = [self._store.about(index)[0].get("number", 0) for index in self._store.kept()]
        if len(numbers) == _KEPT:
            self.journal.trim(min(numbers) + 1)

    def open(self) -> State | None:
        """The newest checkpoint that is whole; None if there is none.

        Raises:
            CheckpointError: none of them is.
        """
        found = self._store.open()
        if found is None:
            return None
        older = [index for index in reversed(self._store.kept()) if index < found[0]]
        for state in itertools.chain([found[1]], map(self._store.read, older)):
            if SERVICE not in state:
                raise CheckpointError(f"{self.path} is a run that no service has saved: import it")
            if not is_void(self.journal, service_part(state)):
                return state
        raise CheckpointError(f"{self.path} has only checkpoints of a process that had lost it")

    def weigh(self) -> None:
        """Find out how many bytes there are, when the journal writes to no file."""
        self._resting = nbytes_of(self.path, self._store)

    @property
    def nbytes(self) -> int:
        """Of all its files, without looking at them."""
        return self._resting + self.journal.length


def nbytes_of(path: Path, store: CheckpointStore) -> int:
    """Bytes of an agent's files. Those of checkpoints are known from their manifests: 0 for one that is damaged."""
    total = 0
    for index in store.kept():
        with contextlib.suppress(CheckpointError, OSError):
            total += store.about(index)[1]
    for file in [path / record.FILE, path / history.EPISODES, *(path / JOURNAL).glob("*")]:
        with contextlib.suppress(OSError):
            total += file.stat().st_size
    return total


def is_void(journal: Journal, part: Mapping[str, Any]) -> bool:
    """Was a checkpoint saved by a process from which the agent had been taken, with records that nobody else has?"""
    epoch = part.get("epoch", 0)
    taken = journal.taken_over_at(epoch) if epoch else None
    return taken is not None and part["number"] >= taken


def service_part(state: State) -> dict[str, Any]:
    """What a checkpoint holds of the service: ``number`` of its last record, and what was saved as ``extra``."""
    part: dict[str, Any] = state[SERVICE]
    return part


def bring_back(state: State, learning: AcceptedSteps) -> None:
    """Give a checkpoint's state to a stepper of its recipe, and to what drives it."""
    _training_state(learning.stepper).load_state_dict(state)
    learning.load_state_dict(service_part(state))


def transition_specs_of(stepper: Stepper) -> Mapping[str, SpecTree]:
    """What a transition of a hosted agent consists of."""
    program = _program(stepper)
    observation, action = map(spaces.from_json, program.spaces)
    predict = program.predict
    recorded = recorded_specs(predict.record, predict.outputs, stepper.exploration, stepper.lanes)
    return transition_specs(observation, action, predict.state, recorded)


def _program(stepper: Stepper) -> CompiledProgram:
    executor = stepper.executor
    if not isinstance(executor, Learner):
        raise TypeError(f"a hosted agent runs a compiled program, got {type(executor).__name__}")
    return executor.program


def _training_state(stepper: Stepper) -> TrainingState:
    """The stepper as a checkpoint has it, without running episodes: the service has its own."""
    action = spaces.action_spec(spaces.from_json(_program(stepper).spaces[1]))
    return TrainingState(stepper, Episodes(stepper.lanes, action, 0))
