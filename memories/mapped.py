"""Mapped: arrays in the files of a folder, for memories larger than the machine's RAM."""

from __future__ import annotations

import contextlib
import gc
import json
import math
import mmap
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from filelock import FileLock, Timeout

from ..core.errors import ArgumentError
from ..core.protocols import Array

_LAYOUT: Final = "layout.json"
_LOCK: Final = ("lock", "lock.pid")


class Mapped:
    """A folder with a file for each array, and ``layout.json``, which describes them. One memory uses it at a time.

    The files are sparse: they take disk space only where something was written. An earlier memory's content is
    discarded; the checkpoints hold it. The lock is held as long as this object lives.

    Args:
        folder: created if it is missing.
        arrays: name to shape and dtype.

    Raises:
        ArgumentError: the folder is in use, holds something else or is damaged, or the disk has less space.
    """

    def __init__(self, folder: Path, arrays: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]) -> None:
        self._folder, self._arrays = folder, dict(arrays)
        self._files = {name: folder / f"{number:02d}.array" for number, name in enumerate(arrays)}
        self._sizes = {name: math.prod(shape) * dtype.itemsize for name, (shape, dtype) in arrays.items()}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = self._locked()
            try:
                self._refuse_other()
                self._refuse_full_disk()
                self._make()
            except BaseException:
                self._lock.release()
                raise
        except OSError as error:
            raise self._refused(f"cannot be used: {error}") from error

    def _make(self) -> None:
        path = self._folder / _LAYOUT
        path.unlink(missing_ok=True)  # a folder without it is incomplete
        for name, file_path in self._files.items():
            file_path.unlink(missing_ok=True)  # not truncated: a process that maps it, lock or not, keeps its own
            with file_path.open("wb") as file:
                file.truncate(self._sizes[name])
        layout = [(name, shape, dtype.str) for name, (shape, dtype) in self._arrays.items()]
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_text(json.dumps(layout))
        temporary.replace(path)

    def zeros(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """The array of this name."""
        with self._files[name].open("r+b") as file:
            return _mapped(file, shape, dtype)

    def _locked(self) -> FileLock:
        lock, holder = FileLock(self._folder / _LOCK[0], thread_local=False), self._folder / _LOCK[1]
        try:
            lock.acquire(blocking=False)
        except Timeout:
            gc.collect()  # an Agent without references, and its memory, may still exist
            try:
                lock.acquire(blocking=False)
            except Timeout:
                raise self._refused(f"is in use by {_holder(holder)}; every memory needs a folder of its own") from None
        with contextlib.suppress(OSError):  # only for the message above
            holder.write_text(str(os.getpid()))
        return lock

    def _refuse_other(self) -> None:
        """Refuse a folder that no memory of this layout has written, before anything is changed."""
        path, ours = self._folder / _LAYOUT, {*_LOCK, f".{_LAYOUT}.tmp", *(file.name for file in self._files.values())}
        if not path.exists():
            if others := sorted(file.name for file in self._folder.iterdir() if file.name not in ours):
                raise self._refused(f"holds something else than a memory ({', '.join(others[:3])})")
            return
        try:
            found = json.loads(path.read_text())
            there = {name: (tuple(shape), np.dtype(dtype)) for name, shape, dtype in found}
        except (TypeError, ValueError) as error:
            raise self._refused(f"is damaged: {_LAYOUT} does not say what it holds ({error}); {_REMEDY}") from error
        if list(there.items()) != list(self._arrays.items()):
            names = [name for name in (*self._arrays, *there) if self._arrays.get(name) != there.get(name)]
            what = "the same arrays in another order"
            if names:
                what = f"{names[0]} is {_text(there.get(names[0]))} there and {_text(self._arrays.get(names[0]))} here"
            raise self._refused(f"holds the arrays of another memory: {what}; {_REMEDY}")
        for name, file in self._files.items():
            size = file.stat().st_size if file.exists() else 0
            if size != self._sizes[name]:
                raise self._refused(
                    f"is damaged: {file.name} ({name}) has {size:,} bytes instead of {self._sizes[name]:,}; {_REMEDY}"
                )

    def _refuse_full_disk(self) -> None:
        taken = sum(getattr(file.stat(), "st_blocks", 0) * 512 for file in self._files.values() if file.exists())
        needed, free = sum(self._sizes.values()), shutil.disk_usage(self._folder).free + taken
        if needed > free:
            raise self._refused(f"needs {needed:,} bytes, and its disk has {free:,} left; use a smaller size")

    def _refused(self, problem: str) -> ArgumentError:
        return ArgumentError(f"the memory's folder {self._folder} {problem}", "path", str(self._folder))


_REMEDY = "remove the folder, or choose another one (checkpoints hold all that a memory needs to continue)"


def checked_path(path: Any) -> str:
    """A path as text; ``ArgumentError`` if it is not a path."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path) or isinstance(os.fspath(path), bytes):
        raise ArgumentError(f"path must be a folder for the memory's files, or None, got {path!r}", "path", path)
    return os.fspath(path)


def sparse(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Array of zeros in an anonymous file: takes RAM or disk only where something is written, however large it is.

    Raises:
        ArgumentError: files cannot be that large here.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    try:
        with tempfile.TemporaryFile() as file:
            file.truncate(nbytes)
            return _mapped(file, shape, dtype)
    except OSError as error:
        message = f"a memory of this size needs a file of {nbytes:,} bytes for its {name}: {error.strerror}"
        raise ArgumentError(message, "size") from error


def _mapped(file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    size = math.prod(shape) * dtype.itemsize
    if not size:  # nothing can be mapped
        return np.zeros(shape, dtype)
    array: Array = np.frombuffer(mmap.mmap(file.fileno(), size), dtype).reshape(shape)  # a plain array: as fast
    return array


def _text(array: tuple[tuple[int, ...], np.dtype[Any]] | None) -> str:
    return "missing" if array is None else f"{array[1]} {list(array[0])}"


def _holder(path: Path) -> str:
    try:
        holder = int(path.read_text())
    except (OSError, ValueError):
        return "another process"
    return "another memory of this process" if holder == os.getpid() else f"process {holder}"
