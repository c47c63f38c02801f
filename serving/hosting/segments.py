"""One file of a journal: name, head, and records with checksums that distinguish damage from a torn end."""

from __future__ import annotations

import dataclasses
import os
import re
import struct
import zlib
from pathlib import Path
from typing import Final

_MAGIC: Final = b"axonrl journal 1\n"
_HEAD: Final = struct.Struct("<III")
"""Length of the content, CRC-32 of these four bytes, CRC-32 of the content."""
_NAME: Final = re.compile(r"(\d{20})(?:-(\d{1,19}))?\.log", re.ASCII)
LARGEST: Final = 1 << 30
"""Maximum bytes of a record's content."""
BEGIN: Final = len(_MAGIC) + 8
"""Offset of the first record, in bytes."""
RECORD_BYTES: Final = _HEAD.size
"""Bytes of a record beside its content."""


@dataclasses.dataclass(frozen=True)
class Segment:
    """One file.

    Args:
        path: path of the file.
        first: number of its first record.
        epoch: epoch of the process that wrote it.
    """

    path: Path
    first: int
    epoch: int


@dataclasses.dataclass(frozen=True)
class Damage:
    """Damage in a file.

    Args:
        offset: its offset, in bytes.
        torn: whether a record was cut short when the machine stopped, and was therefore never acknowledged.
        lost: number of records from there on, as far as they can be counted.
    """

    offset: int
    torn: bool
    lost: int


def segments_of(folder: Path) -> list[Segment]:
    """The files of a journal in order; none if there is no folder."""
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - names are all that is wanted
    except FileNotFoundError:
        return []
    found = [(name, match) for name in names if (match := _NAME.fullmatch(name))]
    segments = [Segment(folder / name, int(match[1]), int(match[2] or 0)) for name, match in found]
    return sorted(segments, key=lambda segment: (segment.first, segment.epoch))


def path_of(folder: Path, first: int, epoch: int) -> Path:
    """The file that begins with a record of this number."""
    return folder / f"{first:020d}{f'-{epoch}' if epoch else ''}.log"


def head_of(epoch: int) -> bytes:
    """The head of a file, ``BEGIN`` bytes."""
    return _MAGIC + epoch.to_bytes(8, "little")


def framed(content: bytes) -> bytes:
    """A record with its head, as stored in a file."""
    length = len(content).to_bytes(4, "little")
    return _HEAD.pack(len(content), zlib.crc32(length), zlib.crc32(content)) + content


def read_records(path: Path, first: int) -> tuple[list[tuple[int, bytes]], Damage | None]:
    """The readable records of a file, number and content of each, and the damage after them."""
    content = path.read_bytes()
    if len(content) < BEGIN or not content.startswith(_MAGIC):
        return [], Damage(0, torn=len(content) < BEGIN or not any(content), lost=0)
    found: list[tuple[int, bytes]] = []
    offset = BEGIN
    while offset < len(content):
        one = _record_at(content, offset)
        if one is None:
            return found, _damage(content, offset)
        found.append((first + len(found), one))
        offset += _HEAD.size + len(one)
    return found, None


def _record_at(content: bytes, offset: int) -> bytes | None:
    """The content of the record that begins here; None if it is incomplete or damaged."""
    if offset + _HEAD.size > len(content):
        return None
    length, length_sum, content_sum = _HEAD.unpack_from(content, offset)
    if zlib.crc32(content[offset : offset + 4]) != length_sum or length > LARGEST:
        return None
    begin = offset + _HEAD.size
    one = content[begin : begin + length]
    return one if len(one) == length and zlib.crc32(one) == content_sum else None


def _damage(content: bytes, offset: int) -> Damage:
    """Classify the damage at an offset: a torn record, which was never acknowledged, or anything else.

    Torn are an intact length with fewer bytes after it than it says, an incomplete head, and zeros, from a file that
    had grown before its content arrived.
    """
    rest = content[offset:]
    if len(rest) < _HEAD.size or not any(rest):
        return Damage(offset, torn=True, lost=0)
    length, length_sum, _ = _HEAD.unpack_from(rest)
    length_is_whole = zlib.crc32(rest[:4]) == length_sum
    if length_is_whole and _HEAD.size + length > len(rest):
        return Damage(offset, torn=True, lost=0)
    lost, at = 1, offset + (_HEAD.size + length if length_is_whole else 1)
    while at + _HEAD.size <= len(content):
        one = _record_at(content, at)
        lost += one is not None
        at += 1 if one is None else _HEAD.size + len(one)
    return Damage(offset, torn=False, lost=lost)
