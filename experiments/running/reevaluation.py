"""Evaluating once more what a training evaluated, to the numbers that it recorded."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from ...run_dir.checkpoints import CheckpointStore
from ...run_dir.history import GIVEN, REPEAT, Evaluation
from ..config.schema import Evaluate
from ..errors import RunFolderError
from .components import environment_of
from .runner import evaluated, trained


def evaluate_checkpoint(
    folder: Path, checkpoint: int | str, episodes: int | None = None
) -> tuple[dict[str, float], Evaluation | None, bool]:
    """Evaluate a policy as the training in a run folder itself did, where it did.

    Args:
        folder: the run folder.
        checkpoint: the number of a checkpoint, or ``"best"``.
        episodes: how many others instead; None for those of the training, or the experiment's number.

    Returns:
        The results of ``Agent.evaluate``; the training's own evaluation of that policy, or None; and whether it was
        repeated. It is not where it used an environment that a Python program made.

    Raises:
        ExperimentError: the folder is not a run folder, or has no such checkpoint.
        ValueError, RuntimeError, ArithmeticError, OSError: from ``Agent.evaluate``.
    """
    need_checkpoint(folder, checkpoint)
    experiment, agent = trained(folder)
    recorded: Evaluation | None = agent.recorded_evaluation(checkpoint)
    if episodes is None and recorded is not None and recorded.environment != GIVEN:
        with contextlib.ExitStack() as closing:
            env: Any = recorded.environment or closing.enter_context(environment_of(experiment.environment, 1))
            return agent.evaluate(env, REPEAT, policy=checkpoint), recorded, True
    number = episodes or (experiment.evaluate or Evaluate()).episodes
    return evaluated(agent, experiment, number, checkpoint), recorded, False


def need_checkpoint(folder: Path, checkpoint: int | str) -> None:
    """``RunFolderError`` where a run folder has no checkpoint of this number, or no policy of this name."""
    there = CheckpointStore(folder).kept()
    if isinstance(checkpoint, str):
        if not (folder / f"{checkpoint}.safetensors").is_file():
            what = f"Run folder {folder} has no policy {checkpoint!r}: no evaluation hook kept one."
            raise RunFolderError(folder, what)
        return
    there = CheckpointStore(folder).kept()
    if checkpoint not in there:
        numbers = f"only {', '.join(map(str, there))}" if there else "none at all"
        raise RunFolderError(folder, f"Run folder {folder} has no checkpoint {checkpoint}, {numbers}.")
