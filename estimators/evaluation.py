"""Episodes of a policy in one or several environments, without learning."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from ..core.checks import counted
from ..core.protocols import Array, RunConfig
from ..environments.batched import AnyVectorEnv, BatchedEnvironment, Step
from ..environments.ids import similar
from ..environments.several_agents import worlds_in, worlds_like
from ..hooks.events import BeginFacts, EndFacts, EpisodeFacts, EpisodeStats, Timings, TrainingSession
from ..hooks.hook import Hooks
from ..policies.behaviour import Behaviour
from .failures import FAILURES, with_place

AFTERWARDS, DURING_TRAINING, RECORDING, EXPLORING = 0, 1, 3, 4
"""Streams of :func:`~axonrl.run_dir.generators.evaluation_seed`: a policy selected on some episodes is tested on
others."""
COPIES = 8
"""Maximum number of environments stepped together by an evaluation during training."""


def copies_of(source: Any, number: int) -> AnyVectorEnv:
    """Make this many environments like ``source`` for evaluation; the caller closes them.

    With several agents in a world, as many worlds as are needed for this number of agents.

    Raises:
        ArgumentError: it cannot be copied.
    """
    if (worlds := worlds_in(source)) is not None:
        return worlds_like(source, math.ceil(number / worlds.num_agents))
    return SyncVectorEnv([functools.partial(similar, source)] * number, autoreset_mode=AutoresetMode.DISABLED)


@dataclasses.dataclass(frozen=True)
class Watchers:
    """Callbacks for each episode."""

    before: Callable[[EpisodeFacts], None] = lambda facts: None
    after: Callable[[EpisodeStats], None] = lambda stats: None
    stopped: Callable[[], bool] = lambda: False


def run_episodes(
    behaviour: Behaviour, env: BatchedEnvironment, seeds: Sequence[int], timestep: int, watch: Watchers
) -> list[EpisodeStats]:
    """Run one episode per seed; return their statistics in the order of the seeds.

    Episodes are assigned to environments as these become free, and each runs to its end: counting those that end first
    would favour short ones. A surplus environment keeps running, but its episodes do not count.

    Args:
        behaviour: the policy, with a lane for each environment.
        env: the environments.
        seeds: one per episode.
        timestep: the timestep for the behaviour's schedules, in all episodes.
        watch: the callbacks.

    Raises:
        BrokenEnvironmentError: an environment failed; the message has its index, seed, episode and timestep.
        NonFiniteError: a reward, an observation or an action is NaN or infinite; the message has the same.
    """
    played = _Played(env.num_envs, seeds, watch)
    free = np.ones(env.num_envs, np.bool_)
    try:
        observation = env.reset(None, played.seeds_for(free))
        behaviour.begin(free)
        free = played.begin(free, env.waiting)
        while len(played.stats) < len(seeds) and not watch.stopped():
            step = env.step(behaviour.act(observation, timestep)[0])
            observation = step.observation
            free |= played.add(step)
            fresh = free if step.acted is None else free | ~step.acted
            if fresh.any():
                behaviour.begin(fresh)
            begins = free if env.waiting is None else free & ~env.waiting
            if begins.any() and len(played.stats) < len(seeds):
                observation = env.reset(begins, played.seeds_for(begins))
                free = free & ~begins | played.begin(begins, env.waiting)
    except FAILURES as error:
        where = f"{counted(len(played.stats), 'episode')} evaluated"
        raise with_place(error, played.seeds, played.episodes, played.lengths, where) from error
    return [played.stats[k] for k in sorted(played.stats)]


class _Played:
    """The current episode of each environment and its progress; episodes beyond the last seed do not count."""

    def __init__(self, num_envs: int, seeds: Sequence[int], watch: Watchers) -> None:
        self.stats: dict[int, EpisodeStats] = {}
        self.seeds = [0] * num_envs
        self.episodes = [0] * num_envs
        self.lengths = np.zeros(num_envs, np.int64)
        self._returns = np.zeros(num_envs)
        self._started = [0.0] * num_envs
        self._all_seeds = seeds
        self._next = 0
        self._watch = watch

    def seeds_for(self, mask: Array) -> Sequence[int]:
        """Seeds [N] to reset with: those of the next episodes where ``mask`` [N]."""
        for episode, i in enumerate(np.flatnonzero(mask).tolist(), self._next):
            self.seeds[i] = self._all_seeds[episode % len(self._all_seeds)]
        return self.seeds

    def begin(self, mask: Array, waiting: Array | None) -> Array:
        """Begin the next episodes where ``mask`` [N], but not in lanes that wait for an agent; returns those [N]."""
        for i in np.flatnonzero(mask if waiting is None else mask & ~waiting).tolist():
            self.episodes[i] = episode = self._next
            self._next += 1
            self._returns[i], self.lengths[i], self._started[i] = 0.0, 0, time.perf_counter()
            if episode < len(self._all_seeds):
                self._watch.before(EpisodeFacts(i, episode, self.seeds[i]))
        return np.zeros_like(mask) if waiting is None else mask & waiting

    def add(self, step: Step) -> Array:
        """Add one step of every environment; returns where episodes ended [N]."""
        acted = 1 if step.acted is None else step.acted
        self._returns += step.reward * acted
        self.lengths += acted
        ended: Array = step.terminated | step.truncated
        for i in np.flatnonzero(ended).tolist():
            if self.episodes[i] < len(self._all_seeds):
                stats = EpisodeStats(
                    episode_return=float(self._returns[i]),
                    length=int(self.lengths[i]),
                    terminated=bool(step.terminated[i]),
                    truncated=bool(step.truncated[i]),
                    loss=math.nan,
                    exploration=math.nan,
                    seconds=time.perf_counter() - self._started[i],
                    environment=i,
                    episode=self.episodes[i],
                )
                self.stats[self.episodes[i]] = stats
                self._watch.after(stats)
        return ended


def summarize(stats: Sequence[EpisodeStats]) -> dict[str, float]:
    """Mean, standard deviation (over episodes, not of the mean) and range of the returns, and mean length."""
    return summary_of(np.array([s.episode_return for s in stats]), [s.length for s in stats])


def summary_of(returns: Array, lengths: Sequence[int]) -> dict[str, float]:
    """Summarize returns and lengths of episodes, as :func:`summarize` does."""
    return {
        "episode_return_mean": float(returns.mean()),
        "episode_return_std": float(returns.std()),
        "episode_return_min": float(returns.min()),
        "episode_return_max": float(returns.max()),
        "episode_length_mean": float(np.mean(lengths)),
        "episodes": len(returns),
    }


class EvaluationSession:
    """The session that hooks see during ``evaluate``: its own counters, and a way to stop it.

    Args:
        model_dir: the run's directory.
        config: the run's configuration.
        weights: returns the policy's variables by name.
    """

    activity = "evaluation"

    def __init__(self, model_dir: Path, config: RunConfig, weights: Callable[[], Mapping[str, Array]]) -> None:
        self.model_dir = model_dir
        self.config = config
        self.weights = weights
        self.timings = Timings()
        self.exploration = math.nan
        self.global_step = 0
        self.global_timestep = 0
        self.global_episode = 0
        self.stop_reason: str | None = None

    @property
    def position(self) -> int:
        """``global_timestep``."""
        return self.global_timestep

    def request_stop(self, reason: str) -> None:
        """Stop after this timestep; unfinished episodes do not count."""
        self.stop_reason = self.stop_reason or reason

    def __getattr__(self, name: str) -> NoReturn:
        if name in vars(TrainingSession):
            raise ValueError(f"a hook asked for session.{name} during evaluate, which does not train")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @contextlib.contextmanager
    def watched(self, hooks: Hooks, num_envs: int, episodes: int) -> Iterator[Watchers]:
        """Call ``begin``, report episodes, and always call ``end``."""
        began = time.perf_counter()
        error: BaseException | None = None

        def before(facts: EpisodeFacts) -> None:
            for call in hooks.before_episode:
                call(self, facts)

        def after(stats: EpisodeStats) -> None:
            self.global_episode += 1
            self.global_timestep += stats.length
            for call in hooks.after_episode:
                call(self, stats)

        try:
            for call in hooks.begin:
                call(self, BeginFacts(num_envs, False, {"episodes": episodes}))
            yield Watchers(before, after, lambda: self.stop_reason is not None)
        except BaseException as caught:
            error = caught
            raise
        finally:
            done = self.stop_reason or f"{counted(self.global_episode, 'episode')} evaluated"
            reason = done if error is None else f"{type(error).__name__}: {error}"
            hooks.end(self, EndFacts(reason, error, time.perf_counter() - began, self.stop_reason is not None))
