"""Greedy episodes, counted one by one, in one environment or several at once."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ..contracts import Array, BeginFacts, EndFacts, EpisodeFacts, EpisodeStats, RunConfig, Timings
from ..environments.batched import BatchedEnvironment
from ..hooks.hook import Hooks
from .state import zero_rows

Act = Callable[[Any, "dict[str, Array] | None"], "tuple[dict[str, Array], dict[str, Array] | None]"]
"""Observations and recurrent state [N, ...] to predictions and the next recurrent state."""


@dataclasses.dataclass(frozen=True)
class Watchers:
    """Whom to tell of each episode."""

    before: Callable[[EpisodeFacts], None] = lambda facts: None
    after: Callable[[EpisodeStats], None] = lambda stats: None
    stopped: Callable[[], bool] = lambda: False


def run_episodes(
    act: Act, env: BatchedEnvironment, seeds: Sequence[int], fresh_state: Any, watch: Watchers
) -> list[EpisodeStats]:
    """Run one greedy episode per seed and return their statistics in the order of the seeds.

    Episodes are given to environments as these become free, and every one is run to its end: keeping those that end
    first would favour short episodes. An environment that is left over plays on without being counted.

    Args:
        act: the greedy actor.
        env: the environments.
        seeds: one per episode.
        fresh_state: zeros [N, ...] for each recurrent state, or None.
        watch: whom to tell.
    """
    n = env.num_envs
    stats: dict[int, EpisodeStats] = {}
    episode = list(range(n))  # the episode that each environment plays; len(seeds) and above do not count
    following = n
    current = [seeds[i % len(seeds)] for i in range(n)]
    returns, lengths, started = np.zeros(n), np.zeros(n, np.int64), [time.perf_counter()] * n
    state = fresh_state
    observation = env.reset(None, current)
    for i in range(min(n, len(seeds))):
        watch.before(EpisodeFacts(i, i, current[i]))
    while len(stats) < len(seeds) and not watch.stopped():
        predictions, state = act(observation, state)
        step = env.step(predictions["action"])
        observation = step.observation
        returns += step.reward
        lengths += 1 if step.acted is None else step.acted
        ended = step.terminated | step.truncated
        if not ended.any():
            continue
        for i in np.flatnonzero(ended).tolist():
            if episode[i] < len(seeds):
                terminated, truncated = bool(step.terminated[i]), bool(step.truncated[i])
                seconds, nan = time.perf_counter() - started[i], float("nan")
                stats[episode[i]] = EpisodeStats(
                    float(returns[i]), int(lengths[i]), terminated, truncated, nan, nan, seconds, i, episode[i]
                )
                watch.after(stats[episode[i]])
            episode[i], following = following, following + 1
            current[i] = seeds[episode[i] % len(seeds)]
            returns[i], lengths[i], started[i] = 0.0, 0, time.perf_counter()
            if episode[i] < len(seeds):
                watch.before(EpisodeFacts(i, episode[i], current[i]))
        if len(stats) < len(seeds):
            observation = env.reset(ended, current)
            if state is not None:
                state = {k: zero_rows(v, ended) for k, v in state.items()}
    return [stats[k] for k in sorted(stats)]


def summarize(stats: Sequence[EpisodeStats]) -> dict[str, float]:
    """Mean and standard deviation (of the episodes, not of the mean) of the returns, and lengths."""
    returns = np.array([s.episode_return for s in stats])
    return {
        "episode_return_mean": float(returns.mean()),
        "episode_return_std": float(returns.std()),
        "episode_return_min": float(returns.min()),
        "episode_return_max": float(returns.max()),
        "episode_length_mean": float(np.mean([s.length for s in stats])),
        "episodes": len(stats),
    }


class EvaluationSession:
    """What hooks see of ``evaluate``: counters of the evaluation itself, and a way to stop it.

    Args:
        model_dir: the run's directory.
        config: the run's configuration.
        weights: gives every variable by name.
    """

    def __init__(self, model_dir: Path, config: RunConfig, weights: Callable[[], Mapping[str, Array]]) -> None:
        self.model_dir = model_dir
        self.config = config
        self.weights = weights
        self.timings = Timings()
        self.exploration = float("nan")
        self.global_step = 0
        self.global_timestep = 0
        self.global_episode = 0
        self.stop_reason: str | None = None

    def request_stop(self, reason: str) -> None:
        """Stop after this timestep; episodes that have not finished do not count."""
        self.stop_reason = self.stop_reason or reason

    def save_checkpoint(self) -> NoReturn:
        """Nothing to save."""
        raise ValueError("a hook asked for a checkpoint during evaluate, which does not train")

    def evaluate(self, env: Any = None, episodes: int = 10, seed: int | None = None) -> NoReturn:
        """Not within an evaluation."""
        raise ValueError("a hook asked for an evaluation during evaluate")

    def save_policy(self, name: str, info: Mapping[str, Any]) -> NoReturn:
        """Nothing to save."""
        raise ValueError("a hook asked to save a policy during evaluate, which does not train")

    @contextlib.contextmanager
    def watched(self, hooks: Hooks, num_envs: int, episodes: int) -> Iterator[Watchers]:
        """``begin``, then what the episodes report, then ``end`` in any case."""
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
            reason = self.stop_reason or f"{self.global_episode} episodes evaluated"
            hooks.end(self, EndFacts(reason, error, time.perf_counter() - began))
