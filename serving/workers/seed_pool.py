"""Spare seeds, whose initial weights a builder wrote in advance.

Each has an empty file, ``<programs>/<digest>.spares/<seed>``; the process that removes it owns the seed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ...run_dir.files import make_folders

_FOLDER: Final = ".spares"


def _folder(programs: Path, digest: str) -> Path:
    return programs / f"{digest}{_FOLDER}"


def claim(programs: Path, digest: str) -> int | None:
    """Claim a seed exclusively; None if there is none."""
    for path in _files(programs, digest):
        try:
            path.unlink()
        except FileNotFoundError:  # another process was faster
            continue
        return int(path.name)
    return None


def count(programs: Path, digest: str) -> int:
    """Number of spare seeds."""
    return len(_files(programs, digest))


def seeds(programs: Path, digest: str) -> set[int]:
    """All spare seeds."""
    return {int(path.name) for path in _files(programs, digest)}


def add(programs: Path, digest: str, seed: int) -> None:
    """Add a seed whose weights exist."""
    folder = _folder(programs, digest)
    make_folders(folder)
    (folder / str(seed)).touch()


def _files(programs: Path, digest: str) -> list[Path]:
    try:
        return [path for path in _folder(programs, digest).iterdir() if path.name.isdecimal()]
    except FileNotFoundError:
        return []
