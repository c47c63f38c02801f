"""Spare seeds: those whose initial weights a builder wrote before an agent with them was wanted.

For each there is an empty file, ``<programs>/<digest>.spares/<seed>``; whoever removes it has the seed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ...run_dir.files import make_folders

_FOLDER: Final = ".spares"


def _folder(programs: Path, digest: str) -> Path:
    return programs / f"{digest}{_FOLDER}"


def claim(programs: Path, digest: str) -> int | None:
    """A seed that nobody else gets; None if there is none."""
    for path in _files(programs, digest):
        try:
            path.unlink()
        except FileNotFoundError:  # another one was faster
            continue
        return int(path.name)
    return None


def count(programs: Path, digest: str) -> int:
    """How many there are."""
    return len(_files(programs, digest))


def seeds(programs: Path, digest: str) -> set[int]:
    """All of them."""
    return {int(path.name) for path in _files(programs, digest)}


def add(programs: Path, digest: str, seed: int) -> None:
    """One more, whose weights are there."""
    folder = _folder(programs, digest)
    make_folders(folder)
    (folder / str(seed)).touch()


def _files(programs: Path, digest: str) -> list[Path]:
    try:
        return [path for path in _folder(programs, digest).iterdir() if path.name.isdecimal()]
    except FileNotFoundError:
        return []
