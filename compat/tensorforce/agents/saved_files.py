"""The files of saved agents: which of them a name means, and how they are read and written. Loads no TensorFlow."""

from __future__ import annotations

import contextlib
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
from ....run_dir.files import replacing
from ...common import state_files
from ..spaces.errors import TensorforceError, choice, refuse

TENSORFLOW, NUMPY, HDF5, ACT_ONLY = "tensorflow", "numpy", "hdf5", "pb-actonly"
SUFFIXES: Final = {
    TENSORFLOW: (".safetensors",),
    NUMPY: (".npz",),
    HDF5: (".hdf5", ".h5"),
    ACT_ONLY: (".actonly",),
}
"""By format: the first is what is written, all are read."""
SAVED: Final = "saved"
"""The key of the JSON file under which :func:`saved_names` are."""
_FORMATS: Final = {suffix: format for format, suffixes in SUFFIXES.items() for suffix in suffixes}
_DAMAGED: Final = (CheckpointError, OSError, ValueError, zipfile.BadZipFile, zlib.error)


class Saved(NamedTuple):
    """A saved agent, or what only acts."""

    path: Path
    format: str
    asked: str
    """The name that was asked for, without a suffix."""


# -- which file a name means ------------------------------------------------------------------------------------------


def find(where: str, directory: Any, filename: Any, format: str | None) -> Saved:
    """The file of a name: the exact one, else the last one written, else the one with the highest number.

    Args:
        where: for messages.
        directory: where to look.
        filename: with or without number and suffix.
        format: a key of :data:`SUFFIXES`; None for the one that there is, other than what only acts.

    Raises:
        TensorforceError: there is none, or there are several formats and none is given.
    """
    if format is not None:
        choice(f"{where}: format", format, SUFFIXES)
    for name, given in (("directory", directory), ("filename", filename)):
        if not isinstance(given, str | os.PathLike) or not os.fspath(given):
            refuse(f"{where}: {name}", f"must be a path, got {given!r}", given)
    path = Path(directory, filename)
    asked, suffix = _split(path.name)
    if suffix and format not in (None, _FORMATS[suffix]):
        refuse(f"{where}: format", f"is {format!r}, and {path.name!r} is of format {_FORMATS[suffix]!r}", format)
    if not path.parent.is_dir():
        refuse(f"{where}: directory", f"is not a folder: {path.parent}", str(directory))
    found = _matches(path.parent, asked, _allowed(suffix, format))
    formats = {_FORMATS[one.suffix] for _, one in found}
    if len(formats) > 1:
        files = ", ".join(sorted(one.name for _, one in found))
        refuse(f"{where}: format", f"is needed, one of {', '.join(sorted(formats))}: {path} means {files}", format)
    if not found:
        there = ", ".join(sorted(one.name for one in path.parent.iterdir() if not one.name.startswith(".")))
        wanted = " or ".join(f"{asked}{one}" for one in _allowed(suffix, format))
        problem = f"names no saved agent, {wanted} (or with -<number>); in {path.parent} there is {there or 'nothing'}"
        refuse(f"{where}: filename", problem, str(filename))
    return Saved(found[-1][1], _FORMATS[found[-1][1].suffix], asked)


def _allowed(suffix: str, format: str | None) -> tuple[str, ...]:
    """Suffixes of what is looked for, by the one that was given, else by the format."""
    if suffix:
        return (suffix,)
    if format is not None:
        return SUFFIXES[format]
    return tuple(suffix for suffix in _FORMATS if _FORMATS[suffix] != ACT_ONLY)


def numbered(folder: Path, name: str) -> list[Path]:
    """The files ``<name>-<number>`` of the format ``tensorflow``, the last one written at the end."""
    found = _matches(folder, name, SUFFIXES[TENSORFLOW]) if folder.is_dir() else []
    return [path for number, path in found if number < math.inf]


def saved_names(folder: Path, name: str) -> list[str]:
    """Names of the files of the format ``tensorflow`` under a name, in the order in which they were written."""
    try:
        listed = json.loads((folder / f"{name}.json").read_text("utf-8"))[SAVED]
        return [one for one in listed if (folder / f"{one}{SUFFIXES[TENSORFLOW][0]}").is_file()]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _matches(folder: Path, name: str, allowed: tuple[str, ...]) -> list[tuple[float, Path]]:
    """Files ``name`` may mean, the best last, with their numbers; the exact name's is infinite.

    A number tells nothing of the order in which the format ``tensorflow`` was written: a new run begins at 0.
    """
    order = {one: place for place, one in enumerate(saved_names(folder, name), 1)}
    found: list[tuple[float, int, Path]] = []
    for path in folder.iterdir():
        stem, suffix = _split(path.name)
        number = re.fullmatch(rf"{re.escape(name)}-([0-9]+)", stem)
        if suffix in allowed and (stem == name or number):
            place = order.get(stem, 0) if _FORMATS[suffix] in (TENSORFLOW, ACT_ONLY) else 0
            found.append((math.inf if stem == name else int(number[1]) if number else 0, place, path))
    found.sort(key=lambda one: (one[0] == math.inf, one[1], one[0], -allowed.index(one[2].suffix), one[2].name))
    return [(number, path) for number, _, path in found]


def _split(name: str) -> tuple[str, str]:
    """A file's name, and its suffix if it is one of those of saved agents."""
    for suffix in _FORMATS:
        if name.endswith(suffix) and name != suffix:
            return name.removesuffix(suffix), suffix
    return name, ""


# -- reading and writing ----------------------------------------------------------------------------------------------


def read_state(where: str, path: Path) -> Any:
    """Read a file of ``state_files``.

    Raises:
        TensorforceError: the file is damaged, or something else.
    """
    with _readable(where, path):
        state = state_files.read_state(path)
    if state is None:
        refuse(f"{where}: filename", f"means {path}, which is not a saved agent", str(path))
    return state


def read_content(where: str, saved: Saved) -> Any:
    """Contents of a saved agent, for ``agent_state.take_over``.

    Raises:
        TensorforceError: the file is damaged, or of what only acts.
    """
    if saved.format == ACT_ONLY:
        refuse(f"{where}: format", f"cannot be {ACT_ONLY!r}, which has no agent: use Agent.load", saved.format)
    return (read_state if saved.format == TENSORFLOW else read_arrays)(where, saved.path)


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays as ``.npz`` or as ``.hdf5``, which the path's suffix says; an earlier file is replaced whole.

    Raises:
        OSError: it cannot be written.
    """
    named: dict[str, Any] = dict(arrays)
    with replacing(path) as temporary:
        if path.suffix in SUFFIXES[HDF5]:
            import h5py

            with h5py.File(temporary, "w") as file:
                for name, array in arrays.items():
                    file.create_dataset(name, data=array)
        else:
            with temporary.open("wb") as stream:
                np.savez(stream, **named)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())


def read_arrays(where: str, path: Path) -> dict[str, Array]:
    """Read :func:`write_arrays` data.

    Raises:
        TensorforceError: the file is damaged.
    """
    with _readable(where, path):
        if path.suffix not in SUFFIXES[HDF5]:
            if not zipfile.is_zipfile(path):
                raise ValueError("it is no npz file, or it was cut off")
            # NumPy leaves a damaged file open that it has opened itself.
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        import h5py

        arrays: dict[str, Array] = {}

        def visit(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset):
                arrays[name] = np.asarray(item[()])

        with h5py.File(path, "r") as opened:
            opened.visititems(visit)
        return arrays


@contextlib.contextmanager
def _readable(where: str, path: Path) -> Iterator[None]:
    """Raise TensorforceError where a file is missing, cut off or something else."""
    try:
        yield
    except TensorforceError:
        raise
    except (*_DAMAGED, KeyError, RuntimeError, EOFError) as error:
        raise TensorforceError(f"{where}: {path} cannot be read: {error}", "filename", str(path)) from error
