"""What a call of a worker has done, as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .lane import SteppedEnvironment

_SHORTEST = 1e-10
"""Seconds, in place of none, for rates."""


class Episode(NamedTuple):
    """A finished episode."""

    reward: float
    """The sum of its rewards."""
    duration: float
    """In seconds."""
    timesteps: int
    env_num: int


def summary(
    seconds: float, timesteps: int, frames: int, episodes: Sequence[Episode], lanes: Sequence[SteppedEnvironment]
) -> dict[str, Any]:
    """The dictionary that a worker returns.

    Args:
        seconds: that the call took.
        timesteps: actions.
        frames: steps of environments.
        episodes: that ended during the call, in order. Without any, the rewards are those of the running ones.
        lanes: have these.
    """
    runtime = seconds or _SHORTEST
    rewards = [episode.reward for episode in episodes] or [lane.reward for lane in lanes]
    durations = [episode.duration for episode in episodes]
    return {
        "runtime": runtime,
        "timesteps_executed": timesteps,
        "ops_per_second": timesteps / runtime,
        "env_frames": frames,
        "env_frames_per_second": frames / runtime,
        "episodes_executed": len(episodes),
        "episodes_per_minute": 60 * len(episodes) / runtime,
        "mean_episode_runtime": sum(durations) / len(durations) if durations else 0.0,
        "mean_episode_reward": sum(rewards) / len(rewards),
        "max_episode_reward": max(rewards),
        "final_episode_reward": rewards[-1] if episodes else rewards[0],
    }
