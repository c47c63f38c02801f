"""Crash-safe files: written atomically and synced to disk."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from ..core.errors import CheckpointError

CHUNK_BYTES: Final = 1 << 24
"""Bytes read or written at once."""


@dataclasses.dataclass(frozen=True)
class FileRecord:
    """Size in bytes and SHA-256 (hexadecimal) of a file."""

    size: int
    sha256: str


def write_file(path: Path, pieces: Iterable[bytes | memoryview]) -> FileRecord:
    """Write a file and sync it to disk.

    Returns:
        Its size and hash, computed from the data written.

    Raises:
        OSError: from the operating system; the file may be incomplete.
    """
    size, digest = 0, hashlib.sha256()
    with path.open("wb") as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
            size += len(piece)
        file.flush()
        os.fsync(file.fileno())
    return FileRecord(size, digest.hexdigest())


def check_file(path: Path, expected: FileRecord) -> None:
    """Compare a file with its record.

    Raises:
        CheckpointError: it is missing, unreadable, or differs in size or hash; names the file.
    """
    try:
        size = path.stat().st_size
        if size != expected.size:
            raise CheckpointError(f"{path.name} has {size} bytes instead of {expected.size}")
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read: {error.strerror}") from error
    if digest.hexdigest() != expected.sha256:
        raise CheckpointError(f"the SHA-256 of {path.name} has changed")


def sync_folder(path: Path) -> None:
    """Sync the entries of a folder to disk."""
    if os.name == "nt":  # Windows cannot open folders, and syncs them itself
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot sync
            raise
    finally:
        os.close(descriptor)


def make_folders(path: Path) -> None:
    """Create a folder and its missing parents, and sync them to disk."""
    if path.is_dir():
        return
    make_folders(path.parent)
    path.mkdir(exist_ok=True)
    sync_folder(path.parent)


def why_unwritable(folder: Path) -> str:
    """Explain why a folder cannot be written to or created; empty if it can. Leaves nothing behind.

    It tries to write, as permissions say nothing about full or read-only disks, or for root.
    """
    missing = [one for one in (folder, *folder.parents) if not os.path.lexists(one)]
    there = missing[-1].parent if missing else folder
    if not there.is_dir():
        return f"{there} is not a folder"
    made, what = list[Path](), f"{folder} cannot be written to"
    try:
        for one in reversed(missing):
            what = f"{one} cannot be created"
            one.mkdir()
            made.append(one)
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return f"{what}: {error.strerror}"
    finally:
        for one in reversed(made):
            with contextlib.suppress(OSError):
                one.rmdir()


def ends_with_a_line(path: Path) -> bool:
    """Is a file empty, or is its last line complete? A kill or a full disk may have cut it short."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def remove(path: Path) -> None:
    """Remove a file, a link, or a folder with its contents."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``, which replaces ``path`` at the end unless the body fails.

    Raises:
        OSError: from the operating system.
    """
    temporary = path.with_name(f".{path.name}.tmp")  # a fixed name, so that a killed writer's is overwritten
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_atomically(path: Path, pieces: bytes | Iterable[bytes | memoryview]) -> None:
    """Write a file atomically and sync it to disk. One writer at a time.

    Raises:
        CheckpointError: the file cannot be written; names it. An earlier version is unchanged.
    """
    try:
        with replacing(path) as temporary:
            write_file(temporary, [pieces] if isinstance(pieces, bytes) else pieces)
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{path} cannot be written: {path.parent} is missing, or was removed while in use"
        ) from error
    except OSError as error:
        raise CheckpointError(f"{path} cannot be written: {error}; an earlier version is unchanged") from error


def write_json_atomically(path: Path, value: Any) -> None:
    """Write a JSON file with :func:`write_atomically`.

    NaN and infinities are written as Python writes them, ``NaN`` and ``Infinity``.

    Raises:
        ValueError: ``value`` is not a JSON value; names the file.
        CheckpointError: the file cannot be written.
    """
    try:
        data = json.dumps(value, indent=2).encode()
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} cannot be written as JSON: {error}") from error
    write_atomically(path, data + b"\n")
