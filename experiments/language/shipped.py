"""The experiments that ship with axonrl. Listing their names loads nothing, for shell completion."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SHIPPED: Final = Path(__file__).parents[1]
"""Their folder."""


def shipped() -> dict[str, Path]:
    """Names to files."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yml"))}


def experiment_file(text: str) -> Path:
    """The file that a user means: a path, or else the name of a shipped experiment.

    Raises:
        ExperimentError: it looks like a name, and is neither a file nor an experiment.
    """
    from ...checks import nearest
    from ..errors import ExperimentError

    path, experiments = Path(text), shipped()
    if path.is_file() or text not in experiments:
        if not path.exists() and path.name == text and not path.suffix:
            message = "no file or shipped experiment has this name"
            raise ExperimentError(text, message, nearest=nearest(text, experiments))
        return path
    return experiments[text]
