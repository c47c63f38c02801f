"""Converted programs, kept in the run folder, so that a resumed run does not convert again."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..errors import CheckpointError
from .arrays import load_arrays, save_arrays
from .files import make_folders
from .record import FILE

FOLDER = "litert"
logger = logging.getLogger("axonrl")


class ProgramCache:
    """Keeps bytes by name, each with the key of what it was made from.

    Args:
        folder: where they are kept: in the run folder, once that holds a run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, tuple[str, bytes]] = {}

    def __call__(self, name: str, key: str, make: Callable[[], bytes]) -> bytes:
        """What is kept under ``name``, if it has this key and is whole; else what ``make`` returns, which is kept."""
        path = self._path(name)
        content = self._read(path, key) if path.exists() else None
        if content is None:
            content = make()
            self._made[name] = key, content
            self.keep()
        return content

    def keep(self) -> None:
        """Write what was made; without a run, later: a model that is refused or untrained leaves nothing behind."""
        if (self._folder.parent / FILE).exists():
            for name, (key, content) in self._made.items():
                self._write(self._path(name), key, content)
            self._made.clear()

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.safetensors"

    def _read(self, path: Path, key: str) -> bytes | None:
        try:
            arrays, about = load_arrays(path)
            content = arrays["program"].tobytes()
        except (CheckpointError, KeyError) as error:
            logger.warning("%s is damaged, and is made again: %s", path, error)
            return None
        if about.get("key") != key:
            logger.info("%s is of another model or of other versions, and is made again", path)
            return None
        if about.get("sha256") != hashlib.sha256(content).hexdigest():
            logger.warning("%s is damaged, and is made again: its content is not what was written", path)
            return None
        return content

    def _write(self, path: Path, key: str, content: bytes) -> None:
        about = {"key": key, "sha256": hashlib.sha256(content).hexdigest()}
        try:
            make_folders(self._folder)
            save_arrays(path, {"program": np.frombuffer(content, np.uint8)}, about)
        except (CheckpointError, OSError) as error:  # it is only a saving of time
            logger.warning("the converted program is not kept: %s", error)
