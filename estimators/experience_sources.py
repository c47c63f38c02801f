"""Where experience comes from: an environment, a caller's own loop, or stored episodes."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import gymnasium

from ..core.errors import ArgumentError
from ..core.protocols import Episode, State
from ..environments.batched import BatchedEnvironment
from ..environments.episodes import checked_episodes, read_episodes
from ..environments.ids import make, open_environment
from ..environments.statistics import names_of, refuse_others
from ..memories.recorded_episodes import checked
from .run import Run

Spaces: TypeAlias = tuple[gymnasium.Space[Any], gymnasium.Space[Any]]
"""Of observations and of actions."""


@dataclasses.dataclass(frozen=True)
class Lanes:
    """Streams of experience: of an environment, or of the calls of whoever owns the loop (``env`` is None).

    With ``episodes`` nobody acts: these are what is learned from, beside what the memory holds.
    """

    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    number: int
    env: BatchedEnvironment | None = None
    source: Any = None
    """The environment as it was passed in."""
    episodes: Sequence[Episode] | None = None
    like: BatchedEnvironment | None = None
    """Of a cluster: one of the environments that its actors make."""

    @property
    def offline(self) -> bool:
        """Are there updates alone, without timesteps?"""
        return self.episodes is not None

    def seen(self) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any], Any]:
        """What a memory may know: both spaces, and the environment, if there is one."""
        return self.observation_space, self.action_space, None if self.env is None else self.env.env

    def refuse_others(self, statistics: State | None) -> None:
        """``ArgumentError`` if what comes from here is not normalised as the run's observations and rewards were."""
        env = self.env or self.like
        if env is not None:
            refuse_others(env.env, statistics or {})
        elif statistics and not self.offline:
            names = " and ".join(dict.fromkeys(names_of(statistics)))
            message = f"the run was trained in an environment with {names}: a caller's own loop cannot continue it"
            raise ArgumentError(message, "observation_space", self.observation_space)

    @property
    def masks(self) -> str | None:
        """Why lanes will be out of step; None if they need not be: a caller may let them advance together."""
        env = self.env
        return f"{env.name}: {env.not_exact}" if env is not None and env.skips_rows else None


def spaces_in(env: tuple[Any, ...]) -> Spaces:
    """The two spaces that were passed in place of an environment; ArgumentError if it is something else."""
    if len(env) != 2:
        message = f"env must be an environment, an id, or two spaces (observation, action), got {env!r}"
        raise ArgumentError(message, "env", env)
    observation, action = env
    return observation, action


def lanes_of(run: Run, env: Any, closing: contextlib.ExitStack) -> Lanes:
    """Those of an environment.

    Args:
        run: the run; of the environment of an id it knows how many copies there were, and how they were made.
        env: environment, vector environment or id.
        closing: closes what is opened.
    """
    env, opened = _opened(run, env, closing)
    return Lanes(opened.observation_space, opened.action_space, opened.num_envs, opened, env)


def _opened(run: Run, env: Any, closing: contextlib.ExitStack) -> tuple[Any, BatchedEnvironment]:
    """The environment, and the interface to it; that of an id is made as the run has recorded it."""
    known = run.record
    if not isinstance(env, str) or known is None:
        opened = open_environment(env)
        closing.callback(opened.close)
        return env, opened
    described = known.environment or {}
    given = {name: value for name, value in described.items() if name != "id"} if described.get("id") == env else {}
    if given.pop("unrecorded", None):
        message = (
            f"{env} cannot be made as the run in {run.model_dir} had it, with arguments or wrappers that are not"
            " recorded: pass the environment"
        )
        raise ArgumentError(message, "env", env)
    copies = known.num_envs if known.num_envs > 1 or given.get("vectorization") else None
    made: Any = make(env, copies, **given.pop("kwargs", {}), **given)
    closing.callback(made.close)
    return made, open_environment(made)


def offline_lanes(run: Run, data: Any, env: Any, closing: contextlib.ExitStack) -> Lanes:
    """Those of learning without timesteps.

    Args:
        run: the run, which has spaces if it has begun.
        data: a file or a folder of episodes, episodes, or None.
        env: environment, vector environment, id or two spaces; None for the spaces of the run.
        closing: closes what is opened.

    Raises:
        ArgumentError: the spaces are not known, or the data cannot be used.
    """
    run.refresh()
    opened = None
    if env is None:
        spaces = _spaces_of(run)
    elif isinstance(env, tuple):
        spaces = spaces_in(env)
    else:
        env, opened = _opened(run, env, closing)
        spaces = opened.observation_space, opened.action_space
    number = opened.num_envs if opened is not None else 1 if run.record is None else run.record.num_envs
    source = None if isinstance(env, tuple) else env
    return Lanes(*spaces, number, opened, source, _episodes(data, spaces))


def _spaces_of(run: Run) -> Spaces:
    observation, action = run.config.observation_space, run.config.action_space
    if observation is None or action is None:
        message = (
            f"{run.model_dir} holds no run whose spaces could be taken: pass env, an environment, its id, or two spaces"
            " (observation, action)"
        )
        raise ArgumentError(message, "env", None)
    return observation, action


def _episodes(data: Any, spaces: Spaces) -> list[Episode]:
    if data is None:
        return []
    if isinstance(data, str | Path):
        return list(read_episodes(data, *spaces))
    return list(checked_episodes("data", checked("data", data), *spaces))
