"""One checkpoint on disk: a folder with arrays, a state in JSON, parts, and a manifest that describes these files."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..core import fields
from ..core.checks import flag
from ..core.chunked_arrays import Stream
from ..core.errors import ArgumentError, CheckpointError
from ..core.protocols import Array, State
from .arrays import encode_arrays, join_state, load_arrays, split_state
from .checkpoint_parts import Part, describe, read_part, restore_stream, write_parts
from .files import FileRecord, check_file, sync_folder, write_file

_VERSION: Final = 1
_INLINE_BYTES: Final = 1 << 20
"""Chunked arrays up to this total number of bytes are written as plain arrays, as parts would not pay."""
MANIFEST: Final = "manifest.json"
_ARRAYS: Final = "arrays.safetensors"
_STATE: Final = "state.json"
_STREAMS: Final = "$streams"
"""Key of state.json, besides the state's own keys, for the description of chunked arrays."""
FOR_GOOD: Final = "kept_for_good"
KEPT_SINCE: Final = "kept_since"
"""Keys of a manifest: whether the checkpoint is kept permanently; the time of the last such checkpoint, or of the very
first one."""
_FIELDS: Final = fields.fields(
    {
        "format_version": fields.integer(),
        "index": fields.integer(),
        "files": fields.each(fields.fields({"size": fields.integer(), "sha256": fields.text})),
    },
    {"counters": fields.each(fields.scalar), "about": fields.mapping, FOR_GOOD: flag, KEPT_SINCE: fields.number},
)
"""Contents of a manifest."""
_PART: Final = re.compile(r"part-\d{8,}\.safetensors", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Content:
    """A state, split into the contents of a checkpoint's files."""

    arrays: Mapping[str, Array | Stream]
    streams: Mapping[str, Stream]
    """Chunked arrays, to be written as parts."""
    tree: Mapping[str, Any]
    counters: Mapping[str, Any]

    @classmethod
    def of(cls, state: State) -> Content:
        """Split a state; ``ValueError`` if a value cannot be stored exactly."""
        arrays, tree = split_state(state)
        streams = _in_parts(arrays)
        if streams:
            tree = {**tree, _STREAMS: {name: describe(stream) for name, stream in streams.items()}}
        whole = {name: array for name, array in arrays.items() if name not in streams}
        return cls(whole, streams, tree, _counters(state))

    def write(self, folder: Path, shown: Mapping[str, Any], before: Iterable[Part]) -> list[Part]:
        """Write a checkpoint: under a temporary name, synced, renamed.

        Args:
            folder: ``checkpoint-<index>``; its parent exists.
            shown: additional entries of the manifest.
            before: parts that may be linked, oldest first.

        Returns:
            The parts of the checkpoint, oldest first.

        Raises:
            OSError: it cannot be written; nothing is left behind.
        """
        temporary, index = temporary_of(folder), int(folder.name.removeprefix("checkpoint-"))
        try:
            temporary.mkdir()
            parts = write_parts(temporary, index, self.streams, before) if self.streams else []
            files = {part.path.name: part.record for part in parts} | {
                _ARRAYS: write_file(temporary / _ARRAYS, encode_arrays(self.arrays)),
                _STATE: write_file(temporary / _STATE, [json.dumps(self.tree).encode()]),
            }
            manifest = {
                "format_version": _VERSION,
                "index": index,
                "counters": self.counters,
                **shown,
                "files": {name: dataclasses.asdict(record) for name, record in files.items()},
            }
            write_file(temporary / MANIFEST, [json.dumps(manifest, indent=2).encode()])
            sync_folder(temporary)
            temporary.rename(folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync_folder(folder.parent)
        return [dataclasses.replace(part, path=folder / part.path.name) for part in parts]


def temporary_of(folder: Path) -> Path:
    """Hidden path of a checkpoint that is being written or removed."""
    return folder.with_name(f".{folder.name}-{os.getpid()}.tmp")


def _counters(state: State) -> dict[str, Any]:
    """The scalars under ``state["counters"]``, as JSON values."""
    counters = state.get("counters")
    if not isinstance(counters, Mapping):
        return {}
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in counters.items()}
    return {name: value for name, value in plain.items() if isinstance(value, (bool, int, float, str))}


def _in_parts(arrays: Mapping[str, Array | Stream]) -> dict[str, Stream]:
    """Chunked arrays to be written as parts; the others are written as arrays."""
    streams = {
        name: array
        for name, array in arrays.items()
        if isinstance(array, Stream) and all(piece.series for piece in array.pieces)
    }
    return streams if sum(stream.nbytes for stream in streams.values()) > _INLINE_BYTES else {}


def read(folder: Path, index: int, streams: bool) -> tuple[State, list[Part]]:
    """Read the state of a checkpoint, with or without chunked arrays, and its parts; ``CheckpointError`` if damaged."""
    _, records = read_manifest(folder / MANIFEST, index)
    for name, record in records.items():
        check_file(folder / name, record)
    arrays, _ = load_arrays(folder / _ARRAYS)
    tree = _read_json(folder / _STATE)
    described = tree.pop(_STREAMS, {}) if isinstance(tree, dict) else {}
    opened = [read_part(folder / name, records[name]) for name in sorted(records) if _PART.fullmatch(name)]
    read: dict[str, Any] = {name: restore_stream(one, opened) for name, one in described.items()}
    if not streams:
        read = {name: np.asarray(stream) for name, stream in read.items()}
    state: State = join_state({**arrays, **read}, tree)
    return state, [part for part, _ in opened]


def read_manifest(path: Path, index: int) -> tuple[dict[str, Any], dict[str, FileRecord]]:
    """Read a manifest: its contents, and the records of the files."""
    manifest = _read_json(path)
    if not isinstance(manifest, dict) or "format_version" not in manifest:
        raise CheckpointError(f"{path.name} has no format_version")
    if (version := manifest["format_version"]) != _VERSION:
        raise CheckpointError(
            f"{path.name} has the format_version {version!r}: this version of axonrl reads {_VERSION}"
        )
    if manifest.get("index") != index:
        raise CheckpointError(f"{path.name} belongs to checkpoint {manifest.get('index')!r} (index)")
    try:
        fields.check(path.name, manifest, _FIELDS)
    except ArgumentError as error:
        raise CheckpointError(str(error)) from error
    records = {name: FileRecord(**record) for name, record in manifest["files"].items()}
    if missing := [name for name in (_ARRAYS, _STATE) if name not in records]:
        raise CheckpointError(f"{path.name} lacks size and SHA-256 of {' and '.join(missing)}")
    if any(name not in (_ARRAYS, _STATE) and not _PART.fullmatch(name) for name in records):
        raise CheckpointError(f"{path.name} names files that a checkpoint does not have: {', '.join(records)}")
    return manifest, records


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CheckpointError(f"{path.name} is not JSON: {error}") from error
