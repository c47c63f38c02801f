"""Evaluations and videos that hooks ask for while a run trains; they leave the training as it is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.checks import count
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
    """Evaluates the policy in training, in environments of its own: opened when first asked for, closed together.

    Args:
        evaluator: runs greedy episodes.
        state: what is trained.
        source: the training's environment, of which copies are made; None where there is none.
        eval_mode: the EVAL of the ``model_fn``, traced when it is first asked for.
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
        """Open the environments, and trace EVAL: what is wrong with them is refused now."""
        self._environment(env, episodes)
        if eval_batches:
            self._eval_mode()

    def evaluate(self, env: Any, episodes: int, seed: int | None, eval_batches: int) -> EvaluationFacts:
        """The results, the return of each episode, and how they can be had again."""
        opened = self._environment(env, episodes)
        stats = self._episodes(opened, episodes, seed)
        results = summarize(stats)
        if eval_batches:
            results.update(self._eval_mode()(self._state, count("eval_batches", eval_batches)))
        return EvaluationFacts(
            results,
            tuple(one.episode_return for one in stats),
            seed=self._evaluator.entropy(seed),
            num_envs=opened.num_envs,
            environment=env if env is None or isinstance(env, str) else GIVEN,
        )

    def prepare_video(self, env: Any) -> None:
        """Open the environment: what is wrong with it is refused now."""
        self._video_environment(env)

    def record_video(self, path: Path, env: Any) -> VideoFacts:
        """The first of the evaluations' episodes, as an mp4."""
        with recorded(self._video_environment(env), path) as recording:
            [stats] = self._episodes(recording.env, 1, None)
        return VideoFacts(path, stats, preview(recording.frames, recording.frames_per_sec))

    def _episodes(self, opened: BatchedEnvironment, episodes: int, seed: int | None) -> list[EpisodeStats]:
        policy = self._state.snapshot()
        with frozen(opened.env, self._statistics(), evaluating=True):
            return self._evaluator.episodes(policy, opened, episodes, seed, stream=DURING_TRAINING, watch=Watchers())

    def _statistics(self) -> State:
        return self._state.current_statistics() or {}

    def _environment(self, env: Any, episodes: int) -> BatchedEnvironment:
        """``env`` behind the batched interface; for None as many copies of the training's as are of use."""
        self._refuse(env)
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
        """``env``, or for None one like the training's, that has shown to render images."""
        self._refuse(env)
        key = env if env is None or isinstance(env, str) else id(env)
        if key not in self._rendering:
            source = self._needed_source() if env is None else self._source
            self._rendering[key] = rendering(env, source, self._closing)
        opened = self._rendering[key]
        self._check(opened, opened)
        return opened

    def _check(self, env: Any, spaces: Any) -> None:
        """Refuse an environment that does not normalise as the training's does, or has other spaces."""
        refuse_others(env, self._statistics(), evaluating=True)
        self._evaluator.take_spaces(spaces)

    def _refuse(self, env: Any) -> None:
        if self._is_over:
            raise ValueError("this session is over: it evaluates and records no more")
        self._evaluator.refuse_training_environment(env)

    def _needed_source(self) -> Any:
        if self._source is None:
            raise ValueError("no environment is trained in that could be copied: pass env= to the hook")
        return self._source
