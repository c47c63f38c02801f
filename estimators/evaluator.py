"""The evaluator: predictions and greedy episodes with any policy of a run."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ..checks import integer
from ..contracts import Array, ArrayTree, Episode, SpecTree, State
from ..environments import spaces
from ..environments.batched import BatchedEnvironment
from ..environments.making import innermost, open_environment
from ..environments.statistics import frozen, refuse_others, statistics_of, taken_over
from ..errors import NonFiniteError
from ..facts import EpisodeStats
from ..hooks.hook import Hooks
from ..runs.seeding import evaluation_seed
from ..runs.snapshot import Counters, PolicySnapshot
from .evaluation import Act, EvaluationSession, Watchers, run_episodes, summarize
from .model import Model
from .recorder import cut_at, episodes_of, refuse_unsuitable
from .run import Run
from .warm_start import WarmStart, take

_RECORDED: Final = 3
"""The stream of the seeds of recorded episodes."""
logger = logging.getLogger("axonrl")


class Evaluator:
    """Acts greedily with snapshots.

    Args:
        run: holds the policies.
        model: acts with them.
    """

    def __init__(self, run: Run, model: Model) -> None:
        self._run = run
        self._model = model
        self.live: Callable[[], PolicySnapshot] | None = None
        """The policy in training, as long as ``run.current`` says that it is the newest one."""
        self.warm_start: WarmStart | None = None
        """Where initial weights come from."""
        self.training_environment: Any = None
        """What is being trained in, which evaluations must leave alone; None while there is no session."""

    def policy(self, name: str) -> PolicySnapshot:
        """``"last"`` for the newest one, in training or on the disk, else a kept one.

        Raises:
            ValueError: there is no policy of that name.
            CheckpointError: it cannot be read.
        """
        if name != "last":
            return self._run.kept_policy(name)
        if self.live is not None and self._run.store.newest() in (None, self._run.current):
            return self.live()
        newest = self._run.newest_policy()
        if newest is not None:
            return newest
        return self._initial

    @functools.cached_property
    def _initial(self) -> PolicySnapshot:
        """The policy that no training has changed. The source of a warm start is read once."""
        weights, statistics = self._model.executor.get_predict_weights(), None
        if self.warm_start is not None:
            acting = self._model.program.predict_variables()
            taken = take(self.warm_start, acting, acting)
            weights, statistics = {**weights, **taken.weights}, taken.statistics
        return PolicySnapshot("initial", weights, statistics, Counters())

    def predict(self, policy: PolicySnapshot, observations: Any) -> dict[str, Array]:
        """PREDICT's predictions [B, ...] for a batch of observations; ``ValueError`` for wrong ones."""
        space = self._run.config.observation_space
        if space is None:
            raise ValueError(f"predict needs a trained run, and {self._run.model_dir} holds none")
        features: Any = _as_batch(spaces.observation_spec(space), observations, "observations")
        size = len(next(iter(features.values())) if isinstance(features, dict) else features)
        state = self._model.fresh_state(size)
        if state is not None:
            features = {"observation": features, "state": state}
        with self._model.acting(policy) as act:
            return act(features)[0]

    def evaluate(
        self, policy: str, env: Any, episodes: int, seed: int | None, hooks: Sequence[Any]
    ) -> dict[str, float]:
        """Greedy episodes, watched by hooks; as ``Agent.evaluate``."""
        self.refuse_training_environment(env)
        run, model = self._run, self._model
        opened = open_environment(env)
        try:
            snapshot, statistics = self._to_act_in(opened, policy)
            if run.record is None:
                logger.warning("nothing has been trained in %s: its initial weights are evaluated", run.model_dir)
            watching = Hooks([*hooks, *model.program.predict.evaluation_hooks])
            session = EvaluationSession(run.model_dir, run.config, lambda: model.predict_weights(snapshot))
            for prepare in watching.prepare:
                prepare(session)
            watched = session.watched(watching, opened.num_envs, episodes)
            with frozen(opened.env, statistics, evaluating=True), watched as watch:
                stats = self.episodes(snapshot, opened, episodes, seed, stream=0, watch=watch)
        finally:
            opened.close()
        if not stats:
            raise ValueError("a hook stopped the evaluation before the first episode had finished")
        return summarize(stats)

    def _to_act_in(self, opened: BatchedEnvironment, policy: str) -> tuple[PolicySnapshot, State]:
        """A policy, and what normalising wrappers have learnt in its training.

        Before any training these are the statistics of a warm start, where they fit, or what the environment's have.

        Raises:
            ValueError: there is no such policy, or the environment does not normalise as the training's did, or has
                other spaces.
        """
        untrained = self._run.record is None
        if untrained:
            self.take_spaces(opened)  # the model is traced for them
        snapshot = self.policy(policy)
        statistics = snapshot.statistics
        if untrained and statistics is not None:
            statistics = taken_over(opened.env, statistics)
        statistics = statistics_of(opened.env) if statistics is None else statistics
        refuse_others(opened.env, statistics, evaluating=True)  # says more than that the spaces differ
        self.take_spaces(opened)
        return snapshot, statistics

    def episodes(
        self,
        policy: PolicySnapshot,
        env: BatchedEnvironment,
        episodes: int,
        seed: int | None,
        *,
        stream: int,
        watch: Watchers,
    ) -> list[EpisodeStats]:
        """Greedy episodes; ``stream`` keeps apart what is evaluated for different purposes."""
        seeds = [self._seed_of(seed, stream, k) for k in range(episodes)]
        with self._actor(policy) as act:
            return run_episodes(act, env, seeds, self._model.fresh_state(env.num_envs), watch)

    def record(
        self, policy: str, env: Any, episodes: int | None, timesteps: int | None, epsilon: float, seed: int | None
    ) -> list[Episode]:
        """Episodes as stored ones are; as ``Estimator.record``."""
        self.refuse_training_environment(env)
        opened = open_environment(env)
        try:
            refuse_unsuitable(opened, env)
            snapshot, _ = self._to_act_in(opened, policy)
            with self._actor(snapshot) as act:
                seeds, state = functools.partial(self._seed_of, seed, _RECORDED), self._model.fresh_state(1)
                played = episodes_of(act, opened, seeds, state, epsilon)
                return list(itertools.islice(played, episodes) if timesteps is None else cut_at(played, timesteps))
        finally:
            opened.close()

    @contextlib.contextmanager
    def _actor(self, policy: PolicySnapshot) -> Iterator[Act]:
        """What acts greedily, from observations and recurrent state."""
        with self._model.acting(policy, resting=True) as acting:

            def act(observation: Any, state: dict[str, Array] | None) -> Any:
                return acting(observation if state is None else {"observation": observation, "state": state})

            yield act

    def _seed_of(self, seed: int | None, stream: int, episode: int) -> int:
        entropy = self._run.seed if seed is None else integer("seed", seed, at_least=0)
        return evaluation_seed(entropy, stream, episode)

    def take_spaces(self, env: Any) -> None:
        """``ValueError`` if the spaces of an environment are not those of the run."""
        self._run.take_spaces(env.observation_space, env.action_space)

    def refuse_training_environment(self, env: Any) -> None:
        """``ValueError`` if ``env`` is being trained in: an evaluation must not disturb that."""
        training = self.training_environment
        if training is not None and innermost(env) & innermost(training):
            raise ValueError("evaluate was given the environment that is being trained in: give it one of its own")


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
