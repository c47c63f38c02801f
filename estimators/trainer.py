"""The trainer: builds the parts of a training, and opens sessions."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import registry
from ..core.errors import ArgumentError, CheckpointError
from ..core.protocols import Array, ArraySpec, Memory, SpecTree, State
from ..environments.description import arguments_of
from ..environments.spaces import action_spec
from ..environments.statistics import names_of, statistics_of, taken_over
from ..hooks.defaults import with_defaults
from ..hooks.hook import Hooks
from ..memories.description import arguments_of as memory_arguments
from ..memories.description import like
from ..memories.resharding import timesteps_in
from ..policies.executors import Executor, check_weights
from ..policies.reasons import Choice
from ..run_dir import record
from ..run_dir.arrays import split_state
from ..run_dir.generators import generators
from ..run_dir.initial_values import digests
from ..run_dir.snapshot import Counters
from ..run_dir.sources import recorded
from ..run_dir.starts import began_in, ensure_start
from .batch_layout import check_td_error, introduce, shapes_of
from .episodes import Episodes
from .evaluator import Evaluator
from .experience_sources import Lanes, lanes_of, offline_lanes
from .failures import refuse_non_finite
from .limits import UpdateSchedule
from .live_evaluation import LiveEvaluations
from .model import Model
from .offline import refuse_emptied, store
from .run import Run
from .session import MonitoredSession
from .state import TrainingState
from .stepper import Stepper, no_limits
from .update_schedule import chosen, why_few_updates
from .warm_start import Taken, WarmStart, refuse_other, take

if TYPE_CHECKING:
    from .eval_mode import EvalMode

logger = logging.getLogger("axonrl")


@dataclasses.dataclass(frozen=True)
class _Built:
    """Parts made once, when the first session is opened."""

    state: TrainingState
    choice: Choice
    hooks: tuple[Any, ...]
    """Hooks of the TRAIN spec."""
    inexact_ops: tuple[str, ...]
    taken: Taken | None
    """Weights taken by a warm start; None for a resumed run, or one with its own initial weights."""
    transition: Mapping[str, SpecTree]
    """Specs of one lane's transition."""
    initial: Mapping[str, Any]
    """Digests of the program's initial values."""


class Trainer:
    """Trains the model of a run.

    Args:
        run: the run.
        model: the model to train.
        evaluator: evaluates the policy in training.
        memory: the memory of transitions; None without training.
        warm_start: source of a new run's initial weights.

    Raises:
        ArgumentError: the run was started from another source.
    """

    def __init__(
        self,
        run: Run,
        model: Model,
        evaluator: Evaluator,
        memory: Memory | None,
        warm_start: WarmStart | None = None,
    ) -> None:
        self.memory = memory
        self.warm_start = evaluator.warm_start = warm_start
        if run.record is not None:
            refuse_other(run.record.warm_start, warm_start, run.model_dir)
        self.session: MonitoredSession | None = None
        """The open session."""
        self.source: Any = None
        """Its environment as the user passed it, if any."""
        self._run = run
        self._model = model
        self._evaluator = evaluator
        self._built: _Built | None = None
        self._is_fresh = True
        """Do the program's variables have their initial values?"""
        self._doubt: str | None = None
        """Schedule warnings already logged."""
        self._alone = threading.Lock()
        self._thread = ""
        """Name of the thread with the session."""

    @property
    def counters(self) -> Counters:
        """Progress of the run: in training, or of its newest checkpoint."""
        if self._built is not None and self._run.store.newest() == self._run.current:
            return self._built.state.counters
        newest = self._run.newest_policy()
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
            schedule: checked against the memory; None to do that later.
            endless: no limit is known, so nothing may depend on the run's progress.
        """
        self._refuse_early()
        with contextlib.ExitStack() as closing:
            lanes = lanes_of(self._run, env, closing)
            session = closing.enter_context(self.over(lanes, hooks, schedule, endless=endless))
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
            lanes = offline_lanes(self._run, data, env, closing)
            yield closing.enter_context(self.over(lanes, hooks, None, endless=endless))

    @contextlib.contextmanager
    def over(
        self, lanes: Lanes, hooks: Hooks, schedule: UpdateSchedule | None, *, endless: bool
    ) -> Iterator[MonitoredSession]:
        """Open a session for these lanes, in the state of the newest checkpoint."""
        self._refuse_early()
        if not self._alone.acquire(blocking=False):
            raise self._session_error()
        self._thread = threading.current_thread().name
        with contextlib.ExitStack() as closing:
            closing.callback(self._alone.release)
            try:
                closing.enter_context(self._run.store.lock())
                built = self._prepare(lanes, schedule)
                state = built.state
                if endless and state.stepper.needs_limits:
                    raise no_limits()
                watching = with_defaults(self._run.config, hooks, built.hooks)
                watching.load_state_dict(state.hooks)
                split_state({"hooks": watching.state_dict()})  # fails now rather than when saving
                self._evaluator.training_environment = None if lanes.offline else lanes.source
                live = LiveEvaluations(self._evaluator, state, lanes.source, lambda: self._eval_mode, closing)
                self.session = MonitoredSession(self._run, state, lanes.env, watching, live, offline=lanes.offline)
                for prepare in watching.prepare:
                    prepare(self.session)
                if self._run.current is None:
                    self._start(built, lanes, None if schedule is None else state.stepper.schedule)
                if not lanes.offline:
                    used = lanes.env or lanes.like
                    code = recorded(self._run.model_fn, None if used is None else used.env)
                    self._run.take_environment(arguments_of(lanes.source), code)
                ensure_start(self._run.model_dir, self._run.seed)
                self._bring_back(state, lanes)
                yield self.session
            except BaseException:
                self._run.current = None  # memory may be torn: the next session starts from disk
                raise
            finally:
                self.session = self.source = self._evaluator.training_environment = None
                if self._built is not None:
                    self._built.state.env = None

    @contextlib.contextmanager
    def using(self, memory: Memory) -> Iterator[None]:
        """Train with this memory within the context; everything is rebuilt from the checkpoint before and after."""
        self._rebuild()
        before, self.memory = self.memory, memory
        try:
            yield
        finally:
            self.memory, self._built, self._run.current = before, None, None

    def _rebuild(self) -> None:
        """Rebuild everything from the checkpoint for the next session, with a new memory."""
        if self._built is not None:
            self.memory = like(self.needed_memory())
        self._built = self._run.current = None

    def use_schedule(self, asked: UpdateSchedule) -> None:
        """Set the update schedule; values not given come from the run's record, or wait for a batch.

        Raises:
            ValueError: a given first update comes before the memory can fill a batch.
        """
        run, memory, stepper = self._run, self.needed_memory(), self.state().stepper
        recorded = {} if run.record is None else run.record.schedule or {}
        stepper.schedule = chosen(asked, recorded, memory, str(run.model_dir))
        if memory.is_rollout:
            return
        if run.model_fn is not None and run.model_name is not None and run.model_name in registry.BUILT_IN["model_fn"]:
            from ..models.blocks.params import params_of

            doubt = why_few_updates(stepper.schedule, params_of(run.model_name), stepper.lanes)
            if doubt is not None and doubt != self._doubt:
                logger.warning(doubt)
            self._doubt = doubt
        run.record_schedule(stepper.schedule.as_dict())

    def mark_not_exact(self, why: str) -> None:
        """Mark the run of the open session as not exact from now on."""
        self._run.mark_not_exact(why)

    def transition(self) -> Mapping[str, SpecTree]:
        """Specs of one lane's transition in the open session."""
        if self._built is None:
            raise ValueError("no session is open")
        return self._built.transition

    def state(self) -> TrainingState:
        """The training state of the open session."""
        if self._built is None:
            raise ValueError("no session is open")
        return self._built.state

    def _refuse_early(self) -> None:
        """Raise what can be raised before anything is opened or written."""
        self.needed_memory()
        if self._alone.locked():
            raise self._session_error()

    def _session_error(self) -> ValueError:
        where = f" in thread {self._thread!r}" if self._thread != threading.current_thread().name else ""
        return ValueError(f"this Agent has a session open already{where}: train it in one thread at a time")

    def _prepare(self, lanes: Lanes, schedule: UpdateSchedule | None) -> _Built:
        """Build the parts, and load the newest checkpoint, if there is one."""
        run = self._run
        self._refuse_others(lanes)
        if self._built is not None and self._built.state.stepper.lanes != lanes.number:
            self._rebuild()
        memory = self.needed_memory()
        if lanes.masks is not None and hasattr(memory, "drop_surplus"):
            memory.drop_surplus()
        newest = run.store.newest()
        if self._built is None:
            self._built = self._build(lanes, memory, schedule if newest is None else None)
            run.current = None
            self._evaluator.live = self._built.state.snapshot
        else:
            introduce(memory, *lanes.seen(), began_in(run.model_dir))
        state = self._built.state
        if newest is None:
            if state.counters != Counters():
                raise CheckpointError(
                    f"the checkpoints in {run.model_dir} were deleted while in use: restore them, or create a new"
                    " Agent to start over"
                )
            run.current = None
            if state.stored:  # by a session that could not begin
                memory.clear()
                state.stored.clear()
            state.statistics = _first_statistics(lanes, self._built.taken)
        else:
            self._load(newest, state)
            run.compare_provenance()
        if schedule is not None:
            self.use_schedule(schedule)
        if lanes.offline:
            store(lanes, state, self._built.transition)
        return self._built

    def _refuse_others(self, lanes: Lanes) -> None:
        """Raise for lanes that cannot continue the run."""
        run = self._run
        run.adopt(record.read(run.model_dir))  # again: another Agent may have continued the run
        try:
            run.take_spaces(lanes.observation_space, lanes.action_space)
        except ValueError:
            if (policy := run.newest_policy()) is not None:
                lanes.refuse_others(policy.statistics)  # a missing wrapper is more informative than other spaces
            raise
        if lanes.like is None:
            run.refuse_other_count(lanes.number)
        if run.record is not None:
            refuse_other(run.record.warm_start, self.warm_start, run.model_dir)

    def _build(self, lanes: Lanes, memory: Memory, schedule: UpdateSchedule | None) -> _Built:
        run, program = self._run, self._model.program
        predict = program.predict
        spaces = lanes.observation_space, lanes.action_space
        introduce(memory, *lanes.seen(), began_in(run.model_dir))
        shapes = shapes_of(predict, *spaces, memory, lanes.number, schedule, lanes.masks)
        train, executor, choice = self._model.prepare_training(shapes.batch)
        check_td_error(train, memory)
        initial = digests(executor.get_weights()) if self._is_fresh else {}
        self._is_fresh = False
        if run.store.newest() is not None:
            run.compare_initial(initial)
        taken = self._taken(executor)
        rngs = generators(run.seed)
        if hasattr(memory, "place_in"):
            memory.place_in(run.model_dir)
        memory.build(shapes.transition, lanes.number, rngs["memory"])  # last, so that a failed attempt can be repeated
        if hasattr(memory, "trust_identity"):  # arrays passed to it do not change during an episode
            memory.trust_identity()
        stepper = Stepper(predict, train, executor, memory, lanes.number, rngs, UpdateSchedule(), lock=self._model.lock)
        episodes = Episodes(lanes.number, action_spec(lanes.action_space), run.seed)
        inexact_ops = tuple(sorted({*predict.not_exact, *train.not_exact}))
        state = TrainingState(stepper, episodes)
        return _Built(state, choice, train.training_hooks, inexact_ops, taken, shapes.transition, initial)

    def _taken(self, executor: Executor) -> Taken | None:
        """Set the initial weights of a new run to those of the warm start, where it has them."""
        if self.warm_start is None or self._run.store.newest() is not None:
            return None
        program = self._model.program
        taken = take(self.warm_start, program.variables(), program.predict_variables())
        executor.set_weights({**executor.get_weights(), **taken.weights})
        return taken

    def _load(self, newest: int, state: TrainingState) -> None:
        """Restore the newest checkpoint, unless the state equals or continues it."""
        run = self._run
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

    def _start(self, built: _Built, lanes: Lanes, schedule: UpdateSchedule | None) -> None:
        """Start the run: write its record and its first checkpoint."""
        start, taken = self.warm_start, built.taken
        self._run.start(
            lanes.number,
            built.choice,
            environment=arguments_of(lanes.source),
            memory=memory_arguments(self.memory),
            schedule=None if schedule is None else schedule.as_dict(),
            initial=built.initial,
            warm_start=None if start is None or taken is None else {**start.as_record(), "new": list(taken.new)},
        )
        if built.inexact_ops:
            ops = ", ".join(built.inexact_ops)
            self._run.mark_not_exact(
                f"model_fn uses TensorFlow's stateful random ops ({ops}); axonrl.noise would be exact"
            )
        self._run.save(built.state.content())
        self._run.programs.keep()

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Replace the run's weights, PREDICT's or all, in training and in a new checkpoint."""
        run, arrays = self._run, {name: np.asarray(value) for name, value in weights.items()}
        refuse_non_finite(arrays, "in the given weights")
        if self.session is not None:
            self.state().stepper.set_weights(arrays)
            return
        with run.store.lock():
            run.refresh()
            newest = run.store.newest()
            if newest is None or (loaded := run.load()) is None:
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
        why = state.bring_back(lanes.env)
        if why is not None:
            self._run.mark_not_exact(f"{lanes.env.name}: {why}")

    @functools.cached_property
    def _eval_mode(self) -> EvalMode:
        return self._model.eval_mode()


def _first_statistics(lanes: Lanes, taken: Taken | None) -> State:
    """Initial statistics of a new run's wrappers: those of a warm start, if there are any."""
    like = lanes.env or lanes.like
    if like is None:
        return {}
    own = statistics_of(like.env)
    if taken is not None and taken.statistics is not None:
        if (found := taken_over(like.env, taken.statistics)) is not None:
            return found
        logger.warning(
            "warm start: statistics of normalising wrappers are not taken: this environment has other wrappers"
        )
    elif taken is not None and own:
        logger.warning("warm start: the source has no statistics; those of %s start over", " and ".join(names_of(own)))
    return own
