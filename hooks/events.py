"""Arguments of hooks: frozen facts of each event, and the session of a training or an evaluation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from ..core.protocols import Array, ArrayTree, RunConfig


@dataclasses.dataclass(frozen=True)
class BeginFacts:
    """A run begins.

    ``limits`` holds the totals at which it ends (``steps``, ``episodes``, ``timesteps``). ``settings`` are for tables
    of runs: numbers, booleans and text named ``environment``, ``model_fn``, ``seed``, ``num_envs``, ``memory.kind``,
    ``memory.size`` and so on, and ``params.<name>`` for each given param.
    """

    num_envs: int
    resumed: bool
    limits: Mapping[str, int]
    settings: Mapping[str, bool | float | str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class EpisodeFacts:
    """An episode begins in environment ``environment``; ``episode`` is its index there."""

    environment: int
    episode: int
    seed: int


class TimestepFacts(NamedTuple):
    """One (vector) step was taken; every array is [N, ...]. Read-only.

    ``action`` is an array, or for Dict and Tuple spaces a flat dictionary of arrays. ``acted`` bool [N] is False for
    rows that are not transitions: they were reset, or their agent is absent. None: all acted.
    """

    observation: ArrayTree
    action: Any
    reward: Array
    terminated: Array
    truncated: Array
    next_observation: ArrayTree
    acted: Array | None = None


class UpdateFacts(NamedTuple):
    """One update was run. ``metrics`` are the spec's metrics, as floats."""

    loss: float
    metrics: Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class EpisodeStats:
    """A finished episode.

    ``episode_return`` is the undiscounted sum of rewards, ``length`` its number of timesteps, ``loss`` the mean over
    the updates during the episode (NaN without any), ``exploration`` the level of exploration at its end (NaN if there
    is none), ``seconds`` its wall time.
    """

    episode_return: float
    length: int
    terminated: bool
    truncated: bool
    loss: float
    exploration: float
    seconds: float
    environment: int = 0
    episode: int = 0
    """Index of the episode in this environment, from 0."""


@dataclasses.dataclass(frozen=True)
class EvaluationFacts:
    """An evaluation was run in the session (``session.evaluate``).

    ``seed`` determines the seeds of its episodes, ``num_envs`` is the number of environments stepped together,
    ``explore`` says whether the behaviour policy acted, and ``environment`` is the id of the environment, ``"given"``
    for an object passed to a hook, or None for copies of the training environment.
    """

    results: Mapping[str, float]
    episode_returns: tuple[float, ...]
    seed: int | None = None
    num_envs: int | None = None
    explore: bool = False
    environment: str | None = None


@dataclasses.dataclass(frozen=True)
class VideoFacts:
    """A video was recorded in the session (``session.record_video``).

    ``path`` is the file, ``stats`` the episode, ``preview`` a small animated GIF of some frames.
    """

    path: Path
    stats: EpisodeStats
    preview: bytes


@dataclasses.dataclass(frozen=True)
class EndFacts:
    """The run ends.

    ``reason`` says why in words, ``error`` is the exception that ended it, if any, and ``stopped`` tells whether it was
    asked to stop (``request_stop``) rather than reached a limit.
    """

    reason: str
    error: BaseException | None
    seconds: float
    stopped: bool = False


@dataclasses.dataclass
class Timings:
    """Seconds that this session spent in each part of the loop."""

    environment: float = 0.0
    acting: float = 0.0
    learning: float = 0.0
    distributed: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Latest measurements of a cluster, by name."""


class Session(Protocol):
    """Interface for hooks of trainings and evaluations."""

    @property
    def activity(self) -> str:
        """``"training"`` or ``"evaluation"``."""

    @property
    def global_step(self) -> int:
        """Updates run so far."""

    @property
    def global_timestep(self) -> int:
        """Actions taken so far, one per environment per step."""

    @property
    def global_episode(self) -> int:
        """Episodes finished so far."""

    @property
    def position(self) -> int:
        """``global_timestep``, plus updates without timesteps (``Agent.learn``): the horizontal axis of curves."""

    @property
    def timings(self) -> Timings:
        """Time spent in this session."""

    @property
    def model_dir(self) -> Path:
        """The run's directory."""

    @property
    def config(self) -> RunConfig:
        """The run's configuration, with its seed and spaces."""

    @property
    def exploration(self) -> float:
        """The behaviour policy's current level (epsilon, standard deviation); NaN if it has none."""

    @property
    def stop_reason(self) -> str | None:
        """Why the run will stop, or None."""

    def weights(self) -> Mapping[str, Array]:
        """Every variable by name, copied: network, target network, optimizer."""

    def request_stop(self, reason: str) -> None:
        """Stop after this timestep. The first reason is kept."""


class TrainingSession(Session, Protocol):
    """Interface for hooks of trainings, in addition to :class:`Session`."""

    @property
    def num_envs(self) -> int:
        """Number of environments, or of lanes if the caller owns the loop."""

    def set_difficulty(self, environment: int, level: Any) -> None:
        """Call ``env.unwrapped.set_difficulty(level)`` of one environment, before an episode begins in it."""

    def save_checkpoint(self) -> None:
        """Write a checkpoint: at once between timesteps; within an event, at the end of the timestep."""

    def prepare_evaluation(self, env: Any = None, episodes: int = 10, eval_batches: int = 0) -> None:
        """Open the environments for ``evaluate``, and trace EVAL, so that errors show at once."""

    def evaluate(
        self,
        env: Any = None,
        episodes: int = 10,
        seed: int | None = None,
        eval_batches: int = 0,
        explore: bool = False,
    ) -> Mapping[str, float]:
        """Run episodes in separate environments, and EVAL on batches of the memory; training is unaffected."""

    def prepare_video(self, env: Any = None) -> None:
        """Open the environment for ``record_video``, so that errors show at once."""

    def record_video(self, path: Path, env: Any = None) -> EpisodeStats:
        """Record a greedy episode in a separate environment as an mp4; training is unaffected."""

    def prepare_policy(self, name: str) -> None:
        """Reserve the name of a policy for this hook; ``ValueError`` if another hook uses it."""

    def save_policy(self, name: str, info: Mapping[str, Any]) -> Path:
        """Write the policy to ``<model_dir>/<name>.safetensors``, atomically, with ``info`` and the counters inside."""


HOOK_EVENTS: Final = (
    "begin",
    "before_episode",
    "after_timestep",
    "after_update",
    "after_episode",
    "after_evaluation",
    "after_video",
    "end",
)
"""The events of a hook, each ``event(session, facts)``; a hook may define any subset."""
