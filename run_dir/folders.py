"""Folders that are written atomically, and replace only folders of the same kind."""

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
    """Check and return the folder to write.

    Args:
        directory: the user's argument.
        what: kind of the contents, for messages: "an export".
        names: file names of such folders, first the one that all have; a folder with other files is refused.

    Raises:
        ArgumentError: it is not a path, or holds something else.
    """
    if not isinstance(directory, str | os.PathLike) or not str(directory):
        raise ArgumentError(f"directory must be a path, got {directory!r}", "directory", directory)
    target = Path(os.path.abspath(directory))  # noqa: PTH100 (".." is not a folder's name; links are refused below)
    try:
        target.lstat()
    except FileNotFoundError:
        return target
    except (OSError, ValueError) as error:  # too long, inside a file, or with a null character
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
        message = f"{target} holds something other than {what} ({others}): choose another directory"
        raise ArgumentError(message, "directory", directory)
    return target


@contextlib.contextmanager
def staged(target: Path) -> Iterator[Path]:
    """Yield a folder to write into, which replaces ``target`` at the end unless the body fails.

    Raises:
        CheckpointError: it cannot be written, or another process is writing it.
    """
    beside, before = target.with_name(f".{target.name}.tmp"), target.with_name(f".{target.name}.old")
    try:
        make_folders(target.parent)
        with only_writer(target.with_name(f".{target.name}.lock"), wait=False):
            _put_back(before, target)  # left by a killed writer, like the one removed here
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
    """The operating system's message, without its number."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _put_back(before: Path, target: Path) -> None:
    """Restore the previous folder if the last step failed or was not reached."""
    if before.exists() and not target.exists():
        before.rename(target)


@contextlib.contextmanager
def only_writer(path: Path, *, wait: bool) -> Iterator[None]:
    """Hold a lock file, which exists only within the context; excludes all other processes on this machine.

    Args:
        path: the lock file.
        wait: wait for the current holder; otherwise raise ``Timeout``.

    Raises:
        OSError: the lock file cannot be written.
    """
    lock = FileLock(path, thread_local=False)
    path.touch()  # raises if it cannot be written, which FileLock would take for a held lock
    lock.acquire(blocking=wait)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # Windows keeps open files
            path.unlink()
        lock.release()


def write_and_record(path: Path, pieces: Iterable[bytes | memoryview]) -> dict[str, Any]:
    """Write a file, and return its name, size and SHA-256."""
    record: FileRecord = write_file(path, pieces)
    return {"file": path.name, "size": record.size, "sha256": record.sha256}
