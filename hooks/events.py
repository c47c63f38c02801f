"""What hooks are handed: the facts of each event, frozen, and the session of a training or an evaluation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from ..core.protocols import Array, ArrayTree, RunConfig


@dataclasses.dataclass(frozen=True)
class BeginFacts:
    """A run begins.

    ``limits`` holds the totals at which it ends (``steps``, ``episodes``, ``timesteps``). ``settings`` is what tables
    of runs sort by: numbers, booleans and text by the names ``environment``, ``model_fn``, ``seed``, ``num_envs``,
    ``memory.kind``, ``memory.size`` and so on, and ``params.<name>`` for each of the params that the run was given.
    """

    num_envs: int
    resumed: bool
    limits: Mapping[str, int]
    settings: Mapping[str, bool | float | str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class EpisodeFacts:
    """An episode begins in environment ``environment``; ``episode`` is that environment's episode index."""

    environment: int
    episode: int
    seed: int


class TimestepFacts(NamedTuple):
    """One (vector) step was taken; every array is [N, ...]. Not to be changed.

    ``action`` is an array, for a Dict or a Tuple space a flat dictionary of arrays.
    """

    observation: ArrayTree
    action: Any
    reward: Array
    terminated: Array
    truncated: Array
    next_observation: ArrayTree


class UpdateFacts(NamedTuple):
    """One training step was run. ``metrics`` are those of the spec, as floats."""

    loss: float
    metrics: Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class EpisodeStats:
    """A finished episode.

    ``episode_return`` is the undiscounted sum of rewards, ``length`` counts timesteps, ``loss`` is the mean over the
    updates during the episode (NaN if there were none), ``exploration`` the exploration's level at its end (NaN if
    it has none), ``seconds`` the wall time it took.
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
    """This environment's episode index, from 0."""


@dataclasses.dataclass(frozen=True)
class EvaluationFacts:
    """An evaluation was run from within the session (``session.evaluate``).

    ``seed`` is what the seeds of its episodes were made from, ``num_envs`` the number of environments that were stepped
    together, and ``environment`` the id that was evaluated in, ``"given"`` for an object that a hook was given, or None
    for copies of the training's environment.
    """

    results: Mapping[str, float]
    episode_returns: tuple[float, ...]
    seed: int | None = None
    num_envs: int | None = None
    environment: str | None = None


@dataclasses.dataclass(frozen=True)
class VideoFacts:
    """A video was recorded from within the session (``session.record_video``).

    ``path`` is its file, ``stats`` the episode, ``preview`` some of its frames as a small animated GIF.
    """

    path: Path
    stats: EpisodeStats
    preview: bytes


@dataclasses.dataclass(frozen=True)
class EndFacts:
    """The run ends.

    ``reason`` says why in words, ``error`` is the exception that ended it, if one did, and ``stopped`` tells whether it
    was asked to stop (``request_stop``) rather than having reached a limit.
    """

    reason: str
    error: BaseException | None
    seconds: float
    stopped: bool = False


@dataclasses.dataclass
class Timings:
    """Seconds of this session spent in each part of the loop."""

    environment: float = 0.0
    acting: float = 0.0
    learning: float = 0.0
    distributed: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Of a training by several processes: what was measured of them last, by name."""


class Session(Protocol):
    """What a hook may use of any session, of a training and of an evaluation."""

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
        """``global_timestep``, and the updates without timesteps (``Agent.learn``): what curves are drawn over."""

    @property
    def timings(self) -> Timings:
        """Where this session's time went."""

    @property
    def model_dir(self) -> Path:
        """The run's directory."""

    @property
    def config(self) -> RunConfig:
        """The run's configuration, with its seed and spaces."""

    @property
    def exploration(self) -> float:
        """The behaviour policy's level now (epsilon, standard deviation); NaN if it has none."""

    @property
    def stop_reason(self) -> str | None:
        """Why the run is about to stop, or None."""

    def weights(self) -> Mapping[str, Array]:
        """Every variable by name, copied: network, target network, optimizer."""

    def request_stop(self, reason: str) -> None:
        """Stop after this timestep. The first reason given is kept."""


class TrainingSession(Session, Protocol):
    """What a hook may use of a training, beside what every session offers."""

    def save_checkpoint(self) -> None:
        """Write a checkpoint: at once between timesteps, from within an event at the end of the timestep."""

    def prepare_evaluation(self, env: Any = None, episodes: int = 10, eval_batches: int = 0) -> None:
        """Open the environments that ``evaluate`` will use, and trace EVAL, so that what is wrong shows at once."""

    def evaluate(
        self, env: Any = None, episodes: int = 10, seed: int | None = None, eval_batches: int = 0
    ) -> Mapping[str, float]:
        """Greedy episodes in an environment of their own, and EVAL on batches of the memory; disturbs nothing."""

    def prepare_video(self, env: Any = None) -> None:
        """Open the environment that ``record_video`` will use, so that what is wrong with it shows at once."""

    def record_video(self, path: Path, env: Any = None) -> EpisodeStats:
        """A greedy episode in an environment of its own, as an mp4; no evaluation, and training is not disturbed."""

    def prepare_policy(self, name: str) -> None:
        """Reserve the name of a policy that a hook will save; ``ValueError`` if another hook has it."""

    def save_policy(self, name: str, info: Mapping[str, Any]) -> Path:
        """Write the policy as ``<model_dir>/<name>.safetensors``, atomically, with ``info`` and the counters inside."""


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
