"""The pictures of many seeds: a learning curve for each, and one of all."""

from __future__ import annotations

from pathlib import Path

from ...runs.learning_curve import CURVE, caption
from ...runs.learning_curves import CURVES, learning_curves
from ..language.seeds import told
from ..running.runner import draw
from .group import FINISHED, Group, run_of


def draw_all(group: Group) -> Path | None:
    """Draw those that finished, and all of them in one picture.

    Returns:
        That picture; None if no seed has finished.

    Raises:
        CheckpointError, ValueError: a record or a CSV file of a run is damaged.
    """
    finished = [seed for seed, outcome in group.outcomes.items() if outcome.status == FINISHED]
    if not finished:
        return None
    for seed in finished:
        outcome, folder = group.outcomes[seed], group.run_folder(seed)
        if not (folder / CURVE).is_file() or seed in group.ran:
            draw(folder, run_of(group.experiment, seed), outcome.evaluation)
    folders = [group.run_folder(seed) for seed in finished]
    seeds = f"{len(finished)} seeds, {told(finished)}" if len(finished) > 1 else f"seed {finished[0]}"
    learning_curves(folders, group.folder / CURVES, caption(folders[0], group.experiment.name, seeds))
    return group.folder / CURVES
