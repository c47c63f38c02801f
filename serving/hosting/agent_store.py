"""The folder of a hosted agent: an ordinary run folder, with a journal beside its checkpoints."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import itertools
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ...core.checks import refuse_non_finite
from ...core.errors import CheckpointError
from ...core.protocols import SpecTree, State
from ...environments import spaces
from ...estimators.batch_layout import recorded_specs, transition_specs
from ...estimators.episodes import Episodes
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
from ..refusals import RefusedError
from . import programs
from .accepted_steps import AcceptedSteps
from .fencing import Fence, lock_name
from .journal import Journal
from .streams import Streams

JOURNAL: Final = "journal"
CHECKPOINTS: Final = "checkpoints"
SERVICE: Final = "service"
"""Key of the service's part of a checkpoint."""
_BEFORE: Final = f".{history.EPISODES}.before-"
"""Name of the episodes of a history that ends with the next checkpoint, followed by the index of the newest one."""
_KEPT: Final = 2
"""Number of checkpoints kept."""


class Folder:
    """The folder of one agent, while this process is its only writer.

    Args:
        path: path of the folder.
        epoch: see :class:`~axonrl.serving.hosting.journal.Journal`.
    """

    def __init__(self, path: Path, epoch: int = 0) -> None:
        self.path = path
        self.journal = Journal(path / JOURNAL, epoch)
        self.fence = Fence(path, epoch)
        self._store = CheckpointStore(path, _KEPT, lock_name(epoch))
        self._lock = contextlib.ExitStack()

    def lock(self) -> None:
        """Become the only writer.

        Raises:
            RefusedError: ``unavailable``: another process still is; its gateway has ended, and it will end, too.
            OutdatedError: a later epoch has the folder.
        """
        make_folders(self.path)
        self.fence.put()
        try:
            self._lock.enter_context(self._store.lock())
        except CheckpointError as error:
            raise RefusedError("unavailable", str(error), retry_after=1) from error
        self._settle_history()

    def close(self) -> None:
        """Release the folder."""
        self.journal.close()
        self._lock.close()

    def describe(self, recipe: Recipe, stepper: Stepper) -> None:
        """Write ``run.json``, so that this is an ordinary run folder, unless it is of this recipe already."""
        with contextlib.suppress(CheckpointError):
            found, own = record.read(self.path), (recipe.seed, recipe.params, recipe.memory)
            if found is not None and (found.seed, found.params, found.memory) == own:
                return
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

    def use(self, stepper: Stepper) -> None:
        """Record the compiled program that the agent uses."""
        programs.use(_program(stepper).directory, self.path)

    def save(self, learning: AcceptedSteps, number: int, extra: State, about: Mapping[str, Any]) -> None:
        """Write a checkpoint of everything up to the record of this number, and trim the journal.

        Args:
            learning: the agent's learning, with nothing left to do.
            number: number of the last record.
            extra: further state.
            about: facts to be known while the agent is not in memory: see :mod:`.agent_files`.

        Raises:
            NonFiniteError: a weight is NaN or infinite; nothing is written.
            CheckpointError: it cannot be written; the earlier ones and the journal stay.
            OutdatedError: another process has taken over the agent.
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
        with contextlib.suppress(CheckpointError):  # the older one is damaged: the journal stays as it is
            self._trim()

    def _write_episodes(self, streams: Streams) -> None:
        """Add missing episodes to ``episodes.csv``, before the checkpoint that counts them.

        So a replay may produce rows twice. Rows of a history that the agent has left, as after damage, are removed.
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

    @contextlib.contextmanager
    def another_history(self) -> Iterator[None]:
        """Context in which the agent becomes another one, whose history begins; if that fails, the old one stays."""
        path = self.path / history.EPISODES
        with contextlib.suppress(FileNotFoundError):
            path.replace(path.with_name(f"{_BEFORE}{self._store.newest()}"))
        try:
            yield
        finally:
            self._settle_history()

    def _settle_history(self) -> None:
        """Bring back the episodes before a change of history that was not saved, or that a kill has interrupted."""
        for before in self.path.glob(f"{_BEFORE}*"):
            if before.name == f"{_BEFORE}{self._store.newest()}":
                before.replace(self.path / history.EPISODES)
            else:
                before.unlink()

    def _trim(self) -> None:
        """Remove journal files that neither checkpoint needs; the older one counts, whichever process wrote it."""
        numbers = [self._store.about(index)[0].get("number", 0) for index in self._store.indices()]
        if len(numbers) == _KEPT:
            self.journal.trim(min(numbers) + 1)

    def open(self) -> State | None:
        """The newest intact checkpoint; None if there are no checkpoints.

        Raises:
            CheckpointError: all of them are damaged.
        """
        found = self._store.open()
        if found is None:
            return None
        older = [index for index in reversed(self._store.indices()) if index < found[0]]
        for state in itertools.chain([found[1]], map(self._store.read, older)):
            if not is_void(self.journal, service_part(state)):
                return state
        raise CheckpointError(f"{self.path} has only checkpoints saved after the agent was lost to another process")

    def nbytes(self) -> int:
        """Bytes of all its files."""
        return nbytes_of(self.path, self._store)


def remove_agent(path: Path) -> None:
    """Remove an agent's folder, renamed first, so that it is complete or gone; a missing one is no error."""
    gone = path.with_name(f".removed-{path.name}")
    with contextlib.suppress(FileNotFoundError):
        path.rename(gone)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(gone)


def nbytes_of(path: Path, store: CheckpointStore) -> int:
    """Bytes of an agent's files; checkpoints' from their manifests, 0 for a damaged one."""
    total, indices = 0, list[int]()
    with contextlib.suppress(CheckpointError):
        indices = store.indices()
    for index in indices:
        with contextlib.suppress(CheckpointError, OSError):
            total += store.about(index)[1]
    for file in [path / record.FILE, path / history.EPISODES, *(path / JOURNAL).glob("*")]:
        with contextlib.suppress(OSError):
            total += file.stat().st_size
    return total


def is_void(journal: Journal, part: Mapping[str, Any]) -> bool:
    """Whether a checkpoint was saved after another process took over the agent, with records that only it has."""
    epoch = part.get("epoch", 0)
    taken = journal.taken_over_at(epoch) if epoch else None
    return taken is not None and part["number"] >= taken


def service_part(state: State) -> dict[str, Any]:
    """The service's part of a checkpoint: ``number`` of its last record, and ``extra``; CheckpointError without one."""
    if SERVICE not in state:
        raise CheckpointError("it was not saved by a service: use axonrl service import-run to host a run")
    part: dict[str, Any] = state[SERVICE]
    return part


def bring_back(state: State, learning: AcceptedSteps) -> None:
    """Restore a checkpoint's state into learning with a stepper of its recipe."""
    _training_state(learning.stepper).load_state_dict(state)
    learning.load_state_dict(service_part(state))


def transition_specs_of(stepper: Stepper) -> Mapping[str, SpecTree]:
    """Specs of a hosted agent's transitions."""
    program = _program(stepper)
    observation, action = map(spaces.from_json, program.spaces)
    predict = program.predict
    recorded = recorded_specs(predict.record, predict.outputs, stepper.exploration, stepper.lanes)
    return transition_specs(observation, action, predict.state, recorded)


def of_storage(error: CheckpointError | OSError) -> RefusedError:
    """The refusal for files of an agent that cannot be written or read."""
    cause = error if isinstance(error, OSError) else error.__cause__
    if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
        return RefusedError("storage_full", "there is no space left to save the agent", retry_after=1)
    if isinstance(cause, OSError):
        return RefusedError("unavailable", str(error), retry_after=1)
    return RefusedError("agent_failed", f"the agent cannot be opened: {error}")


def _program(stepper: Stepper) -> CompiledProgram:
    executor = stepper.executor
    if not isinstance(executor, Learner):
        raise TypeError(f"a hosted agent runs a compiled program, got {type(executor).__name__}")
    return executor.program


def _training_state(stepper: Stepper) -> TrainingState:
    """The stepper's state for a checkpoint, without running episodes, which the service stores itself."""
    action = spaces.action_spec(spaces.from_json(_program(stepper).spaces[1]))
    return TrainingState(stepper, Episodes(stepper.lanes, action, 0))
