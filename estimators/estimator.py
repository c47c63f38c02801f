"""Estimator: a model in a directory, which predicts and is evaluated. Agent, which trains it, builds on this."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from .. import registry
from ..checks import count, integer
from ..contracts import Array, ArrayTree, ModelFn, RunConfig, SpecTree, State
from ..environments import spaces
from ..environments.batched import BatchedEnvironment
from ..environments.making import innermost, open_environment
from ..environments.statistics import frozen, statistics_of
from ..errors import CheckpointError, NonFiniteError
from ..facts import EpisodeStats
from ..hooks.hook import Hooks
from ..runs import record
from ..runs.arrays import join_state, load_arrays, save_arrays, split_state
from ..runs.checkpoints import CheckpointStore
from ..runs.programs import FOLDER, ProgramCache
from ..runs.seeding import draw_seed, evaluation_seed, model_seed
from ..runtimes.tracing.signature import BoundModelFn, check_signature
from .evaluation import EvaluationSession, Watchers, run_episodes, summarize
from .failures import refuse_non_finite
from .state import Counters

if TYPE_CHECKING:
    from ..policies.executors import Acted, Executor
    from ..policies.patching import FrozenActor
    from ..runtimes.tracing.program import Program

logger = logging.getLogger("axonrl")
_STATISTICS = "statistics"


class Estimator:
    """A ``model_fn`` and the directory that holds what it learned.

    Args:
        model_fn: the function, its name (``"dqn"``, ``"package.module:function"``), or None to take the one that
            ``model_dir`` recorded.
        model_dir: the run's directory; None for a fresh temporary folder, said in the log.
        config: how the run is run.
        params: hyperparameters for ``model_fn``; None takes those that ``model_dir`` recorded, if it did.

    Raises:
        ValueError: the function breaks the contract, or contradicts what ``model_dir`` recorded.
        CheckpointError: ``model_dir`` cannot be read.
    """

    def __init__(
        self,
        model_fn: ModelFn | str | None,
        model_dir: str | Path | None = None,
        config: RunConfig | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        if model_dir is None:
            model_dir = tempfile.mkdtemp(prefix="axonrl-")
            logger.warning("no model_dir given: this run is kept in %s", model_dir)
        if not isinstance(model_dir, str | os.PathLike) or not str(model_dir):
            raise ValueError(f"model_dir must be a path, or None for a temporary folder, got {model_dir!r}")
        self.model_dir = Path(model_dir).absolute()
        config = RunConfig() if config is None else config
        if not isinstance(config, RunConfig):
            raise ValueError(f"config must be an axonrl.RunConfig, got {config!r}")
        self.config = config
        self._given_seed = config.seed
        self._program: Program | None = None
        self._executor: Executor | None = None
        self._record = record.read(self.model_dir)
        self._model_fn = self._find(model_fn)
        if params is not None and not isinstance(params, Mapping):
            raise ValueError(f"params must be a mapping of names to values, got {params!r}")
        self.params = self._recorded_params() if params is None else dict(params)
        check_signature(self._model_fn, self.params)
        self._run_seed = draw_seed() if config.seed is None else int(config.seed)
        self._adopt(self._record)
        self._store = CheckpointStore(self.model_dir, config.keep_checkpoint_max)
        self._programs = ProgramCache(self.model_dir / FOLDER)
        self._loaded: int | None = None
        """Index of the checkpoint that the state in memory equals or follows from; None if it is of no use."""
        self._statistics: State | None = None
        """What the training's normalising wrappers have learnt; None before there was any training."""
        self._restored = Counters()
        self._source: Any = None
        """The environment that is being trained in."""

    # -- what users call ----------------------------------------------------------------------------------------------

    def predict(self, observations: Any, *, policy: str = "last") -> dict[str, Array]:
        """PREDICT's predictions for a batch of observations.

        Args:
            observations: as the model sees them, normalised where wrappers of the training do that: an array [B, ...],
                or a dict of such arrays for Dict and Tuple spaces, with the keys of nested spaces joined by ``/``.
            policy: ``"last"`` for the newest weights, or the name of a kept policy (``"best"``).

        Returns:
            Name to array [B, ...]; ``"action"`` is the greedy action in the environment's units.

        Raises:
            ValueError: wrong shape or dtype, or nothing has been trained in ``model_dir``, nor evaluated from here.
        """
        self._look_again()
        space = self.config.observation_space
        if space is None:
            raise ValueError(f"predict needs a trained run, and {self.model_dir} holds none")
        executor = self._actor()
        features = _as_batch(spaces.observation_spec(space), observations, "observations")
        size = len(next(iter(features.values())) if isinstance(features, dict) else features)
        with self._weights_of(policy):
            return executor.act(self._with_state(features, size))[0]

    def evaluate(
        self,
        env: gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | str,
        episodes: int = 10,
        *,
        seed: int | None = None,
        hooks: Any = None,
        policy: str = "last",
    ) -> dict[str, float]:
        """Greedy episodes with PREDICT's actor.

        Args:
            env: environment, vector environment or id.
            episodes: how many.
            seed: seeds the episodes; None uses the run's seed. The same seed gives the same episodes.
            hooks: watchers; ``begin``, ``before_episode``, ``after_episode`` and ``end`` are called.
            policy: ``"last"`` for the newest weights, or the name of a kept policy (``"best"``).

        Returns:
            ``episode_return_mean, episode_return_std, episode_return_min, episode_return_max, episode_length_mean,
            episodes``.

        Raises:
            ValueError: an argument is out of range, or the spaces are not those of the training.
        """
        episodes = count("episodes", episodes)
        given = as_hooks(hooks)
        self._refuse_own(env)
        self._look_again()
        opened = open_environment(env)
        try:
            self._take_spaces(opened.observation_space, opened.action_space)
            executor = self._actor()
            if self._record is None:
                logger.warning("nothing has been trained in %s: its initial weights are evaluated", self.model_dir)
            watching = Hooks([*given, *self._traced().predict.evaluation_hooks])
            session = EvaluationSession(self.model_dir, self.config, executor.get_weights)
            with (
                self._weights_of(policy),
                self._frozen(opened),
                session.watched(watching, opened.num_envs, episodes) as watch,
            ):
                stats = self._greedy_episodes(opened, episodes, seed, stream=0, watch=watch)
        finally:
            opened.close()
        if not stats:
            raise ValueError("a hook stopped the evaluation before the first episode had finished")
        return summarize(stats)

    def export(self, directory: str | Path, *, policy: str = "last") -> Path:
        """Write the greedy policy as a directory that acts without TensorFlow: see ``axonrl.runtimes.Policy``.

        It holds the model as a LiteRT file, the weights, and ``policy.json``: spaces, what is done to observations,
        how the behaviour policy explored at that time, versions, and a digest of each file. What normalising wrappers
        of the training's environment had learnt is taken over where that can be; otherwise a warning says what the
        policy must be given.

        Args:
            directory: a new one, an empty one, or an export, which is replaced; whole or not at all.
            policy: ``"last"`` for the newest weights, or the name of a kept policy (``"best"``).

        Returns:
            The directory.

        Raises:
            ValueError: nothing has been trained in ``model_dir``, ``directory`` holds something else, or LiteRT cannot
                run the model (names the op).
            CheckpointError: it cannot be written.
        """
        from .export import Trained, export

        self._look_again()
        if self._record is None:
            raise ValueError(f"export needs a trained run, and {self.model_dir} holds none")
        executor = self._actor()
        counters = self._counters()
        with self._weights_of(policy) as about:
            weights, statistics = executor.get_predict_weights(), self._statistics
        known = {field.name: about[field.name] for field in dataclasses.fields(Counters) if field.name in about}
        counters = dataclasses.replace(counters, **known)
        refuse_non_finite(weights, f"in the policy {policy!r}; that is not exported")
        trained = Trained(policy, weights, counters, statistics)
        return export(self._traced(), self.config, trained, directory, self._programs)

    def _refuse_own(self, env: Any) -> None:
        """Evaluation must not disturb training: refuse the very environment that is being trained in."""
        if self._source is not None and innermost(env) & innermost(self._source):
            raise ValueError("evaluate was given the environment that is being trained in: give it one of its own")

    # -- building -----------------------------------------------------------------------------------------------------

    def _find(self, model_fn: ModelFn | str | None) -> ModelFn:
        if model_fn is None:
            if self._record is None:
                raise ValueError(f"no model_fn given, and {self.model_dir} holds no run to take one from")
            if self._record.model_fn is None:
                raise ValueError(f"the model_fn of {self.model_dir} has no importable name: pass it again")
            model_fn = self._record.model_fn
        if isinstance(model_fn, str):
            found: ModelFn = registry.find("model_fn", model_fn)
            return found
        return model_fn

    def _recorded_params(self) -> dict[str, Any] | None:
        if self._record is None or (self._record.params is None and not self._record.unrecorded):
            return None
        if self._record.unrecorded:
            names = ", ".join(self._record.unrecorded)
            raise ValueError(f"{self.model_dir} could not record the params {names} as JSON: pass params again")
        return dict(self._record.params or {})

    def _look_again(self) -> None:
        """Another Agent may have begun the run since this one was made."""
        if self._record is None:
            self._adopt(record.read(self.model_dir))

    def _adopt(self, found: record.RunRecord | None) -> None:
        """Use the seed and the spaces of the run that is in ``model_dir``, if there is one."""
        self._record = found
        if found is not None:
            if self._given_seed not in (None, found.seed):
                raise ValueError(f"{self.model_dir} was begun with seed {found.seed}; got seed {self._given_seed}")
            self._refuse_other_params(found)
            self._run_seed = found.seed
            self._take_spaces(found.observation_space, found.action_space)
        self.config = dataclasses.replace(self.config, seed=self._run_seed)

    def _refuse_other_params(self, found: record.RunRecord) -> None:
        """A run goes on with the params that it was begun with, as far as these could be recorded."""
        given, unrecorded = record.recordable(self.params)
        had, has = (json.loads(json.dumps(params or {})) for params in (found.params, given))
        names = sorted(name for name in had.keys() | has.keys() if had.get(name) != has.get(name))
        changed = [name for name in names if name not in (*unrecorded, *found.unrecorded)]
        if changed:
            differences = ", ".join(f"{name} ({had.get(name)!r} -> {has.get(name)!r})" for name in changed)
            raise ValueError(f"{self.model_dir} was begun with other params: {differences}; choose another model_dir")

    def _take_spaces(self, observation: gymnasium.Space[Any], action: gymnasium.Space[Any]) -> None:
        """Use these spaces; refuse others than the run's, or than those that the model was traced for."""
        known = self.config
        if self._record is not None or self._program is not None:
            for name, had, given in (
                ("observation", known.observation_space, observation),
                ("action", known.action_space, action),
            ):
                if had is not None and had != given:
                    raise ValueError(f"this run's {name} space is {had}, the environment's is {given}")
        spaces.observation_spec(observation)
        spaces.action_spec(action)
        self.config = dataclasses.replace(known, observation_space=observation, action_space=action)

    def _traced(self) -> Program:
        """The model with PREDICT traced, once."""
        if self._program is None:
            from ..runtimes.tracing.program import Program

            space = self.config.observation_space
            if space is None:
                raise ValueError(f"{self.model_dir} holds no run yet: its spaces are not known")
            bound = BoundModelFn(self._model_fn, self.params, self.config, self.model_dir)
            self._program = Program(bound, spaces.observation_spec(space), model_seed(self._run_seed))
        return self._program

    def _build(self) -> Executor:
        """The executor: to act, unless training has built one that does both."""
        if self._executor is None:
            from ..runtimes.choosing import choose

            runtime, kept = self.config.runtime, None
            if self._record is not None and runtime == "auto":
                kept = self._record.runtime
            self._executor, choice = choose(self._traced(), None, runtime, kept, self._programs)
            logger.info("%s", choice)
        return self._executor

    def _actor(self) -> Executor:
        """The executor, with the newest weights of ``model_dir``."""
        executor = self._build()
        self._load_newest()
        return executor

    def _load_newest(self) -> None:
        """Take over the newest checkpoint, unless the state in memory is that already or follows from it."""
        newest = self._store.newest()  # before loading: another process may write one meanwhile
        if newest != self._loaded and (loaded := self._store.load()) is not None:
            if self._record is None:
                raise CheckpointError(f"{self.model_dir} holds checkpoints, but its {record.FILE} is gone")
            self._restore(*loaded)
            self._loaded = newest

    def _restore(self, index: int, state: Mapping[str, Any]) -> None:
        """Take over a checkpoint as far as this object has use for it: PREDICT's weights."""
        self._load_predict_weights(state["weights"], f"checkpoint {index} of {self.model_dir}")
        self._statistics = state["statistics"]
        self._restored = Counters(**state["counters"])

    def _counters(self) -> Counters:
        """How far the training is whose weights the executor has."""
        return self._restored

    def _load_predict_weights(self, weights: Mapping[str, Array], where: str) -> None:
        executor = self._build()
        names = list(executor.get_predict_weights())
        missing = [name for name in names if name not in weights]
        if missing:
            raise ValueError(
                f"{where} does not fit {self._traced().name}: it lacks {', '.join(missing)}; it has"
                f" {', '.join(sorted(weights))}. Are model_fn and params those of the training?"
            )
        taken = {name: weights[name] for name in names}
        refuse_non_finite(taken, f"in {where}")
        executor.set_weights(taken)

    # -- policies -----------------------------------------------------------------------------------------------------

    def _policy_path(self, name: str) -> Path:
        return self.model_dir / f"{name}.safetensors"

    def _save_policy(self, name: str, info: Mapping[str, Any]) -> Path:
        if name in ("", "last") or Path(name).name != name:
            raise ValueError(f"a policy's name must be a file name without a folder, and not 'last'; got {name!r}")
        weights = self._build().get_predict_weights()
        refuse_non_finite(weights, f"in the policy {name!r}; that is not saved")
        path = self._policy_path(name)
        # What it was evaluated with: the same weights are another policy once observations are normalised otherwise.
        about, arrays = {"info": json.dumps(dict(info))}, dict[str, Array]()
        if statistics := self._statistics_now():
            arrays, tree = split_state({_STATISTICS: statistics})
            about[_STATISTICS] = json.dumps(tree)
        save_arrays(path, {**weights, **arrays}, about)
        return path

    def _statistics_now(self) -> State | None:
        """What the wrappers of the training have learnt until now."""
        return self._statistics

    @contextlib.contextmanager
    def _weights_of(self, policy: str) -> Iterator[Mapping[str, Any]]:
        """The actor has this policy's weights, and so do environments its statistics; afterwards their own again.

        Yields what was saved with them.
        """
        if policy == "last":
            self._statistics = self._statistics_now()
            yield {}
            return
        path = self._policy_path(policy)
        if not path.exists():
            kept = sorted(p.stem for p in self.model_dir.glob("*.safetensors"))
            raise ValueError(
                f"{self.model_dir} holds no policy {policy!r}, only {['last', *kept]};"
                " EvaluationHook keeps the best one while training"
            )
        arrays, about = load_arrays(path)
        executor = self._build()
        own, statistics = executor.get_predict_weights(), self._statistics
        learnt = {name: arrays.pop(name) for name in list(arrays) if name.startswith(f"{_STATISTICS}/")}
        try:
            if _STATISTICS in about:
                self._statistics = join_state(learnt, json.loads(about[_STATISTICS]))[_STATISTICS]
            self._load_predict_weights(arrays, str(path))
            yield json.loads(about.get("info", "{}"))
        finally:
            self._statistics = statistics
            executor.set_weights(own)

    def _frozen(self, env: BatchedEnvironment) -> contextlib.AbstractContextManager[None]:
        """``env`` normalises as the training did when the policy was saved, and learns nothing meanwhile."""
        return frozen(env.env, statistics_of(env.env) if self._statistics is None else self._statistics)

    # -- greedy episodes ----------------------------------------------------------------------------------------------

    def _with_state(self, features: Any, size: int) -> Any:
        fresh = self._fresh_state(size)
        return features if fresh is None else {"observation": features, "state": fresh}

    def _fresh_state(self, size: int) -> dict[str, Array] | None:
        declared = self._traced().predict.state
        if declared is None:
            return None
        return {name: np.zeros((size, *spec.shape), spec.dtype) for name, spec in declared.items()}

    def _acting(self) -> Callable[[Any], Acted]:
        """What acts while the weights rest: a frozen program with the weights of now, or the executor."""
        executor = self._build()
        if self._evaluator is None:
            return executor.act
        self._evaluator.set_weights(executor.get_predict_weights())
        return self._evaluator.act

    @functools.cached_property
    def _evaluator(self) -> FrozenActor | None:
        """LiteRT with constant weights, for a run that acts in TensorFlow only because its model is large.

        It follows from the run's record and from the model, so that it is the same after a resume.
        """
        from ..policies.patching import FrozenActor
        from ..runtimes.frozen import freeze, pays
        from ..runtimes.litert.conversion import ConversionError

        program, begun = self._traced(), self._record
        predict = program.predict
        if self.config.runtime != "auto" or not pays(predict):
            return None
        if begun and begun.runtime_why.get("actor", {}).get("code") != "large":
            return None
        try:
            content = freeze(program, self._programs)
        except ConversionError as error:
            logger.info("Evaluation uses TensorFlow: %s.", error)
            return None
        logger.info("Evaluation uses a frozen LiteRT program.")
        state = None if predict.state is None else sorted(predict.state)
        return FrozenActor(content, sorted(predict.outputs), state, num_threads=min(2, os.cpu_count() or 1))

    def _greedy_episodes(
        self, env: BatchedEnvironment, episodes: int, seed: int | None, stream: int, watch: Watchers
    ) -> list[EpisodeStats]:
        acting = self._acting()
        entropy = self._run_seed if seed is None else integer("seed", seed, at_least=0)
        seeds = [evaluation_seed(entropy, stream, k) for k in range(episodes)]

        def act(observation: Any, state: dict[str, Array] | None) -> Any:
            features: Any = observation if state is None else {"observation": observation, "state": state}
            return acting(features)

        return run_episodes(act, env, seeds, self._fresh_state(env.num_envs), watch)


def as_hooks(hooks: Any) -> tuple[Any, ...]:
    """What a user passed as ``hooks``, as a tuple; ``ValueError`` if it is no sequence."""
    if hooks is not None and not isinstance(hooks, Iterable):
        raise ValueError(f"hooks must be a sequence of hooks, got {hooks!r}")
    return tuple(hooks or ())


def _as_batch(spec: SpecTree, value: Any, what: str) -> ArrayTree:
    """``value`` as arrays [B, ...] of the spec's dtypes, if that loses nothing."""
    if not isinstance(spec, Mapping):
        array = np.asarray(value)
        if array.ndim == 0 or array.shape[1:] != spec.shape or len(array) == 0:
            raise ValueError(f"{what} must have shape [B, {', '.join(map(str, spec.shape))}], got {list(array.shape)}")
        if not np.can_cast(array.dtype, spec.dtype, "same_kind"):
            raise ValueError(f"{what} must be {spec.dtype}, got {array.dtype}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise NonFiniteError(f"{what} contain NaN or infinity")
        return np.ascontiguousarray(array, spec.dtype)
    if not isinstance(value, Mapping) or value.keys() != spec.keys():
        given = sorted(value) if isinstance(value, Mapping) else type(value).__name__
        raise ValueError(f"{what} must be a dict with the keys {sorted(spec)}, got {given}")
    batch = {key: np.asarray(_as_batch(leaf, value[key], f"{what}[{key!r}]")) for key, leaf in spec.items()}
    if len({len(array) for array in batch.values()}) > 1:
        raise ValueError(f"{what} differ in batch size: { {key: len(array) for key, array in batch.items()} }")
    return batch
