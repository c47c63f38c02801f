"""Parts: the files of a checkpoint that hold what its streams consist of, shared with the checkpoints before it.

A part is a safetensors file with stretches of series: the array ``<series>/<begin>`` holds the items ``begin``,
``begin + 1``, ... of a series, whose items never change. So a checkpoint links the parts of the one before (as hard
links: a part is gone with the last checkpoint that needs it) and writes one with what is new.
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
"""A checkpoint has at most so many: before there is one more, the newest ones are written again as one."""


@dataclasses.dataclass(frozen=True)
class Stretch:
    """The items ``begin`` .. ``end - 1`` of a series, in an array of a part."""

    series: str
    begin: int
    end: int
    item_bytes: int

    @property
    def array(self) -> str:
        """The name of the array."""
        return f"{self.series}/{self.begin}"


@dataclasses.dataclass(frozen=True)
class Part:
    """A part that this process wrote or checked: where it is, its size and hash, and what it holds."""

    path: Path
    record: FileRecord
    stretches: tuple[Stretch, ...]


class Needed:
    """What streams consist of: series to begin and end of the items that are needed, and where to read them.

    Two streams may share items; what a stream needs of a series are consecutive items.
    """

    def __init__(self, streams: Iterable[Stream]) -> None:
        self._pieces: dict[str, list[tuple[Piece, ArraySpec]]] = {}
        for stream in streams:
            for piece in stream.pieces:
                self._pieces.setdefault(piece.series, []).append((piece, stream.spec))

    def bytes_of(self, part: Part) -> int:
        """Bytes of a part that are needed."""
        return sum(
            max(min(stretch.end, piece.end) - max(stretch.begin, piece.begin), 0) * stretch.item_bytes
            for stretch in part.stretches
            for piece, _ in self._pieces.get(stretch.series, ())
        )

    def beside(self, parts: Iterable[Part]) -> dict[str, Stream]:
        """What these parts do not hold: an array for each stretch, by name."""
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
    """The items of a piece that are in none of these stretches, which are in order."""
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
    """Put into the folder of a checkpoint what its streams consist of: links to earlier parts, and a new part.

    Args:
        folder: the checkpoint's.
        index: of the checkpoint: the new part is named by it.
        streams: those of the state.
        before: parts that may be linked, oldest first.

    Returns:
        The parts of the checkpoint, oldest first, where they stand now.

    Raises:
        OSError: the new part cannot be written.
    """
    needed = Needed(streams.values())
    linked = [part for part in before if needed.bytes_of(part)]
    linked = [new for part in _kept(needed, linked) if (new := _linked(part, folder)) is not None]
    missing = needed.beside(linked)
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


def _kept(needed: Needed, parts: list[Part]) -> list[Part]:
    """The oldest of these parts, such that there is room for a new one.

    What is left out is written again: the newest part, and as long as that makes at least as much as the part before
    holds, that one, too. So a byte is written again only when what is new has grown by as much, or sixteen saves later.
    """
    if len(parts) < MOST_PARTS:
        return parts
    kept = list(parts)
    again = needed.bytes_of(kept.pop())
    while kept and needed.bytes_of(kept[-1]) <= again:
        again += needed.bytes_of(kept.pop())
    return kept


def _linked(part: Part, folder: Path) -> Part | None:
    """A part as a link in another folder; None where it is no longer as it was, or the file system has no links."""
    path = folder / part.path.name
    try:
        if part.path.stat().st_size != part.record.size:
            return None
        os.link(part.path, path)
    except OSError:
        return None
    return dataclasses.replace(part, path=path)


def read_part(path: Path, record: FileRecord) -> tuple[Part, Any]:
    """A part whose hash was checked, and the opened file.

    Raises:
        CheckpointError: it is no such file.
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
    """A stream as JSON; :func:`found` is the inverse."""
    return {"dtype": stream.dtype.name, "shape": stream.spec.shape, "pieces": stream.series}


def found(described: Mapping[str, Any], opened: Iterable[tuple[Part, Any]]) -> Stream:
    """The stream that was described, read from opened parts when it is used.

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
