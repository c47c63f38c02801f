"""Parts: checkpoint files with the data of chunked arrays, shared with earlier checkpoints.

A part is a safetensors file with stretches of series: the array ``<series>/<begin>`` holds the items ``begin``, ``begin
+ 1``, ... of a series. Items never change, so a checkpoint links the parts of the previous one (by hard links: a part
disappears with the last checkpoint that needs it) and writes one part with new items.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from safetensors import SafetensorError, safe_open

from ..core.chunked_arrays import Piece, Stream
from ..core.errors import CheckpointError
from ..core.protocols import Array, ArraySpec
from .arrays import encode_arrays
from .files import FileRecord, write_file

MOST_PARTS: Final = 16
"""Maximum number of parts in a checkpoint; the newest ones are then rewritten as one."""


@dataclasses.dataclass(frozen=True)
class Stretch:
    """The items ``begin`` .. ``end - 1`` of a series, in an array of a part."""

    series: str
    begin: int
    end: int
    item_bytes: int

    @property
    def array(self) -> str:
        """Name of the array."""
        return f"{self.series}/{self.begin}"


@dataclasses.dataclass(frozen=True)
class Part:
    """A part that this process wrote or checked: its path, size, hash and contents."""

    path: Path
    record: FileRecord
    stretches: tuple[Stretch, ...]


class NeededItems:
    """Items that chunked arrays need: the range of items of each series, and where to read them.

    Several chunked arrays may share items; those that one of them needs of a series are consecutive.
    """

    def __init__(self, streams: Iterable[Stream]) -> None:
        self._pieces: dict[str, list[tuple[Piece, ArraySpec]]] = {}
        for stream in streams:
            for piece in stream.pieces:
                self._pieces.setdefault(piece.series, []).append((piece, stream.spec))

    def bytes_of(self, part: Part) -> int:
        """Number of needed bytes in a part."""
        return sum(
            max(min(stretch.end, piece.end) - max(stretch.begin, piece.begin), 0) * stretch.item_bytes
            for stretch in part.stretches
            for piece, _ in self._pieces.get(stretch.series, ())
        )

    def missing_from(self, parts: Iterable[Part]) -> dict[str, Stream]:
        """Items missing in these parts: an array for each stretch, by name."""
        held: dict[str, list[Stretch]] = {}
        for part in parts:
            for stretch in part.stretches:
                held.setdefault(stretch.series, []).append(stretch)
        missing = {}
        for series, pieces in self._pieces.items():
            for piece, spec in pieces:
                for begin, end in _gaps(piece, sorted(held.get(series, []), key=lambda stretch: stretch.begin)):
                    rest = piece._replace(begin=begin, end=end)
                    missing[f"{series}/{begin}"] = Stream(spec, [rest])
        return missing


def _gaps(piece: Piece, stretches: Iterable[Stretch]) -> Iterator[tuple[int, int]]:
    """Items of a piece that are in none of these stretches, which are in order."""
    at = piece.begin
    for stretch in stretches:
        if stretch.begin >= piece.end:
            break
        if stretch.begin > at:
            yield at, stretch.begin
        at = max(at, stretch.end)
    if at < piece.end:
        yield at, piece.end


def write_parts(folder: Path, index: int, streams: Mapping[str, Stream], before: Iterable[Part]) -> list[Part]:
    """Write the chunked arrays of a checkpoint: link earlier parts, and write a new one.

    Args:
        folder: the checkpoint's folder.
        index: index of the checkpoint, used to name the new part.
        streams: chunked arrays of the state.
        before: parts that may be linked, oldest first.

    Returns:
        The parts of the checkpoint, oldest first, at their new paths.

    Raises:
        OSError: the new part cannot be written.
    """
    needed = NeededItems(streams.values())
    linked = [part for part in before if needed.bytes_of(part)]
    linked = [new for part in _parts_to_link(needed, linked) if (new := _link_part(part, folder)) is not None]
    missing = needed.missing_from(linked)
    if not missing:
        return linked
    path = folder / f"part-{index:08d}.safetensors"
    record = write_file(path, encode_arrays(missing))
    stretches = [
        Stretch(piece.series, piece.begin, piece.end, stream.spec.nbytes)
        for stream in missing.values()
        for piece in stream.pieces
    ]
    return [*linked, Part(path, record, tuple(stretches))]


def _parts_to_link(needed: NeededItems, parts: list[Part]) -> list[Part]:
    """Choose the oldest of these parts, such that there is room for a new one.

    The others are rewritten: the newest part, and preceding parts as long as they are not larger than what follows. So
    a byte is rewritten only when the new data has grown by as much, or sixteen saves later.
    """
    if len(parts) < MOST_PARTS:
        return parts
    kept = list(parts)
    again = needed.bytes_of(kept.pop())
    while kept and needed.bytes_of(kept[-1]) <= again:
        again += needed.bytes_of(kept.pop())
    return kept


def _link_part(part: Part, folder: Path) -> Part | None:
    """Link a part into another folder; None if it has changed, or the file system has no links."""
    path = folder / part.path.name
    try:
        if part.path.stat().st_size != part.record.size:
            return None
        os.link(part.path, path)
    except OSError:
        return None
    return dataclasses.replace(part, path=path)


def read_part(path: Path, record: FileRecord) -> tuple[Part, Any]:
    """Check the hash of a part, and open it.

    Raises:
        CheckpointError: it is not a valid part.
    """
    stretches = []
    try:
        file: Any = safe_open(path, framework="np")
        for name in file.keys():  # noqa: SIM118
            series, _, begin = name.rpartition("/")
            array = file.get_slice(name)
            stretches.append(Stretch(series, int(begin), int(begin) + array.get_shape()[0], array[0:1].nbytes))
    except (OSError, SafetensorError, ValueError, IndexError) as error:
        raise CheckpointError(f"{path.name} cannot be read: {error}") from error
    return Part(path, record, tuple(stretches)), file


def describe(stream: Stream) -> dict[str, Any]:
    """Describe a chunked array as JSON; :func:`restore_stream` is the inverse."""
    return {"dtype": stream.dtype.name, "shape": stream.spec.shape, "pieces": stream.series}


def restore_stream(described: Mapping[str, Any], opened: Iterable[tuple[Part, Any]]) -> Stream:
    """Restore a described chunked array, which reads opened parts on use.

    Raises:
        CheckpointError: an item is in none of them.
    """
    by_series: dict[str, list[tuple[Stretch, Any]]] = {}
    for part, file in opened:
        for stretch in part.stretches:
            by_series.setdefault(stretch.series, []).append((stretch, file))
    pieces = []
    for series, begin, end in described["pieces"]:
        at = begin
        for stretch, file in sorted(by_series.get(series, []), key=lambda one: one[0].begin):
            if stretch.begin <= at < min(stretch.end, end):
                pieces.append(Piece(series, at, min(stretch.end, end), _reader(stretch, file)))
                at = pieces[-1].end
        if at < end:
            raise CheckpointError(f"no part holds the items {at} .. {end - 1} of {series}")
    return Stream(ArraySpec(tuple(described["shape"]), described["dtype"]), pieces)


def _reader(stretch: Stretch, file: Any) -> Any:
    def read(begin: int, end: int) -> Array:
        array: Array = file.get_slice(stretch.array)[begin - stretch.begin : end - stretch.begin]
        return array

    return read
