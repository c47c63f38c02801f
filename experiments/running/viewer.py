"""Watching a trained agent: greedy episodes in a window, or as videos."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from ...hooks.events import EpisodeStats, Session
from ..config.schema import Evaluate
from ..errors import ExperimentError
from .runner import trained

_VIDEO: Final = ".mp4"
_DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
"""Environment variables, of which one is set where a window can be opened on Linux."""


def enjoy(
    folder: Path,
    episodes: int,
    policy: str | None,
    seed: int | None,
    videos: Sequence[Path] | None,
    watch: Callable[[Session, EpisodeStats], Any],
) -> dict[str, float]:
    """Play greedy episodes with the agent of a run, in one copy of its experiment's environment.

    Args:
        folder: the run folder.
        episodes: how many.
        policy: ``"best"`` or ``"last"``; None for the experiment's.
        seed: of the episodes; None for the run's.
        videos: the files to write, one for each episode; None for a window.
        watch: called after every episode.

    Returns:
        The results of ``Agent.evaluate``.

    Raises:
        ExperimentError: the folder is not a run folder, or has no checkpoint.
        ValueError, RuntimeError, ArithmeticError, OSError: the environment cannot render; or from ``Agent.evaluate``.
    """
    from ...environments import make
    from ...environments.rendering import recorded, rendering, windowed

    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # it would be part of the output
    if videos is not None and not _has_display():
        os.environ["SDL_VIDEODRIVER"] = "dummy"  # else it prints that there is none
    experiment, agent = trained(folder)
    policy = policy or (experiment.evaluate or Evaluate()).policy
    wanted = experiment.environment
    with contextlib.ExitStack() as closing:
        wrappers = [one.model_dump() for one in wanted.wrappers]
        source: Any
        if wanted.vectorization == "sync":
            source = make(wanted.id, wrappers=wrappers, **wanted.kwargs)
        else:
            source = make(wanted.id, 1, vectorization=wanted.vectorization, wrappers=wrappers, **wanted.kwargs)
        closing.callback(source.close)
        env: Any
        if videos is None:
            env = windowed(source, closing)
        else:
            env = closing.enter_context(recorded(rendering(None, source, closing), *videos)).env.env
        results: dict[str, float] = agent.evaluate(env, episodes, seed=seed, hooks=watch, policy=policy)
    return results


def video_paths(path: Path, episodes: int) -> list[Path]:
    """The files of the videos: ``path`` for one episode, ``path`` with numbers for several, or files in a folder.

    Raises:
        ExperimentError: it is a file of another format.
    """
    if path.suffix and path.suffix != _VIDEO and not path.is_dir():
        raise ExperimentError(f"--video {path}", f"must be an {_VIDEO} file or a folder")
    if path.suffix != _VIDEO or path.is_dir():
        return [path / f"episode-{number}{_VIDEO}" for number in range(1, episodes + 1)]
    if episodes == 1:
        return [path]
    return [path.with_name(f"{path.stem}-{number}{_VIDEO}") for number in range(1, episodes + 1)]


def need_display() -> None:
    """Refuse a window where there is no display; ``ExperimentError``."""
    if not _has_display():
        message = "No display is available for a window. Use --video FILE.mp4 or --video FOLDER to write videos."
        raise ExperimentError("", message)


def _has_display() -> bool:
    """May there be a display? Only Linux tells."""
    return not sys.platform.startswith("linux") or any(os.environ.get(name) for name in _DISPLAYS)
