"""One call of a worker: its settings, what it has done, the updates that follow, and its result."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ..spaces import IntBox, Space

_SHORTEST: Final = 1e-10
"""Seconds that replace 0 in rates."""


class Episode(NamedTuple):
    """A finished episode: what ``episode_finish_callback`` is given."""

    reward: float
    duration: float
    timesteps: int
    env_num: int


@dataclasses.dataclass
class Run:
    """Settings of a call, and what it has done."""

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
        """Has the call done what it was asked for?"""
        return (len(self.episodes) if self.by_episodes else self.timesteps) >= self.goal


def due(before: int, now: int, update: Mapping[str, Any], observe: Mapping[str, Any]) -> int:
    """Number of updates due after timesteps ``before + 1 .. now``, or episodes where ``update_mode`` says so.

    Each multiple of ``update_interval`` among them counts that is beyond ``steps_before_update`` and, with buffers, at
    least ``buffer_size``; each makes ``update_steps`` updates.
    """
    filled = observe["buffer_size"] - 1 if observe["buffer_enabled"] else 0
    first, every = int(max(before, update["steps_before_update"], filled)), int(update["update_interval"])
    if not update["do_updates"] or now <= first:
        return 0
    return (now // every - first // every) * int(update["update_steps"])


def summary(seconds: float, run: Run, running: Sequence[float]) -> dict[str, Any]:
    """The dictionary that a call returns; without a finished episode rewards are those of the running ones."""
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
    """Names, shapes, kinds of numbers, and categories, which must be alike; bounds of floats may differ."""
    return {
        name: (
            box.shape,
            box.dtype.kind.replace("u", "i"),
            (box.num_categories, box.low.tolist()) if isinstance(box, IntBox) and box.num_categories else (),
        )
        for name, box in space.flat().items()
    }
