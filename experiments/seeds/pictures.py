"""The picture of many seeds: all their learning curves."""

from __future__ import annotations

from pathlib import Path

from ...run_dir.learning_curve import caption
from ...run_dir.learning_curves import CURVES, learning_curves
from ..config.seeds import seed_ranges


def draw_all(folder: Path, name: str, finished: list[int]) -> None:
    """Draw the seeds that finished in one picture.

    Args:
        folder: the group's.
        name: of the experiment.
        finished: the seeds, at least one.

    Raises:
        CheckpointError, ValueError: a record or a CSV file of a run is damaged.
    """
    folders = [folder / f"seed-{seed}" for seed in finished]
    seeds = f"{len(finished)} seeds, {seed_ranges(finished)}" if len(finished) > 1 else f"seed {finished[0]}"
    learning_curves(folders, folder / CURVES, caption(folders[0], name, seeds))
