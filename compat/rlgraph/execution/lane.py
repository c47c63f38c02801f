"""One environment of a worker, and its running episode."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..environments.environment import Environment, stepped


class Moved(NamedTuple):
    """What one action has led to."""

    state: Any
    """The next one, of an episode that ended its last."""
    reward: float
    """Of all frames."""
    terminal: bool
    """The episode ended, other than by a time limit."""
    ended: bool
    """It ended, or was cut by a time limit."""


class SteppedEnvironment:
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
