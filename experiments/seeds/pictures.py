"""The picture of many seeds: all their learning curves."""

from __future__ import annotations

from pathlib import Path

from ...runs.learning_curve import caption
from ...runs.learning_curves import CURVES, learning_curves
from ..language.seeds import told
from .group import FINISHED, Group


def draw_all(group: Group) -> Path | None:
    """Draw those that finished in one picture.

    Returns:
        The picture; None if no seed has finished.

    Raises:
        CheckpointError, ValueError: a record or a CSV file of a run is damaged.
    """
    finished = [seed for seed, outcome in group.outcomes.items() if outcome.status == FINISHED]
    if not finished:
        return None
    folders = [group.run_folder(seed) for seed in finished]
    seeds = f"{len(finished)} seeds, {told(finished)}" if len(finished) > 1 else f"seed {finished[0]}"
    learning_curves(folders, group.folder / CURVES, caption(folders[0], group.experiment.name, seeds))
    return group.folder / CURVES
