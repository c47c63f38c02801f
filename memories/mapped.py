"""Arrays in files, for memories larger than the machine's RAM."""

from __future__ import annotations

import functools
import math
import mmap
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import ArgumentError
from ..core.protocols import Array
from .columns import Zeros


def checked_path(path: Any) -> str:
    """A path as text; ``ArgumentError`` if it is not a path."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path) or isinstance(os.fspath(path), bytes):
        raise ArgumentError(f"path must be a folder for the memory's files, or None, got {path!r}", "path", path)
    return os.fspath(path)


def files_in(folder: Path, nbytes: int) -> Zeros:
    """Make arrays in files of a folder, which is created if it is missing: see :func:`sparse`.

    Args:
        folder: for the files.
        nbytes: of all arrays together.

    Raises:
        ArgumentError: the folder cannot be used, or its disk has less space.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        raise ArgumentError(f"the memory's folder {folder} cannot be used: {error}", "path", str(folder)) from error
    if nbytes > free:
        needs = f"needs {nbytes:,} bytes, and its disk has {free:,} left; use a smaller size"
        raise ArgumentError(f"the memory's folder {folder} {needs}", "path", str(folder))
    return functools.partial(sparse, folder=folder)


def sparse(name: str, shape: tuple[int, ...], dtype: np.dtype[Any], folder: Path | None = None) -> Array:
    """Array of zeros in a file: whatever its size, it takes RAM or disk only where something is written.

    The file has no name: its space is freed when the array or the process ends.

    Args:
        name: of the array, for the message.
        shape: of the array.
        dtype: of the array.
        folder: of the file; None for the system's.

    Raises:
        ArgumentError: files cannot be that large here.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    if not nbytes:  # nothing can be mapped
        return np.zeros(shape, dtype)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.truncate(nbytes)
            mapped = mmap.mmap(file.fileno(), nbytes)
    except OSError as error:
        message = f"a memory of this size needs a file of {nbytes:,} bytes for its {name}: {error.strerror}"
        raise ArgumentError(message, "size") from error
    array: Array = np.frombuffer(mapped, dtype).reshape(shape)  # a plain array: as fast
    return array
