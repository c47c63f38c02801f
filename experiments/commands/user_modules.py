"""The user's modules beside an experiment file: importable by name, after installed ones."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from ...core.errors import CheckpointError
from ...run_dir.starts import read_starts
from ..config.shipped import SHIPPED
from ..errors import RunFolderError


def make_importable(folders: Iterable[Path]) -> None:
    """Make modules in these folders importable, and those in the current one."""
    for path in (*(folder.absolute() for folder in folders), Path.cwd()):
        if path != SHIPPED and str(path) not in sys.path:
            sys.path.append(str(path))


def make_importable_for(run_folder: Path) -> None:
    """Make the modules of an existing run importable: those beside its experiment file and its includes."""
    try:
        starts = read_starts(run_folder)
    except CheckpointError as error:
        raise RunFolderError(run_folder, str(error)) from error
    files = [str(file or "") for start in starts for file in (start.get("file"), *(start.get("included") or ()))]
    make_importable(Path(file).parent for file in files)
