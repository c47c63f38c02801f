"""Copy a hosted agent's folder while a server uses it."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Final

from ...run_dir import history, record
from ...run_dir.files import make_folders
from .agent_store import CHECKPOINTS, JOURNAL
from .integrity import files_of

_TRIES: Final = 100
_FILES: Final = (record.FILE, history.EPISODES)


class MovedError(Exception):
    """A folder changed so fast that it could not be copied."""


def copy_agent(source: Path, target: Path) -> bool:
    """Copy an agent, with everything that it had accepted when this began.

    Checkpoints are copied first, then the journal, which has everything since the older of two checkpoints: so it
    continues any copied checkpoint that the server still keeps afterwards. If it keeps none of them, all is copied
    again.

    Args:
        source: the agent's folder.
        target: a new folder.

    Returns:
        False if there is no such folder (any more).

    Raises:
        MovedError: the folder kept changing.
        OSError: the folder cannot be copied.
    """
    for _ in range(_TRIES):
        shutil.rmtree(target, ignore_errors=True)
        try:
            copied = _copied(source, target)
        except FileNotFoundError:  # removed meanwhile
            copied = None
        kept = files_of(source)[0]
        if not source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            return False
        if copied is not None and (not copied or copied[-1] in kept):
            return True
    raise MovedError(f"{source} changed while it was copied, {_TRIES} times in turn")


def _copied(source: Path, target: Path) -> list[str]:
    """Copy once; returns the names of the checkpoints."""
    make_folders(target)
    checkpoints = files_of(source)[0]
    for name in checkpoints:
        link_tree(source / CHECKPOINTS / name, target / CHECKPOINTS / name)
    make_folders(target / JOURNAL)
    for name in files_of(source)[1]:
        with contextlib.suppress(FileNotFoundError):  # trimmed: older than all checkpoints
            shutil.copyfile(source / JOURNAL / name, target / JOURNAL / name)
    for name in _FILES:
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(source / name, target / name)
    return checkpoints


def link_tree(source: Path, target: Path) -> None:
    """Copy a folder whose files never change, by links if source and target are on the same disk.

    Raises:
        FileNotFoundError: the folder is gone, or was removed meanwhile.
        OSError: the folder cannot be copied.
    """
    for folder, _, names in os.walk(source, onerror=_fail):
        there = target / Path(folder).relative_to(source)
        make_folders(there)
        for name in names:
            _link(Path(folder) / name, there / name)


def _fail(error: OSError) -> None:
    raise error


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except FileNotFoundError:
        raise
    except OSError:  # another disk, or one without links
        shutil.copyfile(source, target)
