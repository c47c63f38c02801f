"""Modules of the user's beside an experiment file: importable by name, after everything that is installed."""

from __future__ import annotations

import sys
from pathlib import Path

from ..language.shipped import SHIPPED
from ..running.folder import read_starts


def make_importable(folder: Path) -> None:
    """Make modules in a folder importable, and those in the current one."""
    for path in (folder.absolute(), Path.cwd()):
        if path != SHIPPED and str(path) not in sys.path:
            sys.path.append(str(path))


def make_importable_for(run_folder: Path) -> None:
    """Make modules importable that were beside the experiment file of an existing run."""
    for start in read_starts(run_folder):
        make_importable(Path(str(start.get("file", ""))).parent)
    make_importable(Path())
