"""The files of agents: finding, reading and writing them. Does not load TensorFlow."""

from __future__ import annotations

import contextlib
import datetime
import io
import itertools
import json
import math
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ....core.errors import CheckpointError
from ....core.protocols import Array
from ....run_dir.files import make_folders, write_atomically
from ...common import state_files
from ..spaces.errors import TensorforceError, choice, refuse

TENSORFLOW, NUMPY, HDF5, ACT_ONLY = "tensorflow", "numpy", "hdf5", "pb-actonly"
SUFFIXES: Final = {
    TENSORFLOW: (".safetensors",),
    NUMPY: (".npz",),
    HDF5: (".hdf5", ".h5"),
    ACT_ONLY: (".actonly",),
}
"""Suffixes by format: the first one is written, all are read."""
SAVED: Final = "saved"
"""Key of :func:`saved_names` in the JSON file."""
_FORMATS: Final = {suffix: format for format, suffixes in SUFFIXES.items() for suffix in suffixes}
_DAMAGED: Final = (CheckpointError, OSError, ValueError, KeyError, RuntimeError, EOFError, zlib.error)


def read_path(place: str, given: Any) -> str:
    """A path as a string, unchanged; TensorforceError if it is not a path."""
    if not isinstance(given, str | os.PathLike) or not os.fspath(given):
        refuse(place, f"must be a path, got {given!r}", given)
    return os.fspath(given)


def make_directory(place: str, directory: str) -> Path:
    """Create the directory of a specification, if missing.

    Raises:
        TensorforceError: it cannot be created.
    """
    try:
        make_folders(Path(directory))
    except OSError as error:
        argument = f"{place}['directory']"
        problem = f"{argument} cannot be created: {directory}: {error.strerror or error}"
        raise TensorforceError(problem, argument, directory) from None
    return Path(directory)


@contextlib.contextmanager
def writing(place: str, argument: str, directory: Any) -> Iterator[None]:
    """Context that names the directory in errors of writing files."""
    try:
        yield
    except OSError as error:
        problem = f"{place}: {directory} cannot be written to: {error.strerror or error}"
        raise TensorforceError(problem, argument, str(directory)) from error
    except CheckpointError as error:
        raise TensorforceError(f"{place}: {error}", argument, str(directory)) from error


def stamps() -> Iterator[str]:
    """Timestamps ``YYYYmmdd-HHMMSS``: now, then each following second, to find an unused name."""
    now = datetime.datetime.now()
    for seconds in itertools.count():
        yield f"{now + datetime.timedelta(seconds=seconds):%Y%m%d-%H%M%S}"


# -- which file a name means ------------------------------------------------------------------------------------------


class Saved(NamedTuple):
    """A saved agent, possibly act-only."""

    path: Path
    format: str
    asked: str
    """The requested name, without a suffix."""


def find(where: str, directory: Any, filename: Any, format: str | None) -> Saved:
    """The file with a name: the exact one, else the last one written, else the one with the highest number.

    Args:
        where: prefix of messages.
        directory: where to look.
        filename: with or without number and suffix.
        format: a key of :data:`SUFFIXES`; None: the existing one, other than act-only.

    Raises:
        TensorforceError: there is no such file, or there are several formats and none is given.
    """
    if format is not None:
        choice(f"{where}: format", format, SUFFIXES)
    path = Path(read_path(f"{where}: directory", directory), read_path(f"{where}: filename", filename))
    asked, suffix = _split(path.name)
    if suffix and format not in (None, _FORMATS[suffix]):
        refuse(f"{where}: format", f"is {format!r}, but {path.name!r} has the format {_FORMATS[suffix]!r}", format)
    if not path.parent.is_dir():
        refuse(f"{where}: directory", f"is not a folder: {path.parent}", str(directory))
    allowed = tuple(one for one in _FORMATS if _FORMATS[one] != ACT_ONLY) if format is None else SUFFIXES[format]
    names = [(asked, (suffix,)), (path.name, allowed)] if suffix else [(asked, allowed)]  # "a.npz" may be a name, too
    tried = [(*one, _matches(path.parent, *one)) for one in names]
    asked, allowed, found = next((one for one in tried if one[2]), tried[0])
    formats = {_FORMATS[one.suffix] for _, one in found}
    if len(formats) > 1:
        files = ", ".join(sorted(one.name for _, one in found))
        refuse(f"{where}: format", f"is required, one of {', '.join(sorted(formats))}: {path} matches {files}", format)
    if not found:
        there = ", ".join(sorted(one.name for one in path.parent.iterdir() if not one.name.startswith(".")))
        wanted = " or ".join(f"{asked}{one}" for one in allowed)
        problem = f"names no saved agent: {wanted} (or with -<number>); {path.parent} has {there or 'no files'}"
        refuse(f"{where}: filename", problem, str(filename))
    return Saved(found[-1][1], _FORMATS[found[-1][1].suffix], asked)


def numbered_files(folder: Path, name: str) -> list[Path]:
    """The files ``<name>-<number>`` of the format ``tensorflow``, in the order written."""
    found = _matches(folder, name, SUFFIXES[TENSORFLOW]) if folder.is_dir() else []
    return [path for number, path in found if number < math.inf]


def saved_names(folder: Path, name: str) -> list[str]:
    """Names of the files of the format ``tensorflow`` under a name, in the order written."""
    try:
        listed = json.loads((folder / f"{name}.json").read_text("utf-8"))[SAVED]
        return [one for one in listed if (folder / f"{one}{SUFFIXES[TENSORFLOW][0]}").is_file()]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _matches(folder: Path, name: str, allowed: tuple[str, ...]) -> list[tuple[float, Path]]:
    """Files that ``name`` may mean, with their numbers (infinite for the exact name), the best one last.

    For the format ``tensorflow``, numbers do not tell the order of writing: a new run begins at 0.
    """
    order = {one: place for place, one in enumerate(saved_names(folder, name), 1)}
    found: list[tuple[bool, int, float, int, str, Path]] = []
    for path in folder.iterdir():
        stem, suffix = _split(path.name)
        number = re.fullmatch(rf"{re.escape(name)}-([0-9]+)", stem)
        if suffix in allowed and (stem == name or number):
            place = order.get(stem, 0) if _FORMATS[suffix] in (TENSORFLOW, ACT_ONLY) else 0
            count = int(number[1]) if number else math.inf
            found.append((number is None, place, count, -allowed.index(suffix), path.name, path))
    return [(count, path) for _, _, count, _, _, path in sorted(found)]


def _split(name: str) -> tuple[str, str]:
    """A file's name, and its suffix if it is that of a saved agent."""
    suffix = next((one for one in _FORMATS if name.endswith(one) and name != one), "")
    return name.removesuffix(suffix), suffix


# -- reading and writing ----------------------------------------------------------------------------------------------


def read_content(where: str, saved: Saved) -> Any:
    """The state, or the arrays by name, of a saved agent.

    Raises:
        TensorforceError: the file is damaged, not a saved agent, or an act-only agent.
    """
    if saved.format == ACT_ONLY:
        refuse(f"{where}: format", f"cannot be {ACT_ONLY!r}, which has no agent: use Agent.load", saved.format)
    if saved.format != TENSORFLOW:
        return read_arrays(where, saved.path)
    with _readable(where, saved.path):
        state = state_files.read_state(saved.path)
    if state is None:
        refuse(f"{where}: filename", f"means {saved.path}, which is not a saved agent", str(saved.path))
    return state


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays as ``.npz`` or ``.hdf5``, by the path's suffix; an existing file is replaced atomically.

    Raises:
        OSError, CheckpointError: it cannot be written.
    """
    content = io.BytesIO()
    if path.suffix in SUFFIXES[HDF5]:
        import h5py

        with h5py.File(content, "w") as file:
            for name, array in arrays.items():
                file.create_dataset(name, data=array)
    else:
        write_npz(content, arrays)
    write_atomically(path, content.getvalue())


def write_npz(file: Any, arrays: Mapping[str, Array]) -> None:
    """Write like ``np.savez_compressed``, which does not accept all names that states may have."""
    write: Any = np.lib.format.write_array  # untyped in NumPy 2.2
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                write(member, np.asanyarray(array), allow_pickle=False)


def read_arrays(where: str, path: Path) -> dict[str, Array]:
    """Read a file written by :func:`write_arrays`.

    Raises:
        TensorforceError: the file is damaged.
    """
    with _readable(where, path):
        if path.suffix not in SUFFIXES[HDF5]:
            if not zipfile.is_zipfile(path):
                raise ValueError("it is not an npz file, or it is truncated")
            # NumPy does not close a damaged file that it has opened itself.
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        import h5py

        names: list[str] = []
        with h5py.File(path, "r") as opened:
            opened.visit(names.append)
            return {name: np.asarray(opened[name][()]) for name in names if isinstance(opened[name], h5py.Dataset)}


@contextlib.contextmanager
def _readable(where: str, path: Path) -> Iterator[None]:
    """Context that raises TensorforceError if a file is missing, truncated or of another kind."""
    try:
        yield
    except (*_DAMAGED, zipfile.BadZipFile) as error:
        raise TensorforceError(f"{where}: {path} cannot be read: {error}", "filename", str(path)) from error
