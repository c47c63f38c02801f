"""Evaluations and videos for hooks during training, without influence on it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.checks import count
from ..core.errors import ArgumentError
from ..core.protocols import State
from ..environments.batched import AnyEnv, BatchedEnvironment
from ..environments.ids import open_environment
from ..environments.rendering import preview, recorded, rendering
from ..environments.statistics import frozen, refuse_others
from ..hooks.events import EpisodeStats, EvaluationFacts, VideoFacts
from ..run_dir.history import GIVEN
from .evaluation import COPIES, DURING_TRAINING, Watchers, copies_of, summarize
from .evaluator import Evaluator
from .state import TrainingState

if TYPE_CHECKING:
    from .eval_mode import EvalMode


class LiveEvaluations:
    """Evaluates the policy in training in separate environments, which are opened on first use and closed together.

    Args:
        evaluator: runs greedy episodes.
        state: the training state.
        source: the training environment, which is copied; None if there is none.
        eval_mode: EVAL of the ``model_fn``, traced on first use.
        closing: closes the environments.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        state: TrainingState,
        source: Any,
        eval_mode: Callable[[], EvalMode],
        closing: contextlib.ExitStack,
    ) -> None:
        self._evaluator = evaluator
        self._state = state
        self._source = source
        self._eval_mode = eval_mode
        self._closing = closing
        self._opened: dict[Any, BatchedEnvironment] = {}
        self._rendering: dict[Any, AnyEnv] = {}
        self._is_over = False
        closing.callback(self._end)

    def _end(self) -> None:
        self._is_over = True

    def prepare(self, env: Any, episodes: int, eval_batches: int) -> None:
        """Open the environments and trace EVAL, so that errors show early."""
        self._environment(env, episodes)
        if eval_batches:
            self._eval_mode()

    def evaluate(self, env: Any, episodes: int, seed: int | None, eval_batches: int, explore: bool) -> EvaluationFacts:
        """Evaluate; returns results, the return of each episode, and how to reproduce them."""
        opened = self._environment(env, episodes)
        stats = self._episodes(opened, episodes, seed, explore)
        results = summarize(stats)
        if eval_batches:
            results.update(self._eval_mode()(self._state, count("eval_batches", eval_batches)))
        return EvaluationFacts(
            results,
            tuple(one.episode_return for one in stats),
            seed=self._evaluator.entropy(seed),
            num_envs=opened.num_envs,
            explore=explore,
            environment=env if env is None or isinstance(env, str) else GIVEN,
        )

    def prepare_video(self, env: Any) -> None:
        """Open the environment, so that errors show early."""
        self._video_environment(env)

    def record_video(self, path: Path, env: Any) -> VideoFacts:
        """Record the first episode of the evaluations as an mp4."""
        with recorded(self._video_environment(env), path) as recording:
            [stats] = self._episodes(recording.env, 1, None)
        return VideoFacts(path, stats, preview(recording.frames, recording.frames_per_sec))

    def _episodes(
        self, opened: BatchedEnvironment, episodes: int, seed: int | None, explore: bool = False
    ) -> list[EpisodeStats]:
        policy = self._state.snapshot()
        with frozen(opened.env, self._statistics(), evaluating=True):
            how: dict[str, Any] = {"stream": DURING_TRAINING, "explore": explore, "watch": Watchers()}
            return self._evaluator.episodes(policy, opened, episodes, seed, **how)

    def _statistics(self) -> State:
        return self._state.current_statistics() or {}

    def _environment(self, env: Any, episodes: int) -> BatchedEnvironment:
        """Open the batched interface of ``env``; for None, of copies of the training environment."""
        self._refuse(env)
        if (kind := self._evaluator.overridden_by) is not None:
            message = (
                f"hooks do not call {kind}.evaluate: evaluate in a hook of your own (after_episode, end) through"
                " the Agent, and leave EvaluationHook out"
            )
            raise ArgumentError(message, "hooks", kind)
        copies = min(count("episodes", episodes), COPIES)
        key = ("copies", copies) if env is None else env if isinstance(env, str) else id(env)
        if key not in self._opened:
            if env is None:
                env = copies_of(self._needed_source(), copies)
                self._closing.callback(env.close)
            opened = self._opened[key] = open_environment(env)
            self._closing.callback(opened.close)
        opened = self._opened[key]
        self._check(opened.env, opened)
        return opened

    def _video_environment(self, env: Any) -> AnyEnv:
        """Open ``env``, or for None a copy of the training environment, and check that it renders images."""
        self._refuse(env)
        key = env if env is None or isinstance(env, str) else id(env)
        if key not in self._rendering:
            source = self._needed_source() if env is None else self._source
            self._rendering[key] = rendering(env, source, self._closing)
        opened = self._rendering[key]
        self._check(opened, opened)
        return opened

    def _check(self, env: Any, spaces: Any) -> None:
        """Raise for an environment that normalises differently from training, or has other spaces."""
        refuse_others(env, self._statistics(), evaluating=True)
        self._evaluator.take_spaces(spaces)

    def _refuse(self, env: Any) -> None:
        if self._is_over:
            raise ValueError("this session is closed: it no longer evaluates or records")
        self._evaluator.refuse_training_environment(env)

    def _needed_source(self) -> Any:
        if self._source is None:
            raise ValueError("no training environment to copy: pass env= to the hook")
        return self._source
