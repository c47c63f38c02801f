"""A session and a clock that tests of hooks set by hand, and that record what hooks ask of them."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl.core.protocols import RunConfig
from axonrl.hooks.events import EpisodeStats, EvaluationFacts, Timings


class FakeSession:
    activity = "training"

    def __init__(self, model_dir: Path) -> None:
        self.model_dir = model_dir
        self.config = RunConfig(seed=0)
        self.global_step = 0
        self.global_timestep = 0
        self.global_episode = 0
        self.offline_steps = 0
        self.timings = Timings()
        self.exploration = math.nan
        self.stop_reason: str | None = None
        self.calls: list[Any] = []
        self.evaluations: list[float] = []
        """The mean returns that the next evaluations yield."""
        self.listeners: Any = ()
        """The methods to call after an evaluation, as the session does."""
        self.variables: dict[str, Any] = {}

    @property
    def position(self) -> int:
        return self.global_timestep + self.offline_steps

    def weights(self) -> Mapping[str, Any]:
        return dict(self.variables)

    def request_stop(self, reason: str) -> None:
        self.stop_reason = self.stop_reason or reason

    def save_checkpoint(self) -> None:
        self.calls.append(("save_checkpoint", self.global_step, self.global_episode))

    def prepare_evaluation(self, env: Any = None, episodes: int = 10, eval_batches: int = 0) -> None:
        self.prepared: tuple[Any, ...] = (env, episodes, eval_batches) if eval_batches else (env, episodes)

    def evaluate(
        self, env: Any = None, episodes: int = 10, seed: int | None = None, eval_batches: int = 0
    ) -> Mapping[str, float]:
        asked = (env, episodes, eval_batches) if eval_batches else (env, episodes)
        self.calls.append(("evaluate", self.global_timestep, *asked))
        mean = self.evaluations.pop(0)
        results = {"episode_return_mean": mean, "episodes": float(episodes)}
        if eval_batches:
            results |= {"eval_loss": mean / 2, "eval/entropy": 0.25}
        for call in self.listeners:
            call(self, EvaluationFacts(results, (mean,) * episodes))
        return results

    def prepare_video(self, env: Any = None) -> None:
        self.prepared = (env,)

    def record_video(self, path: Path, env: Any = None) -> EpisodeStats:
        self.calls.append(("record_video", path, env))
        return EpisodeStats(7.0, 3, True, False, math.nan, math.nan, 0.1)

    def prepare_policy(self, name: str) -> None:
        self.reserved = name

    def save_policy(self, name: str, info: Mapping[str, Any]) -> Path:
        self.calls.append(("save_policy", name, dict(info), self.global_timestep))
        path = self.model_dir / f"{name}.safetensors"
        path.write_bytes(b"weights")
        return path

    def episode(self, episode_return: float = 0.0, **others: Any) -> EpisodeStats:
        self.global_episode += 1
        values = {"length": 10, "terminated": True, "truncated": False, "loss": math.nan, "exploration": math.nan}
        return EpisodeStats(**{"episode_return": episode_return, "seconds": 0.1, **values, **others})


class FakeClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def session(tmp_path: Path) -> FakeSession:
    session = FakeSession(tmp_path)
    session.variables = {"dense/kernel": np.array([[3.0, 0.0], [0.0, 4.0]], np.float32), "count": np.array(7)}
    return session


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()
