"""Sources of experience: an environment, a caller's own loop, or stored episodes."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import gymnasium

from ..core.checks import check_episodes, count
from ..core.errors import ArgumentError
from ..core.protocols import MOST_LANES, Episode, State
from ..environments.batched import BatchedEnvironment
from ..environments.episodes import checked_episodes, read_episodes
from ..environments.ids import make, open_environment
from ..environments.statistics import names_of, refuse_others
from .run import Run

Spaces: TypeAlias = tuple[gymnasium.Space[Any], gymnasium.Space[Any]]
"""The observation and the action space."""
AnyEnv: TypeAlias = "gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any] | str"
"""An environment, a vector environment, or an id."""
Data: TypeAlias = "str | Path | Iterable[Episode]"
"""A file or folder of episodes, or episodes."""


@dataclasses.dataclass(frozen=True)
class Lanes:
    """Streams of experience from an environment, or from a caller who owns the loop (``env`` is None).

    With ``episodes``, nothing acts: learning uses these and the contents of the memory.
    """

    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    number: int
    env: BatchedEnvironment | None = None
    source: Any = None
    """The environment as the user passed it."""
    episodes: Sequence[Episode] | None = None
    like: BatchedEnvironment | None = None
    """An environment as a cluster's actors make it; None without a cluster."""

    @property
    def offline(self) -> bool:
        """Does the session update only, without timesteps?"""
        return self.episodes is not None

    @property
    def are_cut(self) -> bool:
        """Do checkpoints cut the running episodes, because a caller owns the loop?"""
        return self.env is None and self.like is None and not self.offline

    def spaces_and_env(self) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any], Any]:
        """Arguments for :func:`~.batch_layout.introduce`: both spaces, and the environment, if any."""
        return self.observation_space, self.action_space, None if self.env is None else self.env.env

    def refuse_others(self, statistics: State | None) -> None:
        """Raise ``ArgumentError`` if experience from here is normalised differently from the run's."""
        env = self.env or self.like
        if env is not None:
            refuse_others(env.env, statistics or {})
        elif statistics and not self.offline:
            names = " and ".join(dict.fromkeys(names_of(statistics)))
            message = f"the run was trained in an environment with {names}: a custom loop cannot continue it"
            raise ArgumentError(message, "observation_space", self.observation_space)

    @property
    def masks(self) -> str | None:
        """Why lanes will get out of step; None if they need not: a caller may advance them together."""
        env = self.env
        if env is None or not env.skips_rows:
            return None
        return f"{env.name}: {'its agents may come and go' if env.waits else env.not_exact}"


def spaces_in(env: tuple[Any, ...]) -> Spaces:
    """Check two spaces passed in place of an environment; ArgumentError for anything else."""
    if len(env) != 2:
        message = f"env must be an environment, an id, or two spaces (observation, action), got {env!r}"
        raise ArgumentError(message, "env", env)
    observation, action = env
    return observation, action


def training_spaces(env: Any, lanes: int) -> Lanes:
    """The spaces and the number of lanes of a training, without its environments.

    Args:
        env: an environment, a vector environment or an id; or two spaces.
        lanes: number of lanes if spaces are given; else 1.

    Raises:
        ArgumentError: ``env`` is none of these, or ``lanes`` is invalid.
    """
    if isinstance(env, tuple):
        return Lanes(*spaces_in(env), count("lanes", lanes, at_most=MOST_LANES))
    if lanes != 1:
        raise ArgumentError(
            f"lanes applies only to spaces, as an environment has its own number of lanes; got {lanes!r}",
            "lanes",
            lanes,
        )
    opened = open_environment(env)
    opened.close()
    return Lanes(opened.observation_space, opened.action_space, opened.num_envs)


def lanes_of(run: Run, env: Any, closing: contextlib.ExitStack) -> Lanes:
    """Open an environment's lanes.

    Args:
        run: the run, which records the number of copies and how an environment was made from its id.
        env: environment, vector environment or id.
        closing: closes what is opened.
    """
    env, opened = _open_env(run, env, closing)
    return Lanes(opened.observation_space, opened.action_space, opened.num_envs, opened, env)


def _open_env(run: Run, env: Any, closing: contextlib.ExitStack) -> tuple[Any, BatchedEnvironment]:
    """Open the batched interface of an environment; one given by id is made as recorded."""
    known = run.record
    if not isinstance(env, str) or known is None:
        opened = open_environment(env)
        closing.callback(opened.close)
        return env, opened
    described = known.environment or {}
    given = {name: value for name, value in described.items() if name != "id"} if described.get("id") == env else {}
    if given.pop("unrecorded", None):
        message = (
            f"{env} cannot be made from its id as in {run.model_dir}, whose arguments or wrappers are not recorded:"
            " pass the environment"
        )
        raise ArgumentError(message, "env", env)
    copies = known.num_envs if known.num_envs > 1 or given.get("vectorization") else None
    made: Any = make(env, given.pop("num_envs", copies), **given.pop("kwargs", {}), **given)
    closing.callback(made.close)
    return made, open_environment(made)


def offline_lanes(run: Run, data: Any, env: Any, closing: contextlib.ExitStack) -> Lanes:
    """Make lanes for learning without timesteps.

    Args:
        run: the run, with spaces if it has begun.
        data: a file or a folder of episodes, episodes, or None.
        env: environment, vector environment, id or two spaces; None for the spaces of the run.
        closing: closes what is opened.

    Raises:
        ArgumentError: the spaces are unknown, or the data are unusable.
    """
    run.refresh()
    opened = None
    if env is None:
        spaces = _spaces_of(run)
    elif isinstance(env, tuple):
        spaces = spaces_in(env)
    else:
        env, opened = _open_env(run, env, closing)
        spaces = opened.observation_space, opened.action_space
    number = opened.num_envs if opened is not None else 1 if run.record is None else run.record.num_envs
    source = None if isinstance(env, tuple) else env
    return Lanes(*spaces, number, opened, source, _episodes(data, spaces))


def _spaces_of(run: Run) -> Spaces:
    observation, action = run.config.observation_space, run.config.action_space
    if observation is None or action is None:
        message = (
            f"{run.model_dir} holds no run to take the spaces from: pass env, an environment, its id, or two spaces"
            " (observation, action)"
        )
        raise ArgumentError(message, "env", None)
    return observation, action


def _episodes(data: Any, spaces: Spaces) -> list[Episode]:
    if data is None:
        return []
    if isinstance(data, str | Path):
        return list(read_episodes(data, *spaces))
    return list(checked_episodes("data", check_episodes("data", data), *spaces))
