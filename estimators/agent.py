"""Agent: an Estimator that learns by acting."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium

from ..core.checks import count
from ..core.protocols import MOST_LANES, Array, ClusterLike, Memory, ModelFn, RunConfig
from ..hooks.events import EpisodeStats
from ..hooks.hook import Hooks
from ..memories.description import made_from
from ..run_dir import record
from ..run_dir.published import run_folder
from .batch_layout import check_memory
from .estimator import Estimator
from .experience_sources import AnyEnv, Data, Lanes, Spaces, training_spaces
from .interaction import Interaction
from .limits import FIRST_UPDATE, UPDATE_FREQUENCY, Goal, Limits, UpdateSchedule
from .overrides import refuse_overridden
from .program_cache import compile_run
from .run_summary import RunSummary, summary_of
from .session import MonitoredSession
from .trainer import Trainer
from .warm_start import WarmStartLike, as_warm_start


class Agent(Estimator):
    """Trains a ``model_fn`` in an environment, evaluates it and exports it.

    Example::

        agent = Agent(dqn.model_fn, memory=ReplayMemory(50_000, batch_size=64), model_dir="runs/cartpole")
        agent.train("CartPole-v1", first_update=1_000, update_frequency=2, max_timesteps=50_000)
        agent.evaluate("CartPole-v1", episodes=100)

    Args:
        model_fn, model_dir, config, params: as for :class:`Estimator`; an existing run is resumed.
        memory: where transitions are stored; needed only for ``train``. Every Agent needs its own.
        warm_start: source of a new run's initial weights: a run folder, a policy file, a Keras file (``"model.keras"``,
            ``"model.weights.h5"``), a mapping of names to weights, or a :class:`WarmStart`.
        compiled: a directory written by :meth:`compile`, instead of ``model_fn``; TensorFlow is not loaded. Without a
            seed in ``config``, a new run uses the seed of the compilation.

    Raises:
        ValueError: an argument is invalid, or contradicts the record in ``model_dir``.
        CheckpointError: ``model_dir`` cannot be read.
    """

    def __init__(
        self,
        model_fn: ModelFn | str | None,
        memory: Memory | None = None,
        model_dir: str | Path | None = None,
        config: RunConfig | None = None,
        params: Mapping[str, Any] | Any = None,
        *,
        warm_start: WarmStartLike | None = None,
        compiled: str | Path | None = None,
    ) -> None:
        check_memory(memory)
        super().__init__(model_fn, model_dir, config, params, compiled=compiled)
        self._trainer = Trainer(self._run, self._model, self._evaluator, memory, as_warm_start(warm_start))

    @classmethod
    def load(
        cls,
        model_dir: str | Path,
        *,
        model_fn: ModelFn | str | None = None,
        memory: Memory | None = None,
        config: RunConfig | None = None,
        params: Mapping[str, Any] | Any = None,
        into: str | Path | None = None,
        trust_code: bool = False,
    ) -> Agent:
        """Open an existing run: the Agent acts, evaluates and exports, and ``train`` continues the run.

        Example::

            agent = Agent.load("runs/dqn_cartpole")
            action = agent.act(observation)

        Args:
            model_dir: the run folder of a Python program or of ``axonrl run``; or a run on the Hugging Face Hub,
                ``"hf://user/name"`` or ``"hf://user/name@revision"``, as ``axonrl push`` publishes it.
            model_fn: needed if the run could not record an importable name.
            memory: a new one with the run's settings; needed for training if the run could not record them.
            config: settings of the run.
            params: needed if the run could not record them.
            into: a new or empty folder for the copy of a run on the Hub; None for a temporary one.
            trust_code: whether to import functions and classes that a run on the Hub names (``"module:name"``).

        Raises:
            ValueError: ``model_dir`` holds no run, or an argument contradicts its record; a run on the Hub names code.
            CheckpointError: ``model_dir`` cannot be read.
            ConnectionError: the Hub cannot be reached, or refuses.
        """
        model_dir = run_folder(model_dir, into, (model_fn, type(memory)), trust_code=trust_code)
        found = record.existing(model_dir).memory
        memory = made_from(found) if memory is None and found is not None else memory
        return cls(model_fn, memory, model_dir, config, params)

    @property
    def memory(self) -> Memory | None:
        """The memory of transitions."""
        return self._trainer.memory

    @property
    def global_step(self) -> int:
        """Updates run so far."""
        return self._trainer.counters.global_step

    @property
    def global_timestep(self) -> int:
        """Actions taken so far, one per environment per step."""
        return self._trainer.counters.global_timestep

    @property
    def global_episode(self) -> int:
        """Episodes finished so far."""
        return self._trainer.counters.global_episode

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Replace the run's weights, and save a new checkpoint; during a training, the next one has them.

        The target network and the optimizer stay unchanged; to start a new run from other weights, use ``warm_start``.

        Args:
            weights: those used to act, with the names, shapes and dtypes of ``get_weights``; or all variables.

        Raises:
            ValueError: there is no run yet; a name is missing or unknown; a shape or dtype differs.
            NonFiniteError: a weight is NaN or infinite.
            CheckpointError: ``model_dir`` cannot be used.
        """
        self._trainer.set_weights(weights)

    def train(
        self,
        env: AnyEnv,
        first_update: int = FIRST_UPDATE,
        update_frequency: int = UPDATE_FREQUENCY,
        episodes: int | None = None,
        steps: int | None = None,
        hooks: Any = None,
        max_steps: int | None = None,
        max_episodes: int | None = None,
        *,
        timesteps: int | None = None,
        max_timesteps: int | None = None,
        cluster: ClusterLike | None = None,
    ) -> Agent:
        """Train until the first limit is reached, or a hook stops the run; returns this Agent.

        Args:
            env: environment, vector environment (without autoreset, for exact resume) or id.
            first_update: ``global_timestep`` of the first update; by default 35, or later, when the memory can first
                fill a batch.
            update_frequency: timesteps between updates. Rollout memories ignore both; a resumed run keeps its recorded
                values.
            episodes: finished episodes to add.
            steps: updates to add; met exactly.
            hooks: a hook, a function ``f(session, episode)`` called at the end of every episode, or several of these;
                they are added to the defaults (NaNGuard, HistoryHook, ProgressHook, LoggingHook, SummaryHook and
                CheckpointHook), or replace those of the same class.
            max_steps: total number of updates.
            max_episodes: total number of finished episodes.
            timesteps: timesteps to add; checked after each (vector) step.
            max_timesteps: total number of timesteps.
            cluster: train on several processes or machines (:class:`axonrl.distributed.Cluster`); ``env`` must be an id
                or an importable function that returns an environment.

        Raises:
            ValueError: an argument is invalid, or the model, the memory and the environment do not fit together.
            BrokenEnvironmentError: the environment raised, or returned a value outside its spaces.
            NonFiniteError: a reward, an observation or a loss is NaN or infinite.
            CheckpointError: ``model_dir`` cannot be used.
        """
        schedule = UpdateSchedule(first_update, update_frequency)
        goal = Goal(steps, episodes, timesteps, max_steps, max_episodes, max_timesteps)
        refuse_overridden(self, Agent)
        if cluster is not None:
            cluster.train(self._trainer, self._model, env, Hooks(hooks), schedule, goal)
            return self
        with self._trainer.opened(env, Hooks(hooks), schedule, endless=not goal.is_given) as session:
            session.reach(goal)
        return self

    def learn(
        self,
        data: Data | None = None,
        env: AnyEnv | Spaces | None = None,
        *,
        steps: int | None = None,
        max_steps: int | None = None,
        hooks: Any = None,
    ) -> Agent:
        """Learn from stored experience only: update from the memory, without acting in an environment.

        Example::

            agent = Agent(cql.model_fn, memory=ReplayMemory(50_000, batch_size=64), model_dir="runs/cartpole")
            agent.learn("cartpole.npz", "CartPole-v1", max_steps=10_000)

        ``global_step`` includes these updates; ``global_timestep`` is unchanged. Hooks, limits, checkpoints and resume
        work as in ``train``. Returns this Agent.

        Args:
            data: episodes, or a file or folder of them (:func:`axonrl.environments.read_episodes`), stored in the
                memory first. The same data are stored only once, however often the run is resumed, as its checkpoints
                include the memory. None: use the contents of the memory.
            env: environment, vector environment, id, or the spaces (observation, action) of one environment. It is not
                stepped; an EvaluationHook evaluates in copies of it. None: use the spaces of the existing run.
            steps: updates to add.
            max_steps: total number of updates.
            hooks: as for ``train``.

        Raises:
            ValueError, NonFiniteError, CheckpointError: as for ``train``; also a ValueError if the data do not fit the
                spaces, the model or the memory, or do not fill a batch.
        """
        goal = Goal(steps=steps, max_steps=max_steps)
        with self._trainer.offline(data, env, Hooks(hooks), endless=not goal.is_given) as session:
            session.reach(goal)
        return self

    def compile(
        self,
        directory: str | Path | None,
        env: AnyEnv | Spaces,
        memory: Memory | None = None,
        *,
        lanes: int = 1,
        seeds: Iterable[int] | None = None,
    ) -> Path:
        """Write the training program as a directory that trains without TensorFlow; returns its path.

        ``Agent(None, compiled=directory, memory=...)`` trains with it, with bit-identical results. An existing run of
        this Agent is unchanged; its weights are not written.

        Args:
            directory: a new or empty one, or that of a compiled program, which is replaced atomically. None for the
                cache, where runs of built-in models find their program and then start without TensorFlow.
            env: the training environment, or the spaces (observation, action) of one environment.
            memory: a memory with the settings of the training; None for the Agent's.
            lanes: number of environments, if spaces are given.
            seeds: seeds of the runs to write initial weights for; None for this Agent's. Others can be added later
                (:func:`axonrl.policies.add_seeds`).

        Raises:
            ValueError: the model cannot be compiled (names the part and the reason), ``directory`` holds something
                else, or an argument does not fit.
            CheckpointError: the directory cannot be written, or another process is writing it.
        """
        check_memory(memory)
        memory = self._trainer.needed_memory() if memory is None else memory
        return compile_run(self._run, memory, training_spaces(env, lanes), directory, seeds)

    def check(
        self,
        env: AnyEnv | Spaces,
        first_update: int = FIRST_UPDATE,
        update_frequency: int = UPDATE_FREQUENCY,
        hooks: Any = None,
        *,
        data: Data | None = None,
    ) -> RunSummary:
        """Raise every error that ``train`` with the same arguments would raise before its first timestep.

        The model is traced and the memory allocated; in a fresh ``model_dir`` this starts the run, at timestep zero.
        With ``data``, which are then stored in the memory, check ``learn`` instead.

        Returns:
            A summary of the run: spaces, sizes, and the executors of actor and learner.

        Raises:
            ValueError, BrokenEnvironmentError, CheckpointError: as ``train``.
        """
        trainer, schedule = self._trainer, UpdateSchedule(first_update, update_frequency)
        if data is None:
            refuse_overridden(self, Agent)
            opening = trainer.opened(env, Hooks(hooks), schedule)
        else:
            opening = trainer.offline(data, env, Hooks(hooks), endless=False)
        with self._run.only_checked(), opening as session:
            return summary_of(session.spaces, self._model.program, trainer.state().stepper, self._run.record)

    @contextlib.contextmanager
    def session(self, env: AnyEnv, hooks: Any = None) -> Iterator[MonitoredSession]:
        """Open a monitored session with the ``env`` and ``hooks`` of ``train``, for a loop around :meth:`run_episode`.

        Example::

            with agent.session(env) as session:
                while session.stop_reason is None and session.global_episode < 100:
                    stats = agent.run_episode(env, session, first_update=100, update_frequency=4)
        """
        with self._trainer.opened(env, Hooks(hooks), endless=True) as session, session.monitored(Limits()):
            yield session

    def run_episode(
        self,
        env: AnyEnv,
        session: MonitoredSession,
        first_update: int = FIRST_UPDATE,
        update_frequency: int = UPDATE_FREQUENCY,
    ) -> EpisodeStats:
        """Run one episode of one environment to its end (after a resume, the one in progress).

        For custom loops in a :meth:`session` opened with this ``env``; the other arguments are those of ``train``.
        ``train`` does not call it, as a limit may end in the middle of an episode, and raises for a subclass that
        overrides it.

        Raises:
            ValueError: the session belongs to another environment, has several environments, or was asked to stop.
        """
        if session is not self._trainer.session or env is not self._trainer.source:
            raise ValueError("run_episode needs a session opened by agent.session(env), and the same env")
        session.check_episode()
        self._trainer.use_schedule(UpdateSchedule(first_update, update_frequency))
        return session.run_episode()

    @contextlib.contextmanager
    def interact(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        *,
        lanes: int = 1,
        first_update: int = FIRST_UPDATE,
        update_frequency: int = UPDATE_FREQUENCY,
        hooks: Any = None,
    ) -> Iterator[Interaction]:
        """Train from experience supplied by the caller: a simulator, a game server, a robot.

        ``Interaction`` has an example. The spaces are those of one lane; ``lanes`` is the number of independent
        streams of experience. The other arguments are those of ``train``.
        """
        where = Lanes(observation_space, action_space, count("lanes", lanes, at_most=MOST_LANES))
        schedule = UpdateSchedule(first_update, update_frequency)
        opening = self._trainer.open_session(where, Hooks(hooks), schedule, endless=True)
        with opening as session, session.monitored(Limits()):
            yield Interaction(session, self._trainer.state())
