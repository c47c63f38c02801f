"""Cache of converted programs, in the run folder and in a folder shared by all runs."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..core.errors import CheckpointError
from .arrays import load_arrays, save_arrays
from .files import make_folders
from .record import FILE

FOLDER = "litert"
VARIABLE = "AXONRL_CACHE"
"""Environment variable: the shared folder; empty for none."""
MAX_BYTES = 256 * 2**20
"""Maximum size of the shared folder; the least recently used programs are removed."""
logger = logging.getLogger("axonrl")


def shared_folder() -> Path | None:
    """Folder of the shared cache: ``AXONRL_CACHE``, else ``axonrl`` in the user's cache; None for none."""
    given = os.environ.get(VARIABLE)
    if given is not None:
        return Path(given) if given else None
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "axonrl")
    except RuntimeError:  # no home folder
        return None


class ProgramCache:
    """Caches bytes by name, each with a key of its source.

    Args:
        folder: the run folder, used once it holds a run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, tuple[str, bytes]] = {}

    def __call__(self, name: str, key: str, make: Callable[[], bytes]) -> bytes:
        """Content of this name and key, from the run folder or the shared one; otherwise made by ``make``."""
        path = self._path(name)
        content = _read(path, key) if path.exists() else None
        if content is None:
            content = shared(name, key, make)
            self._made[name] = key, content
            self.keep()
        return content

    def keep(self) -> None:
        """Write new content; without a run, later, so that a failed or untrained model leaves nothing behind."""
        if (self._folder.parent / FILE).exists():
            for name, (key, content) in self._made.items():
                _write(self._path(name), key, content, logging.WARNING)
            self._made.clear()

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.safetensors"


def shared(name: str, key: str, make: Callable[[], bytes]) -> bytes:
    """Content of this name and key from the shared folder; otherwise made by ``make``, and stored there."""
    folder = shared_folder()
    if folder is None:
        return make()
    path = folder / f"{name}-{key}.safetensors"
    content = _read(path, key) if path.exists() else None
    if content is None:
        content = make()
        _write(path, key, content, logging.INFO)
        _remove_oldest(folder)
    else:
        with contextlib.suppress(OSError):
            os.utime(path)
    return content


def _remove_oldest(folder: Path) -> None:
    total = 0
    with contextlib.suppress(OSError):  # another process may also remove files
        found = [(path.stat().st_mtime_ns, path.stat().st_size, path) for path in folder.glob("*.safetensors")]
        for _, size, path in sorted(found, reverse=True):
            total += size
            if total > MAX_BYTES:
                path.unlink()


def _read(path: Path, key: str) -> bytes | None:
    try:
        arrays, about = load_arrays(path)
        content = arrays["program"].tobytes()
    except (CheckpointError, KeyError) as error:
        logger.warning("%s is damaged and will be converted again: %s", path, error)
        return None
    if about.get("key") != key:
        logger.info("%s is for another model or other versions and will be converted again", path)
        return None
    if about.get("sha256") != hashlib.sha256(content).hexdigest():
        logger.warning("%s is damaged and will be converted again: its content has changed", path)
        return None
    return content


def _write(path: Path, key: str, content: bytes, level: int) -> None:
    about = {"key": key, "sha256": hashlib.sha256(content).hexdigest()}
    try:
        make_folders(path.parent)
        save_arrays(path, {"program": np.frombuffer(content, np.uint8)}, about)
    except (CheckpointError, OSError) as error:  # only a cache
        logger.log(level, "the converted program cannot be cached in %s: %s", path.parent, error)
