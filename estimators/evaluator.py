"""The evaluator: predictions and episodes with any policy of a run."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import logging
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, Tuple

from ..core.checks import count, integer
from ..core.errors import ArgumentError
from ..core.protocols import Array, Episode, State
from ..core.trees import leaves
from ..environments import spaces
from ..environments.adapters import innermost
from ..environments.batched import BatchedEnvironment
from ..environments.ids import open_environment
from ..environments.statistics import frozen, refuse_others, statistics_of, taken_over
from ..hooks import FinalValuesHook, HistoryHook, Hooks, SummaryHook
from ..hooks.events import EpisodeStats
from ..policies.behaviour import Behaviour
from ..policies.boundary import ObservationsIn
from ..policies.description import Part, normalization_from
from ..policies.modes import PredictMode
from ..run_dir.generators import evaluation_seed
from ..run_dir.history import REPEAT, Evaluation, every_evaluation
from ..run_dir.snapshot import Counters, PolicySnapshot
from .evaluation import (
    AFTERWARDS,
    DURING_TRAINING,
    EXPLORING,
    RECORDING,
    EvaluationSession,
    Watchers,
    copies_of,
    run_episodes,
    summarize,
)
from .model import Model
from .recorder import cut_at, episodes_of, refuse_unsuitable
from .run import Run
from .warm_start import WarmStart, take

EPISODES: Final = 10
"""Default number of episodes of an evaluation."""
logger = logging.getLogger("axonrl")


class _EpisodeChoice(NamedTuple):
    """The episodes to evaluate; ``then`` is the recorded evaluation to repeat, if any."""

    episodes: int
    seed: int | None
    stream: int
    explore: bool
    then: Evaluation | None


class Evaluator:
    """Acts with policy snapshots, greedily unless it is asked to explore.

    Args:
        run: provides the policies.
        model: acts with them.
    """

    def __init__(self, run: Run, model: Model) -> None:
        self._run = run
        self._model = model
        self.live: Callable[[], PolicySnapshot] | None = None
        """The policy in training, while ``run.current`` says that it is the newest."""
        self.warm_start: WarmStart | None = None
        """Source of initial weights."""
        self.training_environment: Any = None
        """The training environment, which evaluations must not touch; None without a session."""
        self.overridden_by: str | None = None
        """The Agent's class, if it overrides ``evaluate``."""

    def policy(self, name: str | int) -> PolicySnapshot:
        """Find a policy: ``"last"`` (in training or on disk), a checkpoint's number, or a kept policy's name.

        Raises:
            ValueError: there is no policy of that name, or no checkpoint of that number.
            CheckpointError: the policy cannot be read.
        """
        if isinstance(name, bool) or not isinstance(name, str | int | np.integer):
            message = f"policy must be 'last', the name of a kept policy, or the number of a checkpoint, got {name!r}"
            raise ArgumentError(message, "policy", name)
        if not isinstance(name, str):
            return self._run.policies.by_number(int(name))
        if name != "last":
            return self._run.policies.by_name(name)
        if self.live is not None and self._run.store.newest() in (None, self._run.current):
            return self.live()
        newest = self._run.policies.newest()
        if newest is not None:
            return newest
        return self._initial

    @functools.cached_property
    def _initial(self) -> PolicySnapshot:
        """The untrained policy. The source of a warm start is read once."""
        weights, statistics = self._model.executor.get_predict_weights(), None
        if self.warm_start is not None:
            acting = self._model.program.predict_variables()
            taken = take(self.warm_start, acting, acting)
            weights, statistics = {**weights, **taken.weights}, taken.statistics
        return PolicySnapshot("initial", weights, statistics, Counters())

    def predict(self, policy: PolicySnapshot, observations: Any) -> dict[str, Array]:
        """PREDICT's predictions [B, ...] for a batch of observations; ``ValueError`` for invalid ones."""
        space = self._run.config.observation_space
        if space is None:
            raise ValueError(f"predict needs a trained run, but {self._run.model_dir} holds none")
        features: Any = observations_in(space).features(observations)[0]
        state = self._model.fresh_state(len(leaves(features)[0]))
        if state is not None:
            features = {"observation": features, "state": state}
        with self._model.acting(policy) as act:
            return act(features)[0]

    def recorded_evaluation(self, policy: str | int) -> Evaluation | None:
        """Return the training's own evaluation of a policy; None if there was none. Errors as for :meth:`policy`."""
        if self._run.record is None:
            return None
        found = self.policy(policy)
        at = found.counters.global_timestep, found.counters.global_step
        rows = [row for row in every_evaluation(self._run.model_dir) if (row.global_timestep, row.global_step) == at]
        # Of several hooks' evaluations, the one that kept the policy; else the last greedy one.
        return max(
            reversed(rows),
            key=lambda row: (row.results.items() <= found.info.items(), not row.explore),
            default=None,
        )

    def evaluate(
        self, policy: str | int, env: Any, episodes: int | str | None, seed: int | None, explore: bool, hooks: Hooks
    ) -> dict[str, float]:
        """Run episodes with hooks; see ``Agent.evaluate``."""
        self.refuse_training_environment(env)
        run, model = self._run, self._model
        asked = self._choose_episodes(policy, episodes, seed, explore)
        with contextlib.ExitStack() as closing:
            opened = _open_env(env, asked.then, closing)
            snapshot, statistics = self._policy_for(opened, policy)
            if run.record is None:
                logger.warning("no training in %s: evaluating its initial weights", run.model_dir)
            watching = Hooks(hooks, last=model.program.predict.evaluation_hooks)
            _refuse_writers(watching)
            watching.load_state_dict({})  # fresh, also if they have watched something before
            session = EvaluationSession(run.model_dir, run.config, lambda: model.predict_weights(snapshot))
            for prepare in watching.prepare:
                prepare(session)
            closing.enter_context(frozen(opened.env, statistics, evaluating=True))
            with session.watched(watching, opened.num_envs, asked.episodes) as watch:
                how: dict[str, Any] = {"stream": asked.stream, "explore": asked.explore, "watch": watch}
                stats = self.episodes(snapshot, opened, asked.episodes, asked.seed, **how)
        if not stats:
            raise ValueError("a hook stopped the evaluation before the first episode finished")
        results = summarize(stats)
        if asked.then is not None and len(stats) == asked.episodes:
            _compare(results, asked.then)
        return results

    def _choose_episodes(
        self, policy: str | int, episodes: int | str | None, seed: int | None, explore: bool
    ) -> _EpisodeChoice:
        """Choose the episodes: the caller's, or those of the training's own evaluation."""
        by_number = not isinstance(policy, str) and episodes is None and seed is None
        then = self.recorded_evaluation(policy) if by_number or episodes == REPEAT else None
        if episodes == REPEAT and (then is None or seed is not None):
            if then is None:
                message = (
                    f"the training in {self._run.model_dir} did not evaluate the policy {policy!r}: give a number of"
                    " episodes"
                )
                raise ArgumentError(message, "episodes", episodes)
            raise ArgumentError(f"episodes={REPEAT!r} reuses the recorded seed; leave out seed={seed!r}", "seed", seed)
        if then is not None:
            return _EpisodeChoice(then.episodes, then.seed, DURING_TRAINING, bool(then.explore), then)
        number = EPISODES if episodes is None else count("episodes", episodes)
        return _EpisodeChoice(number, seed, AFTERWARDS, explore, None)

    def _policy_for(self, opened: BatchedEnvironment, policy: str | int) -> tuple[PolicySnapshot, State]:
        """A policy, and the statistics of normalising wrappers from its training.

        Before any training, the statistics are those of a warm start, if they fit, or the environment's own.

        Raises:
            ValueError: there is no such policy, or the environment normalises differently from the training's, or has
                other spaces.
        """
        untrained = self._run.record is None
        if untrained:
            self.take_spaces(opened)  # needed to trace the model
        snapshot = self.policy(policy)
        statistics = snapshot.statistics
        if untrained and statistics is not None:
            statistics = taken_over(opened.env, statistics)
        statistics = statistics_of(opened.env) if statistics is None else statistics
        refuse_others(
            opened.env, statistics, evaluating=True
        )  # this error is more specific than one about different spaces
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
        explore: bool = False,
    ) -> list[EpisodeStats]:
        """Run episodes; ``stream`` separates evaluations for different purposes.

        With ``explore``, actions are those of the behaviour policy at the policy's timestep, drawn with a separate
        generator.
        """
        seeds = [self._seed_of(seed, stream, k) for k in range(episodes)]
        rng = np.random.default_rng(self._seed_of(seed, EXPLORING, stream))
        with self._behaviour(policy, env.num_envs, rng, explore=explore) as behaviour:
            return run_episodes(behaviour, env, seeds, policy.counters.global_timestep, watch)

    def record(
        self, policy: str | int, env: Any, episodes: int | None, timesteps: int | None, epsilon: float, seed: int | None
    ) -> list[Episode]:
        """Collect episodes for a file; see ``Estimator.record``."""
        self.refuse_training_environment(env)
        opened = open_environment(env)
        try:
            refuse_unsuitable(opened, env)
            snapshot, _ = self._policy_for(opened, policy)
            if self._run.record is None:
                logger.warning("no training in %s: acting with its initial weights", self._run.model_dir)
            with self._behaviour(snapshot, 1, np.random.default_rng(0)) as behaviour:
                played = episodes_of(behaviour, opened, functools.partial(self._seed_of, seed, RECORDING), epsilon)
                return list(itertools.islice(played, episodes) if timesteps is None else cut_at(played, timesteps))
        finally:
            opened.close()

    @contextlib.contextmanager
    def _behaviour(
        self, policy: PolicySnapshot, lanes: int, rng: np.random.Generator, *, explore: bool = False
    ) -> Iterator[Behaviour]:
        """A policy acting in some lanes: greedily, or as in training."""
        predict = self._model.program.predict
        mode = PredictMode(outputs=predict.outputs, state=predict.state)
        if explore:
            exploration = self._model.exploration_alone()
            self._model.tell_progress(exploration, policy.counters)
            mode = dataclasses.replace(mode, exploration=exploration, noise=predict.noise)
        with self._model.acting(policy, resting=not mode.noise) as act:
            executor: Any = types.SimpleNamespace(act=act)
            yield Behaviour(mode, executor, lanes, rng)

    def _seed_of(self, seed: int | None, stream: int, episode: int) -> int:
        return evaluation_seed(self.entropy(seed), stream, episode)

    def entropy(self, seed: int | None) -> int:
        """Entropy for the seeds of episodes: the given seed, or the run's."""
        return self._run.seed if seed is None else integer("seed", seed, at_least=0)

    def take_spaces(self, env: Any) -> None:
        """Use the spaces of an environment; ``ValueError`` if they differ from the run's."""
        self._run.take_spaces(env.observation_space, env.action_space)

    def refuse_training_environment(self, env: Any) -> None:
        """Raise ``ValueError`` if ``env`` is in training: an evaluation must not disturb it."""
        training = self.training_environment
        if training is not None and innermost(env) & innermost(training):
            raise ValueError("evaluate was given the training environment: pass a separate one")


def _open_env(env: Any, then: Evaluation | None, closing: contextlib.ExitStack) -> BatchedEnvironment:
    """Open ``env``; to repeat an evaluation in copies of the training's environment, open the same number of copies."""
    if then is not None and then.environment is None:
        try:
            env = copies_of(env, then.num_envs or 1)
        except ArgumentError as error:
            message = (
                f"the training evaluated in {then.num_envs} copies of its environment. {error}. Give a number of"
                " episodes to evaluate in this one"
            )
            raise ArgumentError(message, "env", env) from error
        closing.callback(env.close)
    opened = open_environment(env)
    closing.callback(opened.close)
    return opened


def _refuse_writers(hooks: Hooks) -> None:
    """Refuse hooks that would replace the training's files with those of the evaluation."""
    for hook in hooks:
        if isinstance(hook, FinalValuesHook | HistoryHook | SummaryHook):
            message = (
                f"{type(hook).__name__} writes the files of a training, and evaluate would replace them: leave it out;"
                " a function, hooks=f, is called with the session and each episode"
            )
            raise ArgumentError(message, "hooks", hook)


def _compare(results: Mapping[str, float], then: Evaluation) -> None:
    """Log whether a repeated evaluation reproduces the recorded numbers."""
    if results == then.results:
        logger.info("The results equal those recorded in training at timestep %d.", then.global_timestep)
        return
    logger.warning(
        "training recorded a mean return of %r at timestep %d, but this evaluation has %r: the environment, the"
        " machine, the versions, the weights or the run's limits, which an exploration may follow, have changed",
        then.episode_return_mean,
        then.global_timestep,
        results["episode_return_mean"],
    )


def observations_in(space: gymnasium.Space[Any], normalization: Mapping[str, Any] | None = None) -> ObservationsIn:
    """Converter of a space's observations; ``normalization`` as in ``policy.json``."""
    parts = [Part(leaf.name, leaf.spec, *(spaces.limits(leaf.space) or ())) for leaf in spaces.leaves(space)]
    return ObservationsIn(parts, isinstance(space, Dict | Tuple), normalization_from(normalization))
