"""Agent: an Estimator that learns by acting."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import gymnasium

from .. import registry
from ..checks import count
from ..contracts import Memory, ModelFn, RunConfig, State
from ..environments.batched import BatchedEnvironment
from ..environments.making import open_environment
from ..environments.recording import recorded
from ..environments.spaces import action_spec
from ..environments.statistics import as_in_training, statistics_of
from ..errors import CheckpointError
from ..explorations import Greedy
from ..facts import BeginFacts, EpisodeStats
from ..hooks import CheckpointHook, EvaluationHook, FinalValuesHook, LoggingHook, NaNGuard, SummaryHook, VideoHook
from ..hooks.hook import Hooks
from ..runs.arrays import split_state
from ..runs.provenance import differences, provenance
from ..runs.record import RunRecord, read, recordable
from ..runs.seeding import generators
from ..runtimes.reasons import from_record
from .episodes import Episodes
from .estimator import Estimator, as_hooks
from .eval_mode import EvalMode
from .evaluation import EvaluationEnvironments, Watchers, summarize
from .failures import refuse_non_finite
from .limits import Goal, Limits, Schedule
from .loop import Plan
from .run_summary import RunSummary, parts_of
from .session import MonitoredSession
from .state import Counters, TrainingState
from .training import batch_specs, recorded_specs, transition_specs, trial_of

if TYPE_CHECKING:
    from ..policies.executors import Executor
    from ..runtimes.choosing import Choice
    from ..runtimes.tracing.program import Program, Train

AnyEnv: TypeAlias = "gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | str"
logger = logging.getLogger("axonrl")
_REFUSING = (EvaluationHook, FinalValuesHook, VideoHook)
"""Hooks that refuse in ``begin`` what cannot work, and do little else there."""


class Agent(Estimator):
    """Trains a ``model_fn`` in an environment, through monitored episodes.

    Example::

        agent = Agent(dqn.model_fn, memory=ReplayMemory(50_000, batch_size=64), model_dir="runs/cartpole")
        agent.train("CartPole-v1", first_update=1_000, update_frequency=2, max_timesteps=50_000)
        agent.evaluate("CartPole-v1", episodes=100)

    Args:
        model_fn: ``model_fn(features, labels, mode[, params[, config[, model_dir]]])`` returning an EstimatorSpec;
            or its name; or None to take the one that ``model_dir`` recorded.
        memory: where transitions go; needed for ``train`` only. Every Agent needs one of its own.
        model_dir: the run's directory: an existing run is gone on with. None is a fresh temporary folder.
        config: how the run is run.
        params: hyperparameters for ``model_fn``.

    Raises:
        ValueError: an argument breaks the contract, or contradicts what ``model_dir`` recorded.
        CheckpointError: ``model_dir`` cannot be read.
    """

    def __init__(
        self,
        model_fn: ModelFn | str | None,
        memory: Memory | None = None,
        model_dir: str | Path | None = None,
        config: RunConfig | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        if memory is not None and not isinstance(memory, Memory):
            raise ValueError(f"memory must be an axonrl Memory (say axonrl.memories.ReplayMemory), got {memory!r}")
        super().__init__(model_fn, model_dir, config, params)
        self.memory = memory
        self._state: TrainingState | None = None
        self._plan: Plan | None = None
        self._choice: Choice | None = None
        self._spec_hooks: tuple[Any, ...] = ()
        self._inexact_ops: tuple[str, ...] = ()
        # While a session is open: it, its environment as it was passed in, and those that evaluate it.
        self._session: MonitoredSession | None = None
        self._evaluations: EvaluationEnvironments | None = None

    @property
    def global_step(self) -> int:
        """Updates run so far."""
        return self._counters().global_step

    @property
    def global_timestep(self) -> int:
        """Actions taken so far, one per environment per step."""
        return self._counters().global_timestep

    @property
    def global_episode(self) -> int:
        """Episodes finished so far."""
        return self._counters().global_episode

    def train(
        self,
        env: AnyEnv,
        first_update: int = 35,
        update_frequency: int = 10,
        episodes: int | None = None,
        steps: int | None = None,
        hooks: Sequence[Any] | None = None,
        max_steps: int | None = None,
        max_episodes: int | None = None,
        *,
        timesteps: int | None = None,
        max_timesteps: int | None = None,
    ) -> Agent:
        """Train until the first limit is reached; without any, until a hook asks to stop.

        Args:
            env: environment, vector environment (autoreset disabled, or it will not resume exactly) or id.
            first_update: ``global_timestep`` of the first update.
            update_frequency: timesteps between updates. Neither applies to a memory that fills and empties.
            episodes: finished episodes to add.
            steps: updates to add; met exactly.
            hooks: who watches, beside the default NaNGuard, LoggingHook, SummaryHook and CheckpointHook (a hook of
                the same class replaces the default one).
            max_steps: updates in all.
            max_episodes: finished episodes in all.
            timesteps: timesteps to add; met at the first (vector) step that reaches it.
            max_timesteps: timesteps in all.

        Returns:
            This Agent.

        Raises:
            ValueError: an argument is out of range or contradicts another; the model, the memory and the environment
                do not fit.
            BrokenEnvironmentError: the environment raised or returned what its spaces do not allow.
            NonFiniteError: a reward, an observation or a loss is NaN or infinite.
            CheckpointError: ``model_dir`` cannot be used.
        """
        schedule = Schedule(first_update, update_frequency)
        goal = Goal(steps, episodes, timesteps, max_steps, max_episodes, max_timesteps)
        with self._opened(env, hooks, schedule) as session:
            limits = goal.limits(session)
            reason = limits.reached(session)
            if reason is not None:
                logger.info("nothing to train: %s", reason)
                return self
            with session.monitored(limits):
                session.run(schedule)
        return self

    def check(
        self, env: AnyEnv, first_update: int = 35, update_frequency: int = 10, hooks: Sequence[Any] | None = None
    ) -> RunSummary:
        """Refuse now what ``train`` with the same arguments would refuse before its first timestep.

        The model is traced and the memory allocated; in a fresh ``model_dir`` the run begins, at timestep zero.

        Returns:
            What the run will be: spaces, sizes, and what runs actor and learner.

        Raises:
            ValueError, BrokenEnvironmentError, CheckpointError: as ``train``.
        """
        with self._opened(env, hooks, Schedule(first_update, update_frequency)) as session:
            for hook in (*as_hooks(hooks), *self._spec_hooks):
                if isinstance(hook, _REFUSING):
                    hook.begin(session, BeginFacts(session.env.num_envs, session.global_timestep > 0, {}))
            store, record = self._traced().store, self._record
            return RunSummary(
                observation_space=session.env.observation_space,
                action_space=session.env.action_space,
                num_envs=session.env.num_envs,
                parts=parts_of(store.variables(), store.predict_variables()),
                memory_bytes=getattr(self.memory, "nbytes", None),
                runtimes={} if record is None else record.runtime,
                why={} if record is None else {k: str(from_record(v)) for k, v in record.runtime_why.items()},
            )

    @contextlib.contextmanager
    def session(self, env: AnyEnv, hooks: Sequence[Any] | None = None) -> Iterator[MonitoredSession]:
        """The monitored session, for a loop of one's own around :meth:`run_episode`.

        Example::

            with agent.session(env) as session:
                while session.stop_reason is None and session.global_episode < 100:
                    stats = agent.run_episode(env, session, first_update=100, update_frequency=4)

        Args:
            env: as for ``train``.
            hooks: as for ``train``.
        """
        with self._opened(env, hooks) as session, session.monitored(Limits()):
            yield session

    def run_episode(
        self, env: AnyEnv, session: MonitoredSession, first_update: int = 35, update_frequency: int = 10
    ) -> EpisodeStats:
        """Run one episode of one environment to its end (the one in flight, after a resume).

        Args:
            env: the session's environment.
            session: from :meth:`session`.
            first_update: as for ``train``.
            update_frequency: as for ``train``.

        Raises:
            ValueError: the session is another environment's, has several environments, or was asked to stop before.
        """
        if session is not self._session or env is not self._source:
            raise ValueError("run_episode needs the session that agent.session(env) opened, and its environment")
        if session.env.num_envs != 1:
            raise ValueError(f"run_episode is for one environment; this session has {session.env.num_envs}")
        if session.stop_reason is not None:
            raise ValueError(f"this session was asked to stop ({session.stop_reason}): look at session.stop_reason")
        schedule = Schedule(first_update, update_frequency)
        _check_first_update(schedule, self._needed_memory())
        return session.run_episode(schedule)

    # -- opening a session --------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _opened(
        self, env: AnyEnv, hooks: Sequence[Any] | None, schedule: Schedule | None = None
    ) -> Iterator[MonitoredSession]:
        """The state is that of the newest checkpoint, the environment stands where the running episodes do."""
        memory, given = self._needed_memory(), as_hooks(hooks)
        if self._session is not None:
            raise ValueError("this Agent has a session open already")
        with contextlib.ExitStack() as closing:
            try:
                opened = open_environment(env)
                closing.callback(opened.close)
                closing.enter_context(self._store.lock())
                state, plan = self._prepare(opened, memory, schedule)
                watching = Hooks(_with_names_of_their_own(self._with_defaults(given)))
                watching.load_state_dict(state.hooks)
                split_state({"hooks": watching.state_dict()})  # refuses now what could not be saved later
                why = state.bring_back(opened)
                if why is not None:
                    self._mark_not_exact(f"{opened.name}: {why}")
                self._source, self._evaluations = env, EvaluationEnvironments(env, closing)
                self._session = MonitoredSession(self, state, opened, watching, plan)
                yield self._session
            except BaseException:
                self._loaded = None  # what is in memory may be torn: the next session begins from the disk
                raise
            finally:
                self._session = self._source = self._evaluations = None

    def _needed_memory(self) -> Memory:
        if self.memory is None:
            raise ValueError("training needs a memory: Agent(model_fn, memory=ReplayMemory(...))")
        return self.memory

    def _prepare(
        self, env: BatchedEnvironment, memory: Memory, schedule: Schedule | None
    ) -> tuple[TrainingState, Plan]:
        """The state and the plan of the run; what cannot be trained is refused before anything is written."""
        self._adopt(read(self.model_dir))  # anew: another Agent may have gone on with the run meanwhile
        self._take_spaces(env.observation_space, env.action_space)
        if self._record is not None and self._record.num_envs != env.num_envs:
            raise ValueError(
                f"{self.model_dir} was begun with {self._record.num_envs} environments, got {env.num_envs}:"
                " its memory and its running episodes are those of so many"
            )
        if self._state is None or self._plan is None or self._choice is None:
            self._state, self._plan, self._choice = self._build_training(env, memory, schedule)
            self._loaded = None  # evaluate and predict take only a part of a checkpoint
        elif schedule is not None:
            _check_first_update(schedule, memory)
        if self._store.newest() is None:
            if self._state.counters != Counters():
                raise CheckpointError(
                    f"the checkpoints of {self.model_dir} are gone, from which this Agent had gone on: put them back,"
                    " or make a new Agent, which begins at zero"
                )
            if self._record is not None:
                logger.warning("%s has a record of a run but no checkpoint: it begins at zero", self.model_dir)
            self._write_record(env, self._choice)
            self._state.statistics = statistics_of(env.env)
            self._save()
            self._programs.keep()
        else:
            self._load_newest()
            self._compare_provenance()
        return self._state, self._plan

    def _build_training(
        self, env: BatchedEnvironment, memory: Memory, schedule: Schedule | None
    ) -> tuple[TrainingState, Plan, Choice]:
        program = self._traced()
        predict = program.predict
        exploration = Greedy() if predict.exploration is None else predict.exploration
        recorded = recorded_specs(predict.record, predict.outputs, exploration, env.num_envs)
        specs = transition_specs(env, predict.state, recorded)
        trial = trial_of(memory, specs, env.num_envs)
        if schedule is not None:
            _check_first_update(schedule, trial)
        train = program.trace_train(batch_specs(trial, specs, env))
        self._executor, choice = self._choose_executor(program, train)
        rngs = generators(self._run_seed)
        memory.build(specs, env.num_envs, rngs["memory"])  # last: what is refused before can be put right and repeated
        if hasattr(memory, "trust_identity"):  # no environment's array changes while its episode runs
            memory.trust_identity()
        self._spec_hooks = train.training_hooks
        self._inexact_ops = tuple(sorted({*predict.not_exact, *train.not_exact}))
        state = TrainingState(
            counters=Counters(),
            executor=self._executor,
            memory=memory,
            exploration=exploration,
            episodes=Episodes(env.num_envs, action_spec(env.action_space), self._run_seed),
            generators=rngs,
            recurrent=self._fresh_state(env.num_envs),
        )
        return state, Plan(predict.record, train.metrics, train.noise, predict.noise), choice

    def _choose_executor(self, program: Program, train: Train) -> tuple[Executor, Choice]:
        """What a run was begun with runs it to its end."""
        from ..runtimes.choosing import choose

        runtime, kept = self.config.runtime, None if self._record is None else self._record.runtime
        if kept is not None and runtime != "auto" and set(kept.values()) != {runtime}:
            begun = ", ".join(f"the {part} in {kind}" for part, kind in kept.items())
            raise ValueError(
                f"{self.model_dir} was begun with {begun}; got runtime={runtime!r}: choose another model_dir"
            )
        executor, choice = choose(program, train, runtime, kept, self._programs)
        logger.info("%s", choice)
        return executor, choice

    def _write_record(self, env: BatchedEnvironment, choice: Choice) -> None:
        params, unrecorded = recordable(self.params)
        self._record = RunRecord(
            seed=self._run_seed,
            model_fn=registry.name_of(self._model_fn),
            params=params,
            unrecorded=unrecorded,
            observation_space=env.observation_space,
            action_space=env.action_space,
            num_envs=env.num_envs,
            runtime=choice.runtimes,
            runtime_why={part: dataclasses.asdict(reason) for part, reason in choice.why.items()},
            made_with=provenance(),
        )
        self._record.write(self.model_dir)
        if self._inexact_ops:
            ops = ", ".join(self._inexact_ops)
            self._mark_not_exact(f"model_fn runs TensorFlow's stateful random ops ({ops}); axonrl.noise would be exact")

    def _compare_provenance(self) -> None:
        """A run that goes on with other versions, threads or another machine is not exact from there on."""
        if self._record is None:
            return
        now = provenance()
        changed = differences(self._record.made_with, now)
        if changed:
            self._record = dataclasses.replace(self._record, made_with=now)
            self._mark_not_exact(f"it goes on with {', '.join(changed)}")

    def _mark_not_exact(self, why: str) -> None:
        logger.warning("this run will not resume exactly: %s", why)
        if self._record is not None and why not in self._record.not_exact:
            self._record = dataclasses.replace(self._record, not_exact=(*self._record.not_exact, why))
            self._record.write(self.model_dir)

    def _with_defaults(self, given: Sequence[Any]) -> list[Any]:
        """NaNGuard; then those given and the spec's; then the other default hooks, where none of their class is."""
        config = self.config
        hooks = [*given, *self._spec_hooks]
        defaults: list[Any] = [LoggingHook(), SummaryHook(config.save_summary_steps)]
        when = (config.save_checkpoints_secs, config.save_checkpoints_steps, config.save_checkpoints_episodes)
        if when != (None, None, None):
            defaults.append(CheckpointHook(*when))
        guard = [] if _has(hooks, NaNGuard) else [NaNGuard()]
        return [*guard, *hooks, *(hook for hook in defaults if not _has(hooks, type(hook)))]

    # -- what the session asks for ------------------------------------------------------------------------------------

    def _counters(self) -> Counters:
        newest = self._store.newest()
        if self._state is not None and newest == self._loaded:
            return self._state.counters
        loaded = self._store.load()
        return Counters() if loaded is None else Counters(**loaded[1]["counters"])

    def _restore(self, index: int, state: Mapping[str, Any]) -> None:
        if self._state is None:
            super()._restore(index, state)
            return
        self._statistics = state["statistics"]
        try:
            self._state.load_state_dict(state)
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"checkpoint {index} of {self.model_dir} does not fit this Agent: {error}; pass the model_fn, params"
                " and memory that it was trained with, or another model_dir"
            ) from error

    def _save(self) -> None:
        if self._state is not None:
            state = self._state.state_dict()
            self._statistics = state["statistics"]
            step = self._state.counters.global_step
            refuse_non_finite(state["weights"], f"at global_step {step}; that is not saved")
            self._store.save(state)
            self._loaded = self._store.newest()

    def _statistics_now(self) -> State | None:
        opened = None if self._state is None or self._session is None else self._state.env
        return super()._statistics_now() if opened is None else statistics_of(opened.env)

    def _evaluation_environment(self, env: Any, episodes: int) -> BatchedEnvironment:
        if self._evaluations is None:
            raise ValueError("this session is over: it evaluates no more")
        self._refuse_own(env)
        opened = self._evaluations.get(env, count("episodes", episodes))
        self._take_spaces(opened.observation_space, opened.action_space)
        with as_in_training(opened.env, self._source):
            return opened  # where it lacks a wrapper that learns, that is refused now

    def _evaluate_live(
        self, env: Any, episodes: int, seed: int | None, eval_batches: int
    ) -> tuple[dict[str, float], list[float]]:
        """Evaluate the weights as they are now, in an environment that the training does not use."""
        stats = self._live_episodes(self._evaluation_environment(env, episodes), episodes, seed)
        results = summarize(stats)
        if eval_batches and self._state is not None:
            results.update(self._eval_mode(self._state, count("eval_batches", eval_batches)))
        return results, [one.episode_return for one in stats]

    def _live_episodes(self, opened: BatchedEnvironment, episodes: int, seed: int | None) -> list[EpisodeStats]:
        with as_in_training(opened.env, self._source):
            return self._greedy_episodes(opened, episodes, seed, stream=1, watch=Watchers())

    @functools.cached_property
    def _eval_mode(self) -> EvalMode:
        return EvalMode(self._traced(), self._run_seed)

    def _prepare_eval(self) -> None:
        _ = self._eval_mode  # is traced

    def _video_environment(self, env: Any) -> gymnasium.Env[Any, Any]:
        if self._evaluations is None:
            raise ValueError("this session is over: it records no more")
        self._refuse_own(env)
        opened = self._evaluations.rendering(env)
        self._take_spaces(opened.observation_space, opened.action_space)
        with as_in_training(opened, self._source):
            return opened

    def _record_live(self, path: Path, env: Any) -> EpisodeStats:
        """The first of the evaluations' episodes, with the weights as they are now."""
        with recorded(self._video_environment(env), path) as opened:
            return self._live_episodes(opened, 1, None)[0]


def _check_first_update(schedule: Schedule, memory: Memory) -> None:
    if memory.fills_and_empties or memory.can_sample(schedule.first_update):
        return
    raise ValueError(
        f"{schedule.first_update} timesteps (first_update) cannot fill a batch of {memory.batch_size} from the"
        f" {type(memory).__name__}: raise first_update or lower batch_size"
    )


def _with_names_of_their_own(hooks: Sequence[Any]) -> Sequence[Any]:
    """The hooks; refused if two of them would write the same policy over and over."""
    names = [hook.keeps for hook in hooks if isinstance(hook, EvaluationHook) and hook.keeps is not None]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"two EvaluationHooks keep a policy {name!r}: give one of them another name=, or keep_best=False"
            )
    return hooks


def _has(hooks: Sequence[Any], kind: type) -> bool:
    return any(isinstance(hook, kind) for hook in hooks)
