"""One call of a worker: its settings, its progress, the updates due, and its result."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ..spaces import IntBox, Space

_SHORTEST: Final = 1e-10
"""Seconds used instead of 0 in rates."""


class Episode(NamedTuple):
    """A finished episode: the arguments of ``episode_finish_callback``."""

    reward: float
    duration: float
    timesteps: int
    env_num: int


@dataclasses.dataclass
class Run:
    """Settings and progress of a call."""

    goal: int
    by_episodes: bool
    longest: int
    use_exploration: bool
    frameskip: int
    update: Mapping[str, Any]
    timesteps: int = 0
    frames: int = 0
    episodes: list[Episode] = dataclasses.field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Has the call reached its limit?"""
        return (len(self.episodes) if self.by_episodes else self.timesteps) >= self.goal


def due(before: int, now: int, update: Mapping[str, Any], observe: Mapping[str, Any]) -> int:
    """Number of updates due after timesteps ``before + 1 .. now`` (episodes with ``update_mode`` ``episodes``).

    ``update_steps`` updates for each multiple of ``update_interval`` among them that is above ``steps_before_update``
    and, with buffers, at least ``buffer_size``.
    """
    filled = observe["buffer_size"] - 1 if observe["buffer_enabled"] else 0
    first, every = int(max(before, update["steps_before_update"], filled)), int(update["update_interval"])
    if not update["do_updates"] or now <= first:
        return 0
    return (now // every - first // every) * int(update["update_steps"])


def summary(seconds: float, run: Run, running: Sequence[float]) -> dict[str, Any]:
    """The result of a call; without a finished episode, rewards are those of the running ones."""
    runtime, episodes = seconds or _SHORTEST, run.episodes
    rewards = [episode.reward for episode in episodes] or running
    durations = [episode.duration for episode in episodes]
    return {
        "runtime": runtime,
        "timesteps_executed": run.timesteps,
        "ops_per_second": run.timesteps / runtime,
        "env_frames": run.frames,
        "env_frames_per_second": run.frames / runtime,
        "episodes_executed": len(episodes),
        "episodes_per_minute": 60 * len(episodes) / runtime,
        "mean_episode_runtime": sum(durations) / len(durations) if durations else 0.0,
        "mean_episode_reward": sum(rewards) / len(rewards),
        "max_episode_reward": max(rewards),
        "final_episode_reward": rewards[-1] if episodes else rewards[0],
    }


def marks(space: Space) -> dict[str, Any]:
    """Names, shapes, kinds of dtype and categories, which must be equal; bounds of floats may differ."""
    return {
        name: (
            box.shape,
            box.dtype.kind.replace("u", "i"),
            (box.num_categories, box.low.tolist()) if isinstance(box, IntBox) and box.num_categories else (),
        )
        for name, box in space.flat().items()
    }
