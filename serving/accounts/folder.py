"""A service's data folder: its permissions, its server and its database."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from ...run_dir.files import replacing, write_file
from ..refusals import UNAVAILABLE, RefusedError, UnusableError

AGENTS: Final = "agents"
DATABASE: Final = "service.db"
_IDENTITY: Final = "identity.json"
_LOCK: Final = "lock"
_LEAST_FREE: Final = 8 * 2**20
_ASKING: Final = 0.1
_PATIENCE: Final = 0.5
"""Seconds for which a held lock is retried: a query of the holder holds it for a moment."""


@dataclasses.dataclass(frozen=True)
class Holder:
    """The process that holds a data folder. Empty if its record cannot be read."""

    pid: int | None = None
    host: str = ""
    what: str = ""
    database: str = ""

    def __str__(self) -> str:
        if self.pid is None:
            return "another process"
        return f"{self.what or 'a process'} (process {self.pid} on {self.host})"


def prepare(folder: Path) -> Path:
    """Create the folder if it is missing, private to the user. A folder with other content keeps its mode.

    Raises:
        UnusableError: it cannot be created or used.
    """
    folder = folder.expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        ours = (folder / _IDENTITY).exists() or not any(folder.iterdir())
        if ours and folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise UnusableError(
            f"Data folder {folder} cannot be used: {error.strerror}. Choose another one with --data"
        ) from None
    return folder


def is_known(folder: Path) -> bool:
    """Whether this is the data folder of a service, or what is left of one without its ``identity.json``."""
    return any((folder / name).exists() for name in (_IDENTITY, DATABASE))


@contextlib.contextmanager
def named(folder: Path) -> Iterator[None]:
    """Translate errors of the operating system, with the path, and of the database, with the folder's path.

    Raises:
        UnusableError: in place of an OSError, or of ``database_unavailable``.
    """
    try:
        yield
    except ConnectionError:  # the reader of the output is gone
        raise
    except RefusedError as error:
        if error.code != UNAVAILABLE:
            raise
        raise UnusableError(f"{error} (data folder {folder}{space(folder)})") from error
    except OSError as error:
        where = error.filename or folder
        raise UnusableError(f"{where} cannot be used: {error.strerror or error}{space(folder)}") from error


def space(path: Path) -> str:
    """Part of a message about the disk of a path, or of its future folder: that it is full, if so."""
    there = next((one for one in (path, *path.parents) if one.is_dir()), path)
    with contextlib.suppress(OSError):
        return f": the disk of {there} is full" if is_full(there) else ""
    return ""


def is_full(folder: Path) -> bool:
    """Whether a folder's disk has practically no space left.

    Raises:
        OSError: it is unknown.
    """
    return shutil.disk_usage(folder).free < _LEAST_FREE


@contextlib.contextmanager
def holding(folder: Path, what: str = "axonrl serve", database: str = "", *, shared: bool = False) -> Iterator[None]:
    """Context in which this process is the only host of the folder's agents; it also ends with the process.

    Args:
        folder: a prepared data folder.
        what: the command, for the message of later processes.
        database: the database's address, without a password.
        shared: whether other shared hosts may host agents of the folder at the same time.

    Raises:
        UnusableError: another process holds it; names the process.
    """
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not _try_lock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, _PATIENCE):
            raise UnusableError(
                f"Data folder {folder} is in use by {_holder_in(folder)}. Stop it first, or choose another folder with"
                " --data"
            )
        about = {"pid": os.getpid(), "host": socket.gethostname(), "what": what, "database": database}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({**about, "since": datetime.now(timezone.utc).isoformat()}).encode(), 0)
        try:
            yield
        finally:
            if not shared:  # otherwise it may be another server's record
                os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def holder(folder: Path) -> Holder | None:
    """A process that currently hosts this folder's agents; None if there is none."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:  # first shared with other queries, then exclusive: this finds servers that share the folder, too
        free = all(_try_lock(descriptor, kind, _ASKING) for kind in (fcntl.LOCK_SH, fcntl.LOCK_EX))
        return None if free else _holder_in(folder)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, kind: int, patience: float) -> bool:
    end = time.monotonic() + patience
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return True
        if time.monotonic() >= end:
            return False
        time.sleep(0.02)


def _holder_in(folder: Path) -> Holder:
    try:
        record = json.loads((folder / _LOCK).read_bytes())
        return Holder(int(record["pid"]), str(record["host"]), str(record["what"]), str(record["database"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Holder()


@contextlib.contextmanager
def setting_up(folder: Path) -> Iterator[None]:
    """Let one process at a time inspect, create and migrate folder and database; others wait."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def identity(folder: Path) -> str | None:
    """The installation that this folder belongs to; None for a new folder.

    Raises:
        UnusableError: the file is damaged.
    """
    path = folder / _IDENTITY
    try:
        record: Any = json.loads(path.read_bytes())
        return str(record["installation"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnusableError(
            f"{path} cannot be read: {type(error).__name__}. Restore it, or the whole folder, from a backup"
        ) from None


def write_identity(folder: Path, installation: str) -> None:
    """Write identity.json, once."""
    with replacing(folder / _IDENTITY) as temporary:
        temporary.touch(0o600)
        write_file(temporary, [(json.dumps({"installation": installation}) + "\n").encode()])
