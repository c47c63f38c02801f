"""One environment of a worker with its running episode, and what a call has done, and is to do, as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..environments.environment import Environment, stepped
from ..spaces import IntBox, Space

_SHORTEST = 1e-10
"""Seconds, in place of none, for rates."""


class Moved(NamedTuple):
    """The result of one action."""

    state: Any
    """The next one, of an episode that ended its last."""
    reward: float
    """Of all frames."""
    terminal: bool
    """The episode ended, other than by a time limit."""
    ended: bool
    """It ended, or was cut by a time limit."""


class Episode(NamedTuple):
    """A finished episode."""

    reward: float
    """The sum of its rewards."""
    duration: float
    """In seconds."""
    timesteps: int
    env_num: int


class Lane:
    """An environment, as a worker steps it.

    Args:
        environment: it.
        number: its place among those of the worker.

    Attributes:
        env_id: under which the agent knows it: ``env_0``, ``env_1``, ...
        seen: the present state, as the model sees it.
        reward: of the running episode so far.
        timesteps: of the running episode so far.
        frames: steps of the environment since the worker was created.
        started: when the running episode began, in seconds of the worker's clock.
    """

    def __init__(self, environment: Environment, number: int) -> None:
        self.environment, self.number = environment, number
        self.env_id = f"env_{number}"
        self.seen: Any = None
        self.reward, self.timesteps, self.frames, self.started = 0.0, 0, 0, 0.0

    def begin(self, now: float) -> Any:
        """Begin an episode, and return its first state."""
        state = self.environment.reset()
        self.reward, self.timesteps, self.started = 0.0, 0, now
        return _copied(state)

    def step(self, action: Any, frameskip: int, longest: int) -> Moved:
        """Act.

        Args:
            action: repeated ``frameskip`` times, or until the episode ends.
            frameskip: at least 1.
            longest: timesteps after which the episode is cut; 0: never.
        """
        told = stepped(self.environment, action)
        reward, frames = float(told.reward), 1
        while frames < frameskip and not told.terminal:
            told = stepped(self.environment, action)
            reward += float(told.reward)
            frames += 1
        self.frames += frames
        self.reward += reward
        self.timesteps += 1
        is_cut = 0 < longest <= self.timesteps
        return Moved(_copied(told.state), reward, told.terminal and not told.truncated, told.terminal or is_cut)


def _copied(state: Any) -> Any:
    """The state, which an environment may go on to write into."""
    if isinstance(state, np.ndarray):
        return state.copy()
    if isinstance(state, dict):
        return {key: _copied(part) for key, part in state.items()}
    return type(state)(map(_copied, state)) if type(state) in (list, tuple) else state


def summary(
    seconds: float, timesteps: int, frames: int, episodes: Sequence[Episode], lanes: Sequence[Lane]
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


def due(before: int, now: int, update: Mapping[str, Any], observe: Mapping[str, Any]) -> int:
    """How many updates follow from the timesteps ``before + 1 .. now``.

    Each multiple of ``update_interval`` among them counts that is beyond ``steps_before_update`` and, with buffers, at
    least ``buffer_size``; each makes ``update_steps`` updates.

    Args:
        before: the agent's timesteps before it acted; episodes, where ``update_mode`` says so.
        now: and after that.
        update: the ``update_spec``.
        observe: the ``observe_spec``.
    """
    filled = observe["buffer_size"] - 1 if observe["buffer_enabled"] else 0
    first, every = int(max(before, update["steps_before_update"], filled)), int(update["update_interval"])
    if not update["do_updates"] or now <= first:
        return 0
    return (now // every - first // every) * int(update["update_steps"])


def alike(found: Space, wanted: Space) -> bool:
    """Same names, shapes, kinds of numbers, and categories; bounds of floats may differ."""
    ours, theirs = found.flat(), wanted.flat()
    return ours.keys() == theirs.keys() and all(_marks(box) == _marks(theirs[name]) for name, box in ours.items())


def _marks(box: Any) -> tuple[Any, ...]:
    values = (box.num_categories, box.low.tolist()) if isinstance(box, IntBox) and box.num_categories else ()
    return (box.shape, box.dtype.kind.replace("u", "i"), *values)
