"""Folders that are written whole or not at all, and over nothing but what was written so before."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ..core.checks import shortened
from ..core.errors import ArgumentError, CheckpointError
from .files import FileRecord, make_folders, remove, sync_folder, why_unwritable, write_file


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
    target = Path(os.path.abspath(directory))  # noqa: PTH100 (".." is no name of a folder; links are refused below)
    try:
        target.lstat()
    except FileNotFoundError:
        return target
    except (OSError, ValueError) as error:  # too long, inside of a file, or with a null character
        where, why = shortened(str(target)), _reason(error)
        if isinstance(error, NotADirectoryError):
            where, why = str(target), why_unwritable(target.parent)
        message = f"{what} cannot be written to {where}: {why}. Choose another directory."
        raise ArgumentError(message, "directory", directory) from error
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
    """A folder to write into, which takes the place of ``target`` at the end; if the body fails, nothing has changed.

    Raises:
        CheckpointError: it cannot be written, or another process is writing it.
    """
    beside, before = target.with_name(f".{target.name}.tmp"), target.with_name(f".{target.name}.old")
    try:
        make_folders(target.parent)
        with only_writer(target.with_name(f".{target.name}.lock"), wait=False):
            _put_back(before, target)  # of a writer that was killed, as what is removed here
            for left in (beside, before):
                if left.exists():
                    remove(left)
            beside.mkdir()
            try:
                yield beside
                if target.exists():
                    target.rename(before)
                beside.rename(target)
            finally:
                _put_back(before, target)
                if beside.exists():
                    remove(beside)
            sync_folder(target.parent)
            if before.exists():
                remove(before)
    except Timeout:
        raise CheckpointError(f"{target} is being written by another process") from None
    except OSError as error:
        raise CheckpointError(f"{target} cannot be written: {_reason(error)}. Choose another directory.") from error


def _reason(error: OSError | ValueError) -> str:
    """What the operating system says, without its number."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _put_back(before: Path, target: Path) -> None:
    """Where the last step failed, or was never made, the folder that was there before is there again."""
    if before.exists() and not target.exists():
        before.rename(target)


@contextlib.contextmanager
def only_writer(path: Path, *, wait: bool) -> Iterator[None]:
    """Hold a lock file, which is there meanwhile: nobody else does, in any process of this machine.

    Args:
        path: of the lock file.
        wait: for whoever holds it; else that is a ``Timeout``.

    Raises:
        OSError: it cannot be written.
    """
    lock = FileLock(path, thread_local=False)
    path.touch()  # which says why it cannot be written; to FileLock such a file is one that somebody else holds
    lock.acquire(blocking=wait)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # Windows keeps what is open
            path.unlink()
        lock.release()


def written(path: Path, pieces: Iterable[bytes | memoryview]) -> dict[str, Any]:
    """Write a file, and tell its name, its size and its SHA-256."""
    record: FileRecord = write_file(path, pieces)
    return {"file": path.name, "size": record.size, "sha256": record.sha256}
