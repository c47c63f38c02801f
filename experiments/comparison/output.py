"""The files of a report: unwritable ones are refused early, and leave nothing behind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...run_dir.files import make_folders, why_unwritable, write_atomically
from ..errors import ExperimentError


def check_output(path: Path) -> None:
    """Refuse, before any work, a page that could not be written.

    Raises:
        ExperimentError: its path is a folder, or its folder cannot be written; says why.
    """
    if path.is_dir():
        raise ExperimentError(str(path), f"is a folder; give the file to write, such as {path / 'report.html'}")
    why = why_unwritable(path.absolute().parent)
    if why:
        raise ExperimentError(str(path), f"the report cannot be written here: {why}; choose another file with -o")


def write_all(files: Mapping[Path, bytes]) -> None:
    """Write files into one folder, in this order; where one cannot be written, no new one is left.

    Raises:
        CheckpointError, OSError: as the operating system reports it.
    """
    make_folders(next(iter(files)).absolute().parent)
    new: list[Path] = []
    try:
        for file, content in files.items():
            new += [] if file.exists() else [file]
            write_atomically(file, content)
    except BaseException:
        for file in new:
            file.unlink(missing_ok=True)
        raise
