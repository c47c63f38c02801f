"""Finding run folders, in a folder of any depth."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from ...run_dir import record
from ...run_dir.history import EPISODES, EVALUATIONS
from ...run_dir.starts import STARTS
from ..errors import RunFolderError
from ..running.folder import EXPERIMENT, missing
from ..searches.runs import COMPILED, OUTPUT

CHECKPOINTS: Final = "checkpoints"
_OF_A_RUN: Final = (record.FILE, EXPERIMENT, EPISODES, EVALUATIONS, STARTS, CHECKPOINTS)
"""Any of these files makes a folder a run folder, even if the others are lost."""


def run_folders(given: Iterable[Path]) -> list[Path]:
    """The run folders among and within the given folders, each once; those within a folder in the order of their names.

    An empty folder within a given one counts as a run folder: it is left over from a run that never began.

    Raises:
        RunFolderError: a given folder does not exist, or is a file.
    """
    found: dict[Path, Path] = {}
    for folder in given:
        if not folder.is_dir():
            what = "is a file, not a folder" if folder.exists() else missing(folder)
            raise RunFolderError(folder, f"Folder {folder} {what}. Give run folders, or a folder that holds some.")
        for run in _runs_within(folder, given=True):
            found.setdefault(run.resolve(), run)
    return list(found.values())


def common_folder(folders: Sequence[Path]) -> Path | None:
    """The folder that holds all of these; None if they are relative without a common folder, or on different drives."""
    try:
        common = Path(os.path.commonpath([folder.parent for folder in folders]))
    except ValueError:
        return None
    return None if common == Path() else common


def short_path(folder: Path, common: Path | None) -> str:
    """The path of a folder relative to the common one, if there is one."""
    return str(folder if common is None else folder.relative_to(common))


def _runs_within(folder: Path, *, given: bool = False) -> list[Path]:
    if not os.access(folder, os.R_OK | os.X_OK) or _is_run(folder):  # nothing is known of one that cannot be read
        return [folder]
    entries = sorted(folder.iterdir(), key=lambda path: _natural(path.name))
    if not entries:
        return [] if given else [folder]
    # Links may be circular, so only links to runs are followed.
    inner = [path for path in entries if path.is_dir() and (not path.is_symlink() or _is_run(path))]
    others = (COMPILED, OUTPUT, "__pycache__")
    return [run for path in inner if path.name not in others and path.name[0] != "." for run in _runs_within(path)]


def _is_run(folder: Path) -> bool:
    return any((folder / name).exists() for name in _OF_A_RUN)


def _natural(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts seed-9 before seed-10."""
    return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in re.split(r"([0-9]+)", name)]
