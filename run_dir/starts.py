"""``starts.json``: each start of a run, with command, versions, machine and current folder."""

from __future__ import annotations

import datetime
import json
import platform
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ..core import fields
from ..core.errors import ArgumentError, CheckpointError
from .files import write_json_atomically
from .provenance import provenance

STARTS: Final = "starts.json"
_TEXTS: Final = ("started", "current_folder", "run_folder", "system", "process")
_ENTRIES: Final = fields.list_of(
    fields.fields(
        {
            **dict.fromkeys(_TEXTS, fields.text),
            **dict.fromkeys(("file", "git_commit"), fields.optional(fields.text)),
            **dict.fromkeys(("command", "included"), fields.list_of(fields.text)),
            "seed": fields.optional(fields.integer()),
            "made_with": fields.mapping,
        }
    )
)
"""Contents of ``STARTS``."""
_PROCESS: Final = uuid.uuid4().hex
"""Id of this process, so that each run records it only once."""


def add_start(
    folder: Path,
    seed: int | None,
    command: Sequence[str] = (),
    file: Path | None = None,
    included: Sequence[str] = (),
) -> None:
    """Append an entry.

    Args:
        folder: the run folder.
        seed: seed of the run.
        command: the command line, one item per argument; by default that of this process.
        file: the experiment file or program; by default this process's program.
        included: absolute paths of files included by the experiment file.

    Raises:
        CheckpointError: the record is damaged.
    """
    if file is None and sys.argv and Path(sys.argv[0]).is_file():
        file = Path(sys.argv[0])
    entry = {
        "started": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": list(command or sys.argv),
        "file": None if file is None else str(file.absolute()),
        "included": list(included),
        "current_folder": str(Path.cwd()),
        "run_folder": str(folder.resolve()),
        "seed": seed,
        "git_commit": git_commit((file or Path("here")).absolute().parent),
        "system": platform.platform(),
        "made_with": provenance(),
        "process": _PROCESS,
    }
    write_json_atomically(folder / STARTS, [*read_starts(folder), entry])


def ensure_start(folder: Path, seed: int) -> None:
    """Append an entry for this process, unless it is the last one already; errors as for :func:`add_start`."""
    starts = read_starts(folder)
    if not starts or starts[-1]["process"] != _PROCESS:
        add_start(folder, seed)


def read_starts(folder: Path) -> list[dict[str, Any]]:
    """Read the entries, oldest first; empty without a record.

    Raises:
        CheckpointError: the record is damaged; names the file.
    """
    path = folder / STARTS
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    try:
        fields.check(path, entries, _ENTRIES)
    except ArgumentError as error:
        raise CheckpointError(str(error)) from error
    found: list[dict[str, Any]] = entries
    return found


def began_in(folder: Path) -> Path | None:
    """The current folder when a run began, against which recorded relative paths are resolved.

    Args:
        folder: the run folder.

    Returns:
        None if they are resolved against the current folder: the run has not begun, that folder no longer exists, or
        the run folder was moved or copied, probably together with the files that it names.

    Raises:
        CheckpointError: the record is damaged.
    """
    here = str(folder.resolve())
    found = [Path(start["current_folder"]) for start in read_starts(folder) if start["run_folder"] == here]
    return found[0] if found and found[0].is_dir() else None


def git_commit(folder: Path) -> str | None:
    """The commit checked out at ``folder``, with ``-dirty`` if files have changed."""
    command = ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):  # no git, no repository, no commit
        return None
    return result.stdout.strip() or None
