"""The agent of a run folder, and its episodes in its experiment's environment.

All functions raise ``ExperimentError`` if the folder is not a run folder or has no checkpoint, and otherwise the errors
of the ``Agent`` methods.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from ...hooks.events import EpisodeStats, Session
from ...run_dir.checkpoints import CheckpointStore
from ...run_dir.history import GIVEN, REPEAT, Evaluation
from ..config.modules import make_importable_for
from ..config.schema import Evaluate, ExperimentFile
from ..errors import ExperimentError, RunFolderError
from . import folder as records
from .components import environment_of

_VIDEO: Final = ".mp4"
_DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
"""Environment variables; on Linux, one of them is set if a window can be opened."""


def load_trained(folder: Path, policy: str | None = None) -> tuple[ExperimentFile, Any, str]:
    """The experiment and the Agent of a run folder, whose modules become importable.

    The last value is the policy to use: ``"best"`` or ``"last"``; None for the one that the experiment evaluates.
    """
    experiment = records.read_experiment(folder)
    return experiment, load_agent(folder), policy or evaluation_of(experiment).policy


def load_agent(folder: Path) -> Any:
    """The Agent of a run folder, whose modules become importable; its environment may be unknown."""
    make_importable_for(folder)
    if CheckpointStore(folder).newest() is None:
        message = f"Run folder {folder} has no checkpoint. Continue the run with axonrl run --resume."
        raise RunFolderError(folder, message)
    records.read_record(folder)
    from ...estimators.agent import Agent

    return Agent(None, model_dir=folder)


def usual_policy(folder: Path) -> str:
    """The policy of a run that commands use: the one that its experiment evaluates; else the best, if one was kept.

    The environment of a Python program's run may be unknown.
    """
    if records.is_of_python(folder):
        return records.kept_policy(folder)
    return evaluation_of(records.read_experiment(folder)).policy


def evaluation_of(experiment: ExperimentFile) -> Evaluate:
    """The evaluation that an experiment asks for, or the default."""
    return experiment.evaluate or Evaluate()


def evaluate_agent(
    agent: Any, experiment: ExperimentFile, episodes: int, policy: str | int, explore: bool = False
) -> dict[str, float]:
    """Evaluate an agent in its experiment's environment, in episodes that training has not seen."""
    from ...estimators.evaluation import COPIES

    worlds = experiment.environment.vectorization == "pettingzoo"  # one world already has several agents
    with environment_of(experiment.environment, 1 if worlds else min(COPIES, episodes)) as env:
        asked = {"explore": True} if explore else {}
        results: dict[str, float] = agent.evaluate(env, episodes=episodes, policy=policy, **asked)
    return results


def evaluate_checkpoint(
    folder: Path, checkpoint: int | str, episodes: int | None = None
) -> tuple[dict[str, float], Evaluation | None, bool]:
    """Evaluate a policy exactly as the training in a run folder did, if it did.

    Args:
        folder: the run folder.
        checkpoint: the number of a checkpoint, or ``"best"``.
        episodes: number of other episodes instead; None for those of the training, or else the experiment's number.

    Returns:
        The results of ``Agent.evaluate``; the training's own evaluation of that policy, or None; and whether this was
        repeated, which is impossible if it used an environment made by a Python program.
    """
    experiment, agent, _ = load_trained(folder)
    _need_checkpoint(folder, checkpoint)
    recorded: Evaluation | None = agent.recorded_evaluation(checkpoint)
    if episodes is None and recorded is not None and recorded.environment != GIVEN:
        with contextlib.ExitStack() as closing:
            env: Any = recorded.environment or closing.enter_context(environment_of(experiment.environment, 1))
            return agent.evaluate(env, REPEAT, policy=checkpoint), recorded, True
    usual = evaluation_of(experiment)
    return evaluate_agent(agent, experiment, episodes or usual.episodes, checkpoint, usual.explore), recorded, False


def _need_checkpoint(folder: Path, checkpoint: int | str) -> None:
    """Raise ``RunFolderError`` if a run folder has no checkpoint of this number, or no policy of this name."""
    if isinstance(checkpoint, str):
        if not (folder / f"{checkpoint}.safetensors").is_file():
            what = f"Run folder {folder} has no policy {checkpoint!r}: no evaluation hook kept one."
            raise RunFolderError(folder, what)
        return
    there = CheckpointStore(folder).indices()
    if checkpoint not in there:
        numbers = ", ".join(map(str, there))
        raise RunFolderError(folder, f"Run folder {folder} has no checkpoint {checkpoint}, only {numbers}.")


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
        episodes: the number of episodes.
        policy: ``"best"`` or ``"last"``; None for the experiment's.
        seed: the seed of the episodes; None for the run's.
        videos: the files to write, one per episode; None for a window.
        watch: called after every episode.

    Returns:
        The results of ``Agent.evaluate``.
    """
    from ...environments.rendering import open_window, recorded, rendering

    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # its text would become part of the output
    if videos is not None and not _has_display():
        os.environ["SDL_VIDEODRIVER"] = "dummy"  # otherwise it prints that there is no display
    experiment, agent, policy = load_trained(folder, policy)
    with contextlib.ExitStack() as closing:
        source = closing.enter_context(environment_of(experiment.environment, 1))
        env: Any
        if videos is None:
            env = open_window(source, closing)
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
    """Refuse a window if there is no display; ``ExperimentError``."""
    if not _has_display():
        message = "No display is available for a window. Use --video FILE.mp4 or --video FOLDER to write videos."
        raise ExperimentError("", message)


def _has_display() -> bool:
    """Is a display possible? Only Linux tells."""
    return not sys.platform.startswith("linux") or any(os.environ.get(name) for name in _DISPLAYS)
