"""The experiments that ship with axonrl. Listing their names loads nothing, for shell completion."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SHIPPED: Final = Path(__file__).parents[1]
"""Folder of the shipped experiments."""


def shipped() -> dict[str, Path]:
    """Files of the shipped experiments by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yml"))}


def experiment_file(text: str) -> Path:
    """Find a file by its path, or else by the name of a shipped experiment.

    Raises:
        ExperimentError: it is neither; suggests the nearest name.
    """
    path, experiments = Path(text), shipped()
    if text in experiments and not path.is_file():
        return experiments[text]
    if path.exists():
        return path
    from ...core.checks import nearest
    from ..errors import ExperimentError

    beside = [str(path.with_name(file.name)) for file in sorted(path.parent.glob("*.y*ml"))]
    message = "no file or shipped experiment has this name"
    raise ExperimentError(text, message, nearest=nearest(text, [*experiments, *beside]))
