"""Minari's local datasets: HDF5 files with a group for each episode.

The format is Minari 0.5's, https://minari.farama.org/main/content/dataset_standards/: a dataset's folder has
``data/main_data.hdf5`` and ``data/metadata.json``.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from ..core.errors import ArgumentError
from ..core.protocols import Array
from .spaces import AnySpace, parts

_FILE, _METADATA, _GROUP, _ITEM = "main_data.hdf5", "metadata.json", "episode_", "_index_{}"
_NAMES: Final = {"reward": "rewards", "terminated": "terminations", "truncated": "truncations"}


def raw_episodes(path: Path, observation_space: AnySpace, action_space: AnySpace) -> Iterator[dict[str, Any]]:
    """Arrays of each episode, named as in :func:`~.episodes.read_episodes`; ``ArgumentError`` if damaged."""
    file = _file(path)
    try:
        import h5py
    except ModuleNotFoundError as error:
        raise file_error(file, "needs a package that is not installed: pip install 'axonrl[minari]'") from error
    _check_spaces(file.parent / _METADATA, {"observation": observation_space, "action": action_space})
    try:
        with h5py.File(file, "r") as opened:
            names = [name for name in opened if name.startswith(_GROUP)]
            if not names:
                found = ", ".join(opened) or "nothing"
                raise file_error(file, f"no episode of Minari, a group {_GROUP}0, {_GROUP}1, ...; there is {found}")
            for name in sorted(names, key=lambda name: int(name.removeprefix(_GROUP))):
                yield _episode(opened[name], observation_space, action_space)
    except ArgumentError:
        raise
    except KeyError as error:
        raise file_error(file, f"{name} lacks an array: {error}") from error
    except Exception as error:  # h5py raises a dozen types on damage
        raise file_error(file, f"is damaged, or not an HDF5 file: {error}") from error


def _file(path: Path) -> Path:
    tried = [path] if not path.is_dir() else [path / _FILE, path / "data" / _FILE]
    found = next((one for one in tried if one.is_file()), None)
    if found is None:
        raise file_error(
            path, f"is not a Minari dataset: {tried[-1]} is missing" if path.is_dir() else "does not exist"
        )
    return found


def _episode(group: Any, observation_space: AnySpace, action_space: AnySpace) -> dict[str, Any]:
    found = {key: _values(group[name]) for key, name in _NAMES.items()}
    found |= _arrays("action", group["actions"], action_space)
    for name, array in _arrays("observation", group["observations"], observation_space).items():
        found[name] = array[:-1]  # there is one more observation than there are timesteps
        found[f"next_{name}"] = array[1:]
    return found


def _arrays(name: str, stored: Any, space: AnySpace) -> dict[str, Array]:
    """Arrays of a space by name, parts joined by ``/``; a file names a Tuple's items ``_index_0``, ..."""
    if isinstance(space, Dict | Tuple):
        found: dict[str, Array] = {}
        for key, part in parts(space):
            inner = _ITEM.format(key) if isinstance(space, Tuple) else key
            found |= _arrays(f"{name}/{key}", stored[inner], part)
        return found
    values = _values(stored)
    if isinstance(space, Box) and space.dtype == np.uint8 and values.ndim <= 2 < len(space.shape) + 1:
        values = np.stack([_image(one) for one in values])
    return {name: values}


def _values(stored: Any) -> Array:
    """The array of a dataset in the file."""
    values = stored[()] if hasattr(stored, "shape") else None  # a group has none
    if not isinstance(values, np.ndarray):
        raise ValueError(f"{stored.name} is not an array")
    return values


def _image(encoded: Any) -> Array:
    """Decode a frame stored as JPEG."""
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(encoded.tobytes())))


def _check_spaces(path: Path, spaces: dict[str, AnySpace]) -> None:
    """Refuse a dataset whose metadata describe another format or other spaces."""
    if not path.is_file():
        return
    try:
        metadata = json.loads(path.read_text(encoding="utf-8"))
        kept = {key: json.loads(metadata.get(f"{key}_space") or "null") for key in spaces}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise file_error(path, f"is damaged: {error}") from error
    if (form := metadata.get("data_format", "hdf5")) != "hdf5":
        raise file_error(path, f"its data_format is {form!r}, and only 'hdf5' can be read")
    for key, space in spaces.items():
        if kept[key] is not None and not _is(space, kept[key]):
            raise file_error(path, f"its {key} space is {kept[key]}, the environment's is {space}")


def _is(space: AnySpace, kept: Any) -> bool:
    """Whether a space written by Minari equals this one. Bounds of Boxes may differ, as they are often too narrow."""
    if not isinstance(kept, dict) or kept.get("type") != type(space).__name__:
        return False
    inner: Any = kept.get("subspaces")
    match space:
        case Dict():
            items = dict(parts(space))
            same = isinstance(inner, dict) and inner.keys() == items.keys()
            return same and all(_is(item, inner[key]) for key, item in items.items())
        case Tuple():
            return isinstance(inner, list) and len(inner) == len(space) and all(map(_is, space, inner))
        case Box():
            facts: dict[str, Any] = {"shape": list(space.shape)}
        case Discrete():
            facts = {"n": int(space.n), "start": int(space.start)}
        case MultiDiscrete():
            facts = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
        case MultiBinary():
            facts = {"n": space.n if isinstance(space.n, int) else list(space.n)}
        case _:
            facts = {}
    return all(kept.get(name, fact) == fact for name, fact in facts.items())


def file_error(path: Path, problem: str) -> ArgumentError:
    """An error about a file of episodes; ``problem`` continues the sentence after the path."""
    return ArgumentError(f"{path}: {problem}" if problem[:2] != "is" else f"{path} {problem}", "path", str(path))
