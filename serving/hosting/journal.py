"""Journal: an agent's accepted records since its older checkpoint, in append-only files.

Records have checksums that distinguish damage from a torn end.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from ...core.checks import counted
from ...run_dir.files import make_folders, sync_folder
from .fencing import OutdatedError

_MAGIC: Final = b"axonrl journal 1\n"
_HEAD: Final = struct.Struct("<III")
"""Length of the content, CRC-32 of these four bytes, CRC-32 of the content."""
_NAME: Final = re.compile(r"(\d{20})(?:-(\d{1,19}))?\.log", re.ASCII)
LARGEST: Final = 1 << 30
"""Maximum bytes of a record's content."""
BEGIN: Final = len(_MAGIC) + 8
"""Offset of the first record, in bytes."""


class Entry(NamedTuple):
    """A readable record: its number, its offset in the file in bytes, and its content."""

    number: int
    offset: int
    content: bytes


class Damage(NamedTuple):
    """Damage in a file.

    ``torn``: a record was cut short when the machine stopped, and was therefore never acknowledged. ``lost``: number of
    records from the offset on, as far as they can be counted.
    """

    offset: int
    torn: bool
    lost: int


class Segment(NamedTuple):
    """One file: its path, the number of its first record, and the epoch of the process that wrote it."""

    path: Path
    first: int
    epoch: int

    def read(self) -> tuple[list[Entry], Damage | None]:
        """The readable records, and the damage after them."""
        content = self.path.read_bytes()
        if len(content) < BEGIN or not content.startswith(_MAGIC):
            return [], Damage(0, torn=len(content) < BEGIN or not any(content), lost=0)
        found: list[Entry] = []
        offset = BEGIN
        while offset < len(content):
            one = _record_at(content, offset)
            if one is None:
                return found, _damage(content, offset)
            found.append(Entry(self.first + len(found), offset, one))
            offset += _HEAD.size + len(one)
        return found, None


class DamagedJournalError(Exception):
    """An acknowledged record cannot be read, or is not this agent's.

    Args:
        path: the file.
        offset: offset of the record in it, in bytes.
        lost: number of records from there on, as far as they can be counted.
    """

    def __init__(self, path: Path, offset: int, lost: int) -> None:
        super().__init__(
            f"{path} is damaged at byte {offset}: {counted(lost, 'record')} from there on cannot be applied"
        )
        self.path = path
        self.offset = offset
        self.lost = lost


class Journal:
    """The records of one agent, in files that each begin with a number: ``<20 digits>.log``, or ``...-<epoch>.log``.

    A record is on the disk once :meth:`append` and a later :meth:`sync` have returned. A record that was cut short when
    the machine stopped was never acknowledged, and is skipped; any other damage is an error.

    Args:
        folder: folder of this agent's journal; created when needed.
        epoch: number of times that this agent was taken over; a journal that a later epoch has written to is not
            touched. 0 if no other process can see it.
    """

    def __init__(self, folder: Path, epoch: int = 0) -> None:
        self.folder = folder
        self.epoch = epoch
        self._file: int | None = None
        self.length = 0
        """Length of the newest file, in bytes."""
        self._synced = 0
        """Bytes of it that are known to be on the disk."""

    # -- writing ------------------------------------------------------------------------------------------------------

    def append(self, number: int, content: bytes) -> None:
        """Append a record; it may be lost until :meth:`sync`.

        Raises:
            OSError: it cannot be written; the journal is unchanged.
            OutdatedError: a later epoch has written here.
        """
        file = self.begin(number) if self._file is None else self._file
        length = len(content).to_bytes(4, "little")
        record = _HEAD.pack(len(content), zlib.crc32(length), zlib.crc32(content)) + content
        try:
            _write(file, record)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(file, self.length)
            raise
        self.length += len(record)

    def sync(self) -> None:
        """Force appended records to the disk; after an OSError the state there is unknown.

        Another thread may append meanwhile, but not close the file.
        """
        if self._file is not None:
            length = self.length
            os.fdatasync(self._file)
            self._synced = length

    def drop_unsynced(self) -> None:
        """Truncate the newest file to the part that is known to be on the disk, after a failed :meth:`sync`.

        The system may have dropped pages that it could not write, and still show them to readers: a record that is read
        back now may be gone after the next power cut.
        """
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._synced)

    def start_segment(self) -> None:
        """Close the newest file; the next record begins another."""
        if self._file is not None:
            os.close(self._file)
        self._file, self.length, self._synced = None, 0, 0

    close = start_segment

    def begin(self, number: int) -> int:
        """Begin a file with this record; its name includes the epoch, so that no two processes write to one file.

        Returns:
            Its descriptor.

        Raises:
            OSError: it cannot be written.
            OutdatedError: a later epoch has written here.
        """
        make_folders(self.folder)
        newest = max((segment.epoch for segment in segments_of(self.folder)), default=0)
        if self.epoch and newest > self.epoch:
            raise OutdatedError(f"{self.folder} has files that another process wrote since it took over this agent")
        epoch = self.epoch or newest
        path = self.folder / f"{number:020d}{f'-{epoch}' if epoch else ''}.log"
        if path.exists():
            found, damage = Segment(path, number, epoch).read()
            if found or (damage is not None and not damage.torn):
                raise FileExistsError(f"{path} holds records already")
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _write(file, _MAGIC + epoch.to_bytes(8, "little"))
            sync_folder(self.folder)
        except OSError:
            os.close(file)
            path.unlink(missing_ok=True)
            raise
        self._file, self.length, self._synced = file, BEGIN, 0
        return file

    def trim(self, number: int) -> None:
        """Remove the files that hold only records below ``number``; OSError if that fails."""
        for segment, following in itertools.pairwise(segments_of(self.folder)):
            if following.first <= number:
                segment.path.unlink(missing_ok=True)

    def set_aside(self, number: int) -> int:
        """Move the records from ``number`` on to other names, where nothing reads them.

        No record is lost if this is interrupted: files are copied before they are truncated.

        Returns:
            Number of readable records moved.
        """
        self.start_segment()
        aside = 0
        for segment in reversed(segments_of(self.folder)):
            found, damage = segment.read()
            offsets = [entry.offset for entry in found if entry.number >= number]
            aside += len(offsets)
            offsets += [] if damage is None else [damage.offset]
            if segment.first >= number:
                segment.path.rename(_free_name(segment.path))
            elif offsets:
                copy = _free_name(segment.path)
                shutil.copyfile(segment.path, copy)
                _sync_file(copy)
                os.truncate(segment.path, max(offsets[0], BEGIN))
                _sync_file(segment.path)
        if self.folder.is_dir():
            sync_folder(self.folder)
        return aside

    # -- reading ------------------------------------------------------------------------------------------------------

    def taken_over_at(self, epoch: int) -> int | None:
        """Number of the first record that a later epoch may have written; None if there is none."""
        return next((segment.first for segment in self._valid() if segment.epoch > epoch), None)

    def read(self, number: int, decode: Callable[[int, bytes], Any] = lambda _, content: content) -> Iterator[Any]:
        """Read the records from ``number`` on, in order.

        Records written after a later epoch had begun, which were never acknowledged, are skipped.

        Args:
            number: number of the first record.
            decode: converts number and content to the yielded value; ValueError if the record is not this agent's.

        Raises:
            DamagedJournalError: after the records before the damaged one have been yielded.
        """
        segments = self._valid()
        expected = number if segments and segments[0].first > number else None
        for index, segment in enumerate(segments):
            found, damage = segment.read()
            if index + 1 < len(segments) and segments[index + 1].epoch > segment.epoch:
                own = segments[index + 1].first - segment.first
                found, damage = found[:own], damage if len(found) < own else None
            later = segments[index + 1 :]
            if expected is not None and segment.first != expected and segment.first > number:
                raise DamagedJournalError(segment.path, 0, len(found) + _count(later))
            for entry in found:
                if entry.number >= number:
                    try:
                        one = decode(entry.number, entry.content)
                    except ValueError as error:
                        lost = segment.first + len(found) - entry.number + (0 if damage is None else damage.lost)
                        raise DamagedJournalError(segment.path, entry.offset, lost + _count(later)) from error
                    yield one
            if damage is not None and not damage.torn:
                raise DamagedJournalError(segment.path, damage.offset, damage.lost + _count(later))
            expected = segment.first + len(found)  # if a torn record was acknowledged after all, there is a gap

    def _valid(self) -> list[Segment]:
        """Segments, without those begun by a process after it had lost the agent."""
        valid: list[Segment] = []
        for segment in segments_of(self.folder):
            if not valid or segment.epoch >= valid[-1].epoch:
                valid.append(segment)
        return valid


def segments_of(folder: Path) -> list[Segment]:
    """The files of a journal in order; none if there is no folder."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names are all that is wanted
    except FileNotFoundError:
        return []
    matches = [match for name in names if (match := _NAME.fullmatch(name))]
    segments = [Segment(folder / match[0], int(match[1]), int(match[2] or 0)) for match in matches]
    return sorted(segments, key=lambda segment: (segment.first, segment.epoch))


def _count(segments: list[Segment]) -> int:
    return sum(len(segment.read()[0]) for segment in segments)


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


def _write(file: int, content: bytes) -> None:
    """Write all bytes; a short write is an error."""
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]


def _sync_file(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _free_name(path: Path) -> Path:
    """An unused name for a file that is set aside."""
    names = (path.with_name(f"{path.name}.damaged-{number}") for number in itertools.count(1))
    return next(name for name in names if not name.exists())
