"""Folders that are written whole or not at all, and over nothing but what was written so before."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from ..errors import ArgumentError, CheckpointError
from .files import FileRecord, make_folders, remove, sync_folder, write_file


def target_of(directory: Any, what: str, names: Collection[str]) -> Path:
    """The folder that will be written.

    Args:
        directory: what the user gave.
        what: is written, for messages: "an export".
        names: of what it holds, the file that every such folder has first; a folder with others is left alone.

    Raises:
        ArgumentError: it is no path, or there is something else.
    """
    if not isinstance(directory, str | os.PathLike) or not str(directory):
        raise ArgumentError(f"directory must be a path, got {directory!r}", "directory", directory)
    target = Path(directory).absolute()
    if not target.exists() and not target.is_symlink():
        return target
    if not target.is_dir() or target.is_symlink():
        raise ArgumentError(f"{what} needs a directory: {target} is a file or a link", "directory", directory)
    found, first = {path.name for path in target.iterdir()}, next(iter(names))
    if found and (first not in found or not found <= set(names)):
        others = ", ".join(sorted(found - set(names))[:3]) or ", ".join(sorted(found))
        message = f"{target} holds something else than {what} ({others}): choose another directory"
        raise ArgumentError(message, "directory", directory)
    return target


@contextlib.contextmanager
def staged(target: Path) -> Iterator[Path]:
    """A folder to write into, which takes the place of ``target`` at the end.

    Raises:
        CheckpointError: it cannot be written.
    """
    beside, before = target.with_name(f".{target.name}.tmp"), target.with_name(f".{target.name}.old")
    try:
        make_folders(target.parent)
        if beside.exists():  # of a writer that was killed
            remove(beside)
        beside.mkdir()
        yield beside
        if before.exists():  # likewise
            remove(before)
        if target.exists():
            target.rename(before)
        beside.rename(target)
        sync_folder(target.parent)
        if before.exists():
            remove(before)
    except OSError as error:
        raise CheckpointError(f"{target} cannot be written: {error}") from error


def written(path: Path, pieces: Iterable[bytes | memoryview]) -> dict[str, Any]:
    """Write a file, and tell its name, its size and its SHA-256."""
    record: FileRecord = write_file(path, pieces)
    return {"file": path.name, "size": record.size, "sha256": record.sha256}
