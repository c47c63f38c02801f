"""Spare seeds, whose initial weights a builder wrote in advance.

Each has an empty file, ``<programs>/<digest>.spares/<seed>``; the process that removes it owns the seed.
"""

from __future__ import annotations

from pathlib import Path

from ...run_dir.files import make_folders


def claim(programs: Path, digest: str) -> int | None:
    """Claim a seed exclusively; None if there is none."""
    for seed in seeds(programs, digest):
        try:
            _file(programs, digest, seed).unlink()
        except FileNotFoundError:  # another process was faster
            continue
        return seed
    return None


def seeds(programs: Path, digest: str) -> set[int]:
    """All spare seeds."""
    try:
        return {int(path.name) for path in _file(programs, digest).iterdir() if path.name.isdecimal()}
    except FileNotFoundError:
        return set()


def add(programs: Path, digest: str, seed: int) -> None:
    """Add a seed whose weights exist."""
    file = _file(programs, digest, seed)
    make_folders(file.parent)
    file.touch()


def _file(programs: Path, digest: str, seed: int | str = "") -> Path:
    """The file of a seed, or the folder of all."""
    return programs / f"{digest}.spares" / str(seed)
