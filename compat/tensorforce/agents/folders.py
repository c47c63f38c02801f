"""How recorders, summarizers and savers are specified, their folders, and names with the time in them."""

from __future__ import annotations

import datetime
import itertools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ....run_dir.files import make_folders
from ..spaces.errors import TensorforceError, known, mapping, refuse


def read_keys(place: str, spec: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    """A dictionary with some of these keys, whose hyphens may be written as underscores, and with a ``directory``.

    Raises:
        TensorforceError: another key, or no directory.
    """
    given = {key.replace("_", "-"): value for key, value in mapping(place, spec).items()}
    known(place, given, keys, what="key")
    directory = given.get("directory")
    if not isinstance(directory, str | os.PathLike) or not os.fspath(directory):
        refuse(f"{place}['directory']", f"must be a path, got {directory!r}", directory)
    return given


def make_directory(place: str, given: Mapping[str, Any]) -> Path:
    """Create the directory of a specification, if it does not exist.

    Raises:
        TensorforceError: it cannot be created.
    """
    path = Path(given["directory"])
    try:
        make_folders(path)
    except OSError as error:
        problem = f"cannot be created: {path}: {error.strerror or error}"
        raise TensorforceError(f"{place}['directory'] {problem}", f"{place}['directory']", str(path)) from None
    return path


def stamps() -> Iterator[str]:
    """The time, ``YYYYmmdd-HHMMSS``, then that of each following second: the first that makes a new name is taken."""
    now = datetime.datetime.now()
    for seconds in itertools.count():
        yield f"{now + datetime.timedelta(seconds=seconds):%Y%m%d-%H%M%S}"
