"""Episodes in files: npz files, and local datasets of Minari."""

from __future__ import annotations

import contextlib
import functools
import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from gymnasium.spaces import Box

from ..core.checks import check_episodes, shortened
from ..core.errors import ArgumentError
from ..core.protocols import Array, Episode
from ..core.trees import named_arrays
from .minari import file_error, raw_episodes
from .spaces import AnySpace, Leaf, leaves, limits

KEYS: Final = ("observation", "action", "reward", "terminated", "truncated", "next_observation")
_FLAGS: Final = ("terminated", "truncated")
_ROUNDING: Final = 1e-5
"""Relative tolerance of actions beyond their bounds."""


def read_episodes(path: str | Path, observation_space: AnySpace, action_space: AnySpace) -> Iterator[Episode]:
    """Read the episodes in an npz file or in one of Minari's local datasets, one after the other.

    An npz file has the transitions of all episodes in order, as arrays [T, ...]: ``observation``, ``action``,
    ``reward``, ``terminated``, ``truncated`` and ``next_observation``. The parts of Dict and Tuple spaces are separate
    arrays, named like ``observation/position`` or ``action/0``. An episode ends where it was terminated or truncated.
    Other arrays are ignored. A Minari dataset is its folder, or the file ``main_data.hdf5`` in it, and needs
    ``axonrl[minari]``; its ``data_format`` must be ``hdf5``.

    Args:
        path: a file ``*.npz``, a folder, or a file ``*.hdf5``.
        observation_space: the observation space of the environment that the episodes are for.
        action_space: the action space of that environment.

    Returns:
        For each episode the six arrays [T, ...], in the dtypes of :mod:`~.spaces`, flat dictionaries for Dict and Tuple
        spaces; ``reward`` float32, ``terminated`` and ``truncated`` bool. A last timestep that is neither becomes
        truncated.

    Raises:
        ArgumentError: raised on iteration: there is no such file, it is damaged or holds no episode, or an episode does
            not fit the spaces; names file, episode and array.
    """
    path = Path(path)
    checks = _Checks(functools.partial(file_error, path), observation_space, action_space)
    if path.suffix == ".npz":
        given = _npz(path, checks)
    elif path.is_dir() or path.suffix in (".hdf5", ".h5"):
        given = raw_episodes(path, observation_space, action_space)
    else:
        what = "is neither an npz file nor a folder or an HDF5 file of Minari" if path.exists() else "does not exist"
        raise file_error(path, what)
    number = -1
    for number, raw in enumerate(given):
        yield checks.episode(number, raw)
    if number < 0:
        raise file_error(path, "holds no episode")


def checked_episodes(
    name: str, episodes: Iterable[Episode], observation_space: AnySpace, action_space: AnySpace
) -> Iterator[Episode]:
    """Check and convert episodes that did not come from a file, like :func:`read_episodes`.

    Args:
        name: name of the episodes in errors.
        episodes: mappings of arrays; further arrays are passed through.
        observation_space: the observation space of the environment that the episodes are for.
        action_space: the action space of that environment.

    Raises:
        ArgumentError: raised on iteration: an episode does not fit; the argument is ``name``.
    """

    def error(problem: str) -> ArgumentError:
        return ArgumentError(f"{name}: {problem}", name)

    checks = _Checks(error, observation_space, action_space)
    for number, episode in enumerate(episodes):
        yield {**episode, **checks.episode(number, dict(named_arrays(episode)))}


def write_episodes(path: str | Path, episodes: Iterable[Episode]) -> None:
    """Write episodes atomically to an npz file that :func:`read_episodes` reads.

    Args:
        path: a file name that ends in ``.npz``; an existing file is replaced.
        episodes: at least one, in the form of :func:`read_episodes`; the last timestep of each ends it.

    Raises:
        ArgumentError: there are no episodes; their arrays differ in name, shape or length, or hold NaN, infinity or
            Python objects; or the file has another name or cannot be written.
    """
    path, given = check_target(path), check_episodes("episodes", episodes)
    if not given:
        raise ArgumentError("episodes must be at least one, got none", "episodes", given)
    flat = [dict(named_arrays(episode)) for episode in given]
    first, *others = [", ".join(f"{name} {[*array.shape[1:]]}" for name, array in sorted(one.items())) for one in flat]
    for number, form in enumerate(others, 1):
        if form != first:
            message = f"episodes[{number}] has arrays of {form}; episodes[0] has {first}"
            raise ArgumentError(message, "episodes", given[number])
    arrays: dict[str, Any] = {name: np.concatenate([one[name] for one in flat]) for name in flat[0]}
    if objects := [name for name, array in arrays.items() if array.dtype.hasobject]:
        message = f"episodes must be arrays of numbers, but {', '.join(objects)} has Python objects"
        raise ArgumentError(message, "episodes", given)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            np.savez_compressed(file, **arrays)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise file_error(path, f"cannot be written: {error}") from error


def check_target(path: str | Path) -> Path:
    """Refuse a file that :func:`write_episodes` could not write, before anything is recorded; returns its path.

    Raises:
        ArgumentError: it has another name, or its folder cannot be written.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise file_error(path, "is not the name of an npz file: it must end in .npz")
    if path.is_dir():
        raise file_error(path, "is a folder: choose another name")
    try:
        with tempfile.TemporaryFile(dir=path.absolute().parent):
            return path
    except OSError as error:
        raise file_error(path, f"cannot be written: {path.parent}: {error.strerror}") from error


class _Checks:
    """Checks of episodes for these spaces."""

    def __init__(
        self, error: Callable[[str], ArgumentError], observation_space: AnySpace, action_space: AnySpace
    ) -> None:
        self._error = error
        self.leaves: dict[str, Leaf] = {}
        """Leaf of each array of a transition but reward and flags, by its name in a file."""
        for key in ("observation", "action", "next_observation"):
            of_action = key == "action"
            for leaf in leaves(
                action_space if of_action else observation_space, "action" if of_action else "observation"
            ):
                self.leaves[f"{key}/{leaf.name}" if leaf.name else key] = leaf

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all arrays in a file."""
        return (*self.leaves, "reward", *_FLAGS)

    def episode(self, number: int, raw: Mapping[str, Any]) -> Episode:
        """Make an episode from its arrays by name; ArgumentError if they are invalid."""
        where = f"episode {number}"
        if missing := [name for name in self.names if name not in raw]:
            raise self._error(f"{where}: {', '.join(missing)} missing; there is {', '.join(raw) or 'nothing'}")
        length = len(raw["reward"]) if np.ndim(raw["reward"]) else 0
        if not length:
            raise self._error(f"{where}: reward must have shape [T], got {list(np.shape(raw['reward']))}")
        arrays: dict[str, Array] = {}
        for name, leaf in self.leaves.items():
            bounded = name.partition("/")[0] == "action"
            arrays[name] = self._leaf(f"{where}: {name}", raw[name], length, leaf, bounded=bounded)
        arrays["reward"] = self._numbers(f"{where}: reward", raw["reward"], (length,), np.dtype(np.float32))
        for flag in _FLAGS:
            arrays[flag] = self._numbers(f"{where}: {flag}", raw[flag], (length,), np.dtype(np.bool_))
        ended = arrays["terminated"] | arrays["truncated"]
        if (early := np.flatnonzero(ended[:-1])).size:
            raise self._error(
                f"{where}: it has {length} timesteps, but is terminated or truncated at timestep {early[0]} already"
            )
        arrays["truncated"][-1] |= not ended[-1]
        self._refuse_gaps(where, arrays)
        return _nest(arrays)

    def _leaf(self, what: str, given: Any, length: int, leaf: Leaf, *, bounded: bool) -> Array:
        """The array of a leaf; refuses values outside a discrete space, or outside a Box if ``bounded``."""
        array = self._numbers(what, given, (length, *leaf.spec.shape), leaf.spec.dtype)
        bounds, space = limits(leaf.space), leaf.space
        if bounded and isinstance(space, Box):
            bounds = space.low - _ROUNDING * np.abs(space.low), space.high + _ROUNDING * np.abs(space.high)
        if bounds is not None and (rows := _rows((array < bounds[0]) | (array > bounds[1]))).size:
            message = f"{what} is outside of {space} at timestep {rows[0]}: {shortened(array[rows[0]])}"
            raise self._error(message)
        return array

    def _numbers(self, what: str, given: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An array of this shape and dtype; floats may be rounded, other values must be kept exactly."""
        try:
            array = np.asarray(given)
        except ValueError as error:  # rows of different lengths
            raise self._error(f"{what} must be an array: {error}") from error
        if array.shape != shape:
            raise self._error(f"{what} must have shape {list(shape)}, got {list(array.shape)}")
        if array.dtype.kind not in "biuf":
            raise self._error(f"{what} must be {dtype}, got {array.dtype}: {shortened(given)}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise self._error(f"{what} is NaN or infinite at timestep {_rows(~np.isfinite(array))[0]}")
        with np.errstate(over="ignore", invalid="ignore"):  # reported just below
            converted = array.astype(dtype)
        if dtype.kind != "f" and not (converted == array).all():
            raise self._error(f"{what} must be {dtype}, got {array.dtype} with {shortened(array)}")
        if not np.isfinite(converted).all():
            row = _rows(~np.isfinite(converted))[0]
            told = shortened(array[row].tolist())
            raise self._error(f"{what} at timestep {row} is beyond what {dtype} holds: {told}")
        return converted

    def _refuse_gaps(self, where: str, arrays: Mapping[str, Array]) -> None:
        for name, array in arrays.items():
            key, slash, part = name.partition("/")
            if key != "next_observation":
                continue
            differs = array[:-1] != arrays[f"observation{slash}{part}"][1:]
            if (rows := _rows(differs)).size:
                raise self._error(
                    f"{where}: {name} of timestep {rows[0]} is not the observation of the next one, although neither"
                    " terminated nor truncated is true",
                )


def _rows(mask: Array) -> Array:
    """The rows of a mask [T, ...] with anything True."""
    return np.flatnonzero(mask.any(axis=tuple(range(1, mask.ndim))))


def _npz(path: Path, checks: _Checks) -> Iterator[dict[str, Array]]:
    """The arrays of each episode in an npz file."""
    if not path.is_file():
        raise file_error(path, "does not exist" if not path.exists() else "is not a file")
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            if missing := [name for name in checks.names if name not in file.files]:
                raise file_error(path, f"{', '.join(missing)} missing; there is {', '.join(file.files) or 'nothing'}")
            arrays: dict[str, Any] = {name: file[name] for name in checks.names}
    except ArgumentError:
        raise
    except Exception as error:  # zipfile and NumPy raise a dozen types on damage
        raise file_error(path, f"is damaged, or not an npz file: {error}") from error
    if others := [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]:
        raise file_error(path, f"is damaged: {', '.join(others)} not in NumPy's format")
    lengths = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise file_error(
            path, f"its arrays must have one length, got {', '.join(f'{n} {k}' for n, k in lengths.items())}"
        )
    flags = [arrays[flag] for flag in _FLAGS]
    for name, flag in zip(_FLAGS, flags, strict=True):
        if flag.ndim != 1 or flag.dtype.kind not in "biuf":
            raise file_error(path, f"{name} must be bool [T], got {flag.dtype} {list(flag.shape)}")
    ends = np.flatnonzero((flags[0] != 0) | (flags[1] != 0)) + 1
    edges = [0, *ends.tolist()]
    if edges[-1] < len(flags[0]):
        edges.append(len(flags[0]))
    for begin, end in itertools.pairwise(edges):
        yield {name: array[begin:end] for name, array in arrays.items()}


def _nest(arrays: Mapping[str, Array]) -> Episode:
    """Turn ``{"observation/x": ...}`` into ``{"observation": {"x": ...}}``."""
    nested: dict[str, Any] = {}
    for name, array in arrays.items():
        key, slash, part = name.partition("/")
        if slash:
            nested.setdefault(key, {})[part] = array
        else:
            nested[key] = array
    return nested
