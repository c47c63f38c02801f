"""Modules of the user's beside an experiment file: importable by name, after everything that is installed."""

from __future__ import annotations

import sys
from pathlib import Path

from ...errors import CheckpointError
from ...runs.starts import read_starts
from ..errors import RunFolderError
from ..language.shipped import SHIPPED


def make_importable(folder: Path) -> None:
    """Make modules in a folder importable, and those in the current one."""
    for path in (folder.absolute(), Path.cwd()):
        if path != SHIPPED and str(path) not in sys.path:
            sys.path.append(str(path))


def make_importable_for(run_folder: Path) -> None:
    """Make modules importable that were beside the experiment file of an existing run."""
    try:
        starts = read_starts(run_folder)
    except CheckpointError as error:
        raise RunFolderError(run_folder, str(error)) from error
    for start in starts:
        make_importable(Path(str(start.get("file") or "")).parent)
    make_importable(Path())
