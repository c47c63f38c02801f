"""Agent: an Estimator that learns by acting."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from .. import registry
from ..contracts import Array, ArraySpec, ArrayTree, EpisodeStats, Memory, ModelFn, RunConfig, SpecTree
from ..environments import spaces
from ..environments.batched import BatchedEnvironment
from ..environments.making import open_environment, similar
from ..explorations import Greedy
from ..hooks import CheckpointHook, LoggingHook, NaNGuard, SummaryHook
from ..hooks.hook import Hooks
from . import record
from .episodes import Episodes
from .estimator import Estimator
from .evaluation import summarize
from .limits import KINDS, Limits, Schedule, check
from .record import RunRecord
from .seeding import generators
from .session import MonitoredSession, Plan
from .state import Counters, TrainingState

AnyEnv: TypeAlias = "gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | str"
logger = logging.getLogger("axonrl")

_EVALUATION_COPIES = 8
_PATIENCE = 1_000_000
"""Timesteps after which a memory that still cannot be sampled never will be."""


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
        self._spec_hooks: tuple[Any, ...] = ()
        self._session: MonitoredSession | None = None
        self._source: AnyEnv | None = None  # what evaluation during training copies
        self._evaluations: dict[Any, BatchedEnvironment] = {}
        self._closing = contextlib.ExitStack()
        self._inexact_ops: tuple[str, ...] = ()

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
        increments = {"steps": steps, "episodes": episodes, "timesteps": timesteps}
        totals = {"steps": max_steps, "episodes": max_episodes, "timesteps": max_timesteps}
        check(increments, totals)
        with self._opened(env, hooks) as session:
            self._check_first_update(schedule)
            counters = self._counters()
            reached = (counters.global_step, counters.global_episode, counters.global_timestep)
            limits = Limits.of(dict(zip(KINDS, reached, strict=True)), increments, totals)
            reason = limits.reached(*reached)
            if reason is not None:
                logger.info("nothing to train: %s", reason)
                return self
            with session.monitored(limits):
                session.run(schedule)
        return self

    @contextlib.contextmanager
    def session(self, env: AnyEnv, hooks: Sequence[Any] | None = None) -> Iterator[MonitoredSession]:
        """The monitored session, for a loop of one's own around :meth:`run_episode`.

        Example::

            with agent.session(env) as session:
                while session.global_episode < 100:
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
            ValueError: the session is another environment's, has several environments, or has been asked to stop.
        """
        if session is not self._session or env is not self._source:
            raise ValueError("run_episode needs the session that agent.session(env) opened, and its environment")
        if session.env.num_envs != 1:
            raise ValueError(f"run_episode is for one environment; this session has {session.env.num_envs}")
        schedule = Schedule(first_update, update_frequency)
        self._check_first_update(schedule)
        stats = session.run_episode(schedule)
        if stats is None:
            raise ValueError(f"the session has been asked to stop: {session.stop_reason}")
        return stats

    # -- opening a session --------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _opened(self, env: AnyEnv, hooks: Sequence[Any] | None) -> Iterator[MonitoredSession]:
        """The state is that of the newest checkpoint, the environment stands where the running episodes do."""
        if self.memory is None:
            raise ValueError("training needs a memory: Agent(model_fn, memory=ReplayMemory(...))")
        if self._session is not None:
            raise ValueError("this Agent has a session open already")
        opened = open_environment(env)
        self._source = env
        self._closing.callback(opened.close)
        try:
            with self._store.lock():
                state, plan = self._prepare(opened, self.memory)
                resumed = state.counters.global_timestep > 0
                watching = self._hooks(hooks)
                watching.load_state_dict(state.hooks)
                self._bring_back(opened, state)
                self._session = MonitoredSession(self, state, opened, watching, plan, resumed)
                yield self._session
        except BaseException:
            self._loaded = -1  # what is in memory may be torn: the next session begins from the disk
            raise
        finally:
            self._session = None
            self._evaluations.clear()
            self._closing.close()

    def _prepare(self, env: BatchedEnvironment, memory: Memory) -> tuple[TrainingState, Plan]:
        self._take_spaces(env.observation_space, env.action_space)
        if self._record is not None and self._record.num_envs != env.num_envs:
            raise ValueError(
                f"{self.model_dir} was begun with {self._record.num_envs} environments, got {env.num_envs}:"
                " its memory and its running episodes are those of so many"
            )
        if self._state is None or self._plan is None:
            self._state, self._plan = self._build_training(env, memory)
        state, plan = self._state, self._plan
        newest = self._store.newest()
        if newest is None:
            self._write_record(env)
            self._save()
        elif newest != self._loaded:
            loaded = self._store.load()
            if loaded is not None:
                self._restore(*loaded)
        return state, plan

    def _build_training(self, env: BatchedEnvironment, memory: Memory) -> tuple[TrainingState, Plan]:
        executor = self._build()
        predict = executor.program.predict
        exploration = Greedy() if predict.exploration is None else predict.exploration
        action = spaces.action_spec(env.action_space)
        specs: dict[str, SpecTree] = {
            "observation": spaces.observation_spec(env.observation_space),
            "action": action,
            "reward": ArraySpec((), np.float32),
            "terminated": ArraySpec((), np.bool_),
            "truncated": ArraySpec((), np.bool_),
            "next_observation": spaces.observation_spec(env.observation_space),
        }
        if predict.state is not None:
            specs["state"] = predict.state
        specs.update(_recorded(predict.record, predict.outputs, exploration, env.num_envs))
        train = executor.program.trace_train(sampled_specs(memory, specs, env.num_envs))
        executor.prepare_training(train)
        rngs = generators(self._run_seed)
        memory.build(specs, env.num_envs, rngs["memory"])
        self._spec_hooks = (*predict.training_hooks, *train.training_hooks)
        self._inexact_ops = tuple(sorted({*predict.not_exact, *train.not_exact}))
        state = TrainingState(
            counters=Counters(),
            executor=executor,
            memory=memory,
            exploration=exploration,
            episodes=Episodes(env.num_envs, action, self._run_seed),
            generators=rngs,
            recurrent=self._fresh_state(env.num_envs),
        )
        return state, Plan(predict.record, train.metrics, action.shape, train.noise, executor.program.store.num_predict)

    def _write_record(self, env: BatchedEnvironment) -> None:
        params, unrecorded = record.recordable(self.params)
        self._record = RunRecord(
            seed=self._run_seed,
            model_fn=registry.name_of(self._model_fn),
            params=params,
            unrecorded=unrecorded,
            observation_space=env.observation_space,
            action_space=env.action_space,
            num_envs=env.num_envs,
            runtime="tensorflow",
        )
        self._record.write(self.model_dir)
        if env.not_exact is not None:
            self._mark_not_exact(f"{env.name}: {env.not_exact}")
        if self._inexact_ops:
            ops = ", ".join(self._inexact_ops)
            self._mark_not_exact(f"model_fn runs TensorFlow's stateful random ops ({ops}); axonrl.noise would be exact")

    def _mark_not_exact(self, why: str) -> None:
        logger.warning("this run will not resume exactly: %s", why)
        if self._record is not None and why not in self._record.not_exact:
            self._record = dataclasses.replace(self._record, not_exact=(*self._record.not_exact, why))
            self._record.write(self.model_dir)

    def _bring_back(self, env: BatchedEnvironment, state: TrainingState) -> None:
        """Replay the running episodes; where that leads elsewhere, go on from there and say so."""
        episodes = state.episodes
        if not episodes.running.any():
            return
        if env.not_exact is not None:
            logger.warning("%d running episodes were cut: %s", int(episodes.running.sum()), env.not_exact)
            episodes.running[:] = False
            return
        observation = episodes.replay(env)
        if not _rows_equal(observation, state.observation, episodes.running):
            self._mark_not_exact(f"{env.name} does not repeat an episode from its seed and actions")
        state.observation = observation

    def _hooks(self, given: Sequence[Any] | None) -> Hooks:
        hooks = [*(given or ()), *self._spec_hooks]
        config = self.config
        defaults: list[Any] = [LoggingHook(), SummaryHook(config.save_summary_steps)]
        secs, steps = config.save_checkpoints_secs, config.save_checkpoints_steps
        if (secs, steps, config.save_checkpoints_episodes) != (None, None, None):
            defaults.append(CheckpointHook(secs, steps, config.save_checkpoints_episodes))
        kinds = {type(hook) for hook in hooks}
        first = [] if NaNGuard in kinds else [NaNGuard()]
        return Hooks([*first, *hooks, *(hook for hook in defaults if type(hook) not in kinds)])

    def _check_first_update(self, schedule: Schedule) -> None:
        memory = self.memory
        if memory is None or memory.fills_and_empties or memory.can_sample(schedule.first_update):
            return
        raise ValueError(
            f"{schedule.first_update} timesteps (first_update) cannot fill a batch of {memory.batch_size} from the"
            f" {type(memory).__name__}: raise first_update or lower batch_size"
        )

    # -- what the session asks for ------------------------------------------------------------------------------------

    def _counters(self) -> Counters:
        if self._state is not None and self._loaded != -1:
            return self._state.counters
        loaded = self._store.load()
        return Counters() if loaded is None else Counters(**loaded[1]["counters"])

    def _restore(self, index: int, state: Mapping[str, Any]) -> None:
        if self._state is None:
            super()._restore(index, state)
            return
        try:
            self._state.load_state_dict(state)
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"checkpoint {index} of {self.model_dir} does not fit this Agent: {error}; pass the model_fn, params"
                " and memory that it was trained with, or another model_dir"
            ) from error
        self._loaded = self._store.newest()

    def _save(self) -> None:
        if self._state is not None:
            self._store.save(self._state.state_dict())
            self._loaded = self._store.newest()

    def _evaluate_live(self, env: Any, episodes: int, seed: int | None) -> tuple[dict[str, float], list[float]]:
        """Evaluate the weights as they are now, in an environment that the training does not use."""
        opened = self._evaluation_environment(env, episodes)
        stats = self._greedy_episodes(opened, episodes, seed, stream=1)
        return summarize(stats), [one.episode_return for one in stats]

    def _evaluation_environment(self, env: Any, episodes: int) -> BatchedEnvironment:
        """``env``, or copies of the training's environment; kept until the session ends."""
        copies = min(episodes, _EVALUATION_COPIES)
        key = copies if env is None else id(env)
        if key not in self._evaluations:
            source = self._source
            if env is None and source is not None:
                env = SyncVectorEnv([lambda: similar(source)] * copies, autoreset_mode=AutoresetMode.DISABLED)
                self._closing.callback(env.close)
            opened = open_environment(env)
            self._closing.callback(opened.close)
            self._take_spaces(opened.observation_space, opened.action_space)
            self._evaluations[key] = opened
        return self._evaluations[key]


def sampled_specs(memory: Memory, specs: Mapping[str, SpecTree], num_envs: int) -> dict[str, SpecTree]:
    """What a batch of this memory looks like: a copy of it is filled with zeros and sampled once.

    Raises:
        ValueError: the memory never has a batch.
    """
    trial = copy.deepcopy(memory)
    trial.build(specs, num_envs, np.random.default_rng(0))
    zeros = {key: _zeros(spec, num_envs) for key, spec in specs.items()}
    for _ in range(_PATIENCE // num_envs):
        if trial.can_sample():
            return {key: _spec_of(value) for key, value in trial.sample().items()}
        trial.extend(**zeros)
    raise ValueError(f"{type(memory).__name__} has no batch after {_PATIENCE} timesteps")


def _recorded(
    names: Sequence[str], outputs: Mapping[str, ArraySpec], exploration: Any, num_envs: int
) -> dict[str, ArraySpec]:
    """Specs of what the spec asks to record: exploration extras or predictions."""
    if not names:
        return {}
    zeros = {name: np.zeros((num_envs, *spec.shape), spec.dtype) for name, spec in outputs.items()}
    _, extras = copy.deepcopy(exploration)(zeros, 0, np.random.default_rng(0))
    found: dict[str, ArraySpec] = {}
    for name in names:
        value = extras[name] if name in extras else zeros.get(name)
        if value is None:
            raise ValueError(
                f"EstimatorSpec.record names {name!r}, which is neither a prediction ({', '.join(outputs)}) nor an"
                f" extra of the exploration ({', '.join(extras) or 'none'})"
            )
        found[name] = ArraySpec(value.shape[1:], value.dtype)
    return found


def _zeros(spec: SpecTree, num_envs: int) -> ArrayTree:
    if isinstance(spec, Mapping):
        return {key: np.zeros((num_envs, *leaf.shape), leaf.dtype) for key, leaf in spec.items()}
    return np.zeros((num_envs, *spec.shape), spec.dtype)


def _spec_of(value: ArrayTree) -> SpecTree:
    if isinstance(value, Mapping):
        return {key: ArraySpec(leaf.shape, leaf.dtype) for key, leaf in value.items()}
    return ArraySpec(value.shape, value.dtype)


def _rows_equal(a: Any, b: Any, rows: Array) -> bool:
    if isinstance(a, Mapping):
        return all(_rows_equal(a[key], b[key], rows) for key in a)
    return np.array_equal(a[rows], b[rows])
