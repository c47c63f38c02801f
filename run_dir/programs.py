"""Cache of converted programs, in a folder shared by all runs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ..core.checks import counted, number
from ..core.errors import CheckpointError
from .arrays import load_arrays, save_arrays
from .files import make_folders

PROGRAMS = "programs"
VARIABLE = "AXONRL_CACHE"
"""Environment variable: the shared folder; empty for none."""
SIZE = "AXONRL_CACHE_MB"
"""Environment variable: its maximum size, in MiB."""
MAX_BYTES = 256 * 2**20
"""Maximum size of the shared folder; the least recently used programs are removed."""
_LEFT: Final = 24 * 3600
"""Age in seconds after which a writer's temporary files count as abandoned."""
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


def program_folder() -> Path | None:
    """Folder of training programs in the shared cache, each in a directory; None for none."""
    folder = shared_folder()
    return None if folder is None else folder / PROGRAMS


def shared_content(name: str, key: str, make: Callable[[], bytes]) -> bytes:
    """Content of this name and key from the shared folder; if missing, made by ``make`` and stored there."""
    folder = shared_folder()
    if folder is None:
        return make()
    path = folder / f"{name}-{key}.safetensors"
    content = _read(path, key) if _is_there(path) else None
    if content is None:
        content = make()
        _write(path, key, content)
        remove_oldest()
    else:
        with contextlib.suppress(OSError):
            os.utime(path)
    return content


class Entry(NamedTuple):
    """An entry of the shared cache."""

    used: int
    """When it was used last, in nanoseconds."""
    size: int
    path: Path

    def summary(self) -> dict[str, Any]:
        """Kind and path, and a description for people."""
        try:
            found = json.loads((self.path / "program.json").read_bytes())
            params, environments = json.dumps(found["params"] or {}), counted(found["num_envs"], "environment")
            what = f"{found['model_fn']}, {environments}, params {params}"
            return {"kind": "training", "what": what, "path": str(self.path)}
        except (OSError, ValueError, KeyError):
            return {"kind": "converted", "what": self.path.name.partition("-")[0], "path": str(self.path)}


def entries() -> list[Entry]:
    """Entries of the shared cache, most recently used first: converted programs, and training programs."""
    folder, found = shared_folder(), list[Entry]()
    if folder is None:
        return found
    for path in paths_in(folder, "*.safetensors"):
        with contextlib.suppress(OSError):
            found.append(Entry(path.stat().st_mtime_ns, path.stat().st_size, path))
    for path in paths_in(folder / PROGRAMS, "[!.]*"):
        with contextlib.suppress(OSError):
            files = [file for file in path.rglob("*") if file.is_file()]
            used = (path / "program.json").stat().st_mtime_ns
            found.append(Entry(used, sum(file.stat().st_size for file in files), path))
    return sorted(found, reverse=True)


def paths_in(folder: Path, pattern: str) -> list[Path]:
    """Paths in a folder; none if it cannot be read."""
    try:
        return [*folder.glob(pattern)]
    except OSError:
        return []


def remove(path: Path) -> None:
    """Remove an entry, if it is there; another process may do so at the same time."""
    with contextlib.suppress(OSError):
        if not path.is_dir():
            path.unlink()
            return
        gone = path.with_name(f".{path.name}.{os.getpid()}.gone")
        path.rename(gone)  # atomically, so that nobody reads half of it
        shutil.rmtree(gone, ignore_errors=True)


def max_bytes() -> int:
    """Maximum size of the shared folder: ``AXONRL_CACHE_MB`` in MiB, which is checked, else ``MAX_BYTES``."""
    given: Any = os.environ.get(SIZE)
    if not given:
        return MAX_BYTES
    with contextlib.suppress(ValueError):
        given = float(given)
    return int(number(SIZE, given, at_least=0) * 2**20)


def remove_oldest(kept: Path | None = None) -> None:
    """Remove the least recently used entries of the shared cache, beyond its maximum size; never ``kept``.

    Files left by killed processes are removed after a day.
    """
    total, largest, folder = 0, max_bytes(), program_folder()
    for entry in entries():
        total += entry.size
        if total > largest and entry.path != kept:
            remove(entry.path)
    for path in () if folder is None else paths_in(folder, ".*"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < time.time() - _LEFT:
                remove(path)


def _is_there(path: Path) -> bool:
    """False also where this user may not look."""
    try:
        return path.exists()
    except OSError:
        return False


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


def _write(path: Path, key: str, content: bytes) -> None:
    about = {"key": key, "sha256": hashlib.sha256(content).hexdigest()}
    try:
        make_folders(path.parent)
        save_arrays(path, {"program": np.frombuffer(content, np.uint8)}, about)
    except (CheckpointError, OSError) as error:  # it is only a cache
        logger.info("the converted program cannot be cached in %s: %s", path.parent, error)
