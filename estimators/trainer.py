"""The trainer: opens training sessions, starting from the newest checkpoint."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from ..core.checks import refuse_non_finite
from ..core.errors import ArgumentError, CheckpointError
from ..core.protocols import Array, ArraySpec, Memory
from ..environments.description import arguments_of
from ..hooks.defaults import with_defaults
from ..hooks.hook import Hooks
from ..memories.batch import BatchMemory
from ..memories.description import arguments_of as memory_arguments
from ..memories.description import like
from ..memories.resharding import timesteps_in
from ..policies.executors import arrays_of, check_weights
from ..run_dir import record
from ..run_dir.arrays import split_state
from ..run_dir.snapshot import Counters
from ..run_dir.sources import source_digests
from ..run_dir.starts import began_in, ensure_start
from .batch_layout import introduce
from .evaluator import Evaluator
from .experience_sources import Lanes, lanes_of, offline_lanes
from .limits import UpdateSchedule
from .live_evaluation import LiveEvaluations
from .model import Model
from .offline import refuse_emptied, store
from .run import Run
from .session import MonitoredSession
from .session_lock import SessionLock
from .state import TrainingState
from .stepper import no_limits
from .training_parts import TrainingParts, build_parts
from .update_schedule import choose_schedule, why_few_updates
from .warm_start import WarmStart, first_statistics, refuse_other

logger = logging.getLogger("axonrl")


class Trainer:
    """Trains the model of a run.

    Args:
        run: the run.
        model: the model to train.
        evaluator: evaluates the policy in training.
        memory: the memory of transitions; None if nothing is trained.
        warm_start: source of a new run's initial weights.

    Raises:
        ArgumentError: the run was started from another source.
    """

    def __init__(
        self, run: Run, model: Model, evaluator: Evaluator, memory: Memory | None, warm_start: WarmStart | None = None
    ) -> None:
        self.memory = memory
        self.warm_start = evaluator.warm_start = warm_start
        if run.record is not None:
            refuse_other(run.record.warm_start, warm_start, run.model_dir)
        self.session: MonitoredSession | None = None
        """The open session."""
        self.source: Any = None
        """Its environment as the user passed it, if any."""
        self.run = run
        self._model = model
        self._evaluator = evaluator
        self._parts: TrainingParts | None = None
        self._doubt: str | None = None
        """Schedule warnings already logged."""
        self._lock = SessionLock()

    @property
    def counters(self) -> Counters:
        """Progress of the run: in training, or of its newest checkpoint."""
        if self._parts is not None and self.run.store.newest() == self.run.current:
            return self._parts.state.counters
        newest = self.run.policies.newest()
        return Counters() if newest is None else newest.counters

    def needed_memory(self) -> Memory:
        """The memory; ``ValueError`` if there is none."""
        if self.memory is None:
            raise ArgumentError("training needs a memory: Agent(model_fn, memory=ReplayMemory(...))", "memory", None)
        return self.memory

    @contextlib.contextmanager
    def opened(
        self, env: Any, hooks: Hooks, schedule: UpdateSchedule | None = None, *, endless: bool = False
    ) -> Iterator[MonitoredSession]:
        """Open a session in an environment, in the state of the running episodes.

        Args:
            env: environment, vector environment or id.
            hooks: the user's hooks.
            schedule: checked against the memory; None to check one later.
            endless: no limit is known, so nothing may depend on the run's progress.
        """
        self._refuse_early()
        with contextlib.ExitStack() as closing:
            lanes = lanes_of(self.run, env, closing)
            session = closing.enter_context(self.open_session(lanes, hooks, schedule, endless=endless))
            self.source = env
            yield session

    @contextlib.contextmanager
    def offline(self, data: Any, env: Any, hooks: Hooks, *, endless: bool) -> Iterator[MonitoredSession]:
        """Open a session without timesteps, which learns from the contents of the memory.

        Args:
            data: stored first: a file or folder of episodes, or episodes; None for nothing.
            env: environment, vector environment, id or two spaces; None for the spaces of the run.
            hooks: the user's hooks.
            endless: as for :meth:`opened`.
        """
        self._refuse_early()
        refuse_emptied(self.needed_memory())
        with contextlib.ExitStack() as closing:
            lanes = offline_lanes(self.run, data, env, closing)
            yield closing.enter_context(self.open_session(lanes, hooks, None, endless=endless))

    @contextlib.contextmanager
    def open_session(
        self, lanes: Lanes, hooks: Hooks, schedule: UpdateSchedule | None, *, endless: bool
    ) -> Iterator[MonitoredSession]:
        """Open a session for these lanes, in the state of the newest checkpoint."""
        self._refuse_early()
        with contextlib.ExitStack() as closing:
            closing.enter_context(self._lock.held())
            try:
                closing.enter_context(self.run.store.lock())
                parts = self._prepare(lanes, schedule)
                state = parts.state
                if endless and state.stepper.needs_limits:
                    raise no_limits()
                watching = with_defaults(self.run.config, hooks, parts.hooks)
                watching.load_state_dict(state.hooks)
                split_state({"hooks": watching.state_dict()})  # fails now rather than when saving
                self._evaluator.training_environment = None if lanes.offline else lanes.source
                live = LiveEvaluations(self._evaluator, state, lanes.source, lambda: self._model.eval_mode, closing)
                described = None if lanes.offline else arguments_of(lanes.source)  # before hooks change it
                kind = {"offline": lanes.offline, "cuts": lanes.are_cut}
                self.session = MonitoredSession(self.run, state, lanes.env, watching, live, **kind)
                closing.callback(self.session.close)
                for prepare in watching.prepare:
                    prepare(self.session)
                if self.run.current is None:
                    self._start(parts, lanes, None if schedule is None else state.stepper.schedule)
                if not lanes.offline:
                    used = lanes.env or lanes.like
                    code = source_digests(self.run.model_fn, None if used is None else used.env)
                    self.run.take_environment(described, code)
                ensure_start(self.run.model_dir, self.run.seed)
                self._bring_back(state, lanes)
                yield self.session
            except BaseException:
                self.run.current = None  # the state in memory may be inconsistent: the next session starts from disk
                raise
            finally:
                self.session = self.source = self._evaluator.training_environment = None
                if self._parts is not None:
                    self._parts.state.env = None
        if not self.run.is_checked:
            self._model.keep()

    @contextlib.contextmanager
    def temporary_memory(self, memory: Memory) -> Iterator[None]:
        """Train with this memory within the context; everything is rebuilt from the checkpoint on entry and exit."""
        self._rebuild()
        before, self.memory = self.memory, memory
        try:
            yield
        finally:
            self.memory, self._parts, self.run.current = before, None, None

    def _rebuild(self) -> None:
        """Rebuild everything from the checkpoint for the next session, with a new memory."""
        if self._parts is not None:
            self.memory = like(self.needed_memory())
        self._parts = self.run.current = None

    def use_schedule(self, asked: UpdateSchedule) -> None:
        """Set the update schedule. Values not given are recorded ones, or the first update waits for a batch.

        Raises:
            ArgumentError: a given first update comes before the memory can fill a batch.
        """
        run, memory, stepper = self.run, self.needed_memory(), self.state().stepper
        recorded = {} if run.record is None else run.record.schedule or {}
        stepper.schedule = choose_schedule(asked, recorded, memory, str(run.model_dir))
        if memory.is_rollout:
            return
        doubt = None if run.model_fn is None else why_few_updates(stepper.schedule, run.model_name, stepper.lanes)
        if doubt is not None and doubt != self._doubt:
            logger.warning(doubt)
        self._doubt = doubt
        run.record_schedule(stepper.schedule.as_dict())

    def parts(self) -> TrainingParts:
        """The parts of the open session; ``ValueError`` if there is none."""
        if self._parts is None:
            raise ValueError("no session is open")
        return self._parts

    def state(self) -> TrainingState:
        """The training state of the open session."""
        return self.parts().state

    def _refuse_early(self) -> None:
        """Raise the errors that can be found before anything is opened or written."""
        self.needed_memory()
        self._lock.refuse_second()

    def _prepare(self, lanes: Lanes, schedule: UpdateSchedule | None) -> TrainingParts:
        """Build the parts, and load the newest checkpoint, if there is one."""
        run = self.run
        self._refuse_others(lanes)
        if self._parts is not None and self._parts.state.stepper.lanes != lanes.number:
            self._rebuild()
        memory = self.needed_memory()
        if lanes.masks is not None and isinstance(memory, BatchMemory):
            memory.pack() if lanes.env is not None and lanes.env.waits else memory.drop_surplus()
        newest = run.store.newest()
        if self._parts is None:
            asked = schedule if newest is None else None
            self._parts = build_parts(run, self._model, memory, lanes, asked, self.warm_start)
            run.current = None
            self._evaluator.live = self._parts.state.snapshot
        else:
            introduce(memory, *lanes.spaces_and_env(), began_in(run.model_dir))
        state = self._parts.state
        if newest is None:
            if state.counters != Counters():
                raise CheckpointError(
                    f"the checkpoints in {run.model_dir} were deleted while in use: restore them, or create a new"
                    " Agent to start over"
                )
            run.current = None
            if state.stored:  # stored by a session that failed to begin
                memory.clear()
                state.stored.clear()
            state.statistics = first_statistics(lanes.env or lanes.like, self._parts.taken)
        else:
            self._load(newest, state)
            run.compare_provenance()
        if schedule is not None:
            self.use_schedule(schedule)
        if lanes.offline:
            store(lanes, state, self._parts.transition)
        return self._parts

    def _refuse_others(self, lanes: Lanes) -> None:
        """Raise for lanes that cannot continue the run."""
        run = self.run
        run.adopt(record.read(run.model_dir))  # again: another Agent may have continued the run
        try:
            run.take_spaces(lanes.observation_space, lanes.action_space)
        except ValueError:
            if (policy := run.policies.newest()) is not None:
                # Naming a missing wrapper helps more than reporting other spaces.
                lanes.refuse_others(policy.statistics)
            raise
        if lanes.like is None:
            run.refuse_other_count(lanes.number)
        if run.record is not None:
            is_new = run.store.newest() is None
            refuse_other(run.record.warm_start, self.warm_start, run.model_dir, is_new=is_new)

    def _load(self, newest: int, state: TrainingState) -> None:
        """Restore the newest checkpoint, unless the state equals or continues it."""
        run = self.run
        if newest == run.current or (loaded := run.load()) is None:
            return
        index, content = loaded
        try:
            before, now = state.load_state_dict(content), state.stepper.lanes
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"checkpoint {index} of {run.model_dir} does not fit this Agent: {error}. Pass the model_fn, params"
                " and memory of its training, or another model_dir"
            ) from error
        run.current = newest
        if before != now:
            why = (
                f"it had {before} environments until timestep {state.counters.global_timestep}, and continues in {now}:"
                " all begin new episodes, explorations and recurrent states start over"
            )
            if self.needed_memory().is_rollout and (left := timesteps_in(content["memory"]["state"])):
                why += f"; {left} timesteps of a partial rollout are dropped"
            run.mark_not_exact(why)

    def _start(self, parts: TrainingParts, lanes: Lanes, schedule: UpdateSchedule | None) -> None:
        """Start the run: write its record and its first checkpoint."""
        start, taken = self.warm_start, parts.taken
        self.run.start(
            lanes.number,
            parts.choice,
            environment=arguments_of(lanes.source),
            memory=memory_arguments(self.memory),
            schedule=None if schedule is None else schedule.as_dict(),
            initial=parts.initial,
            warm_start=None if start is None or taken is None else {**start.as_record(), "new": list(taken.new)},
        )
        if parts.inexact_ops:
            ops = ", ".join(parts.inexact_ops)
            self.run.mark_not_exact(
                f"model_fn uses TensorFlow's stateful random ops ({ops}); axonrl.noise would be exact"
            )
        self.run.save(parts.state.content())

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Replace the run's weights, PREDICT's or all: in training, or in a new checkpoint."""
        run, arrays = self.run, arrays_of(weights)
        refuse_non_finite(arrays, "in the given weights")
        if self.session is not None:
            self.session.set_weights(arrays)
            return
        with run.store.lock():
            run.refresh()
            if (loaded := run.load()) is None:
                raise ValueError(
                    f"set_weights needs a run, but {run.model_dir} holds none; to start one from these weights, use"
                    " Agent(..., warm_start=weights)"
                )
            program, before = self._model.program, loaded[1]["weights"]
            every = {name: ArraySpec(array.shape, array.dtype) for name, array in before.items()}
            acting = program.predict_variables()
            if missing := [name for name in acting if name not in every]:
                raise ValueError(
                    f"the newest checkpoint of {run.model_dir} does not fit {program.name}: it lacks"
                    f" {', '.join(missing)}. Are model_fn and params those of the training?"
                )
            check_weights(program.name, arrays, {name: every[name] for name in acting}, every)
            run.save({**loaded[1], "weights": {**before, **arrays}})
            run.current = None  # the next session starts from disk

    def _bring_back(self, state: TrainingState, lanes: Lanes) -> None:
        if lanes.offline:
            return  # without acting, running episodes wait
        if lanes.env is None:
            lanes.refuse_others(state.statistics)
            state.cut()
            return
        if (why := state.bring_back(lanes.env)) is not None:
            self.run.mark_not_exact(f"{lanes.env.name}: {why}")
