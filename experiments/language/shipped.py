"""The experiments that come with axonrl. Asking for their names loads nothing: shell completion does."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SHIPPED: Final = Path(__file__).parents[1]
"""Their folder."""


def shipped() -> dict[str, Path]:
    """Their names, and their files."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yml"))}


def experiment_file(text: str) -> Path:
    """The file that a user means: a path, or else the name of an experiment that ships.

    Raises:
        ExperimentError: it looks like a name, and there is neither a file nor an experiment of it.
    """
    from ...registry import nearest
    from .files import ExperimentError

    path, experiments = Path(text), shipped()
    if path.is_file() or text not in experiments:
        if not path.exists() and path.name == text and not path.suffix:
            message = "there is neither such a file nor an experiment of this name that ships with axonrl"
            raise ExperimentError(text, message, nearest=nearest(text, experiments))
        return path
    return experiments[text]
