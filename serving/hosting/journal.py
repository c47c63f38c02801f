"""Journal: what an agent accepted since its older checkpoint, in files that are only ever appended to."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import re
import shutil
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ...runs.files import make_folders, sync_folder
from .fencing import OutdatedError

_MAGIC: Final = b"axonrl journal 1\n"
_HEAD: Final = struct.Struct("<III")
"""Length of the content, CRC-32 of these four bytes, CRC-32 of the content."""
_NAME: Final = re.compile(r"(\d{20})(?:-(\d{1,19}))?\.log", re.ASCII)
_ASIDE: Final = ".damaged"
_LARGEST: Final = 1 << 30


class DamagedJournalError(Exception):
    """A record that was acknowledged cannot be read.

    Args:
        path: the file.
        offset: where the record begins in it, in bytes.
        lost: how many records there are from there on, as far as they can be counted.
    """

    def __init__(self, path: Path, offset: int, lost: int) -> None:
        super().__init__(f"{path} is damaged at byte {offset}: {lost} records from there on cannot be applied")
        self.path = path
        self.offset = offset
        self.lost = lost


@dataclasses.dataclass(frozen=True)
class _Segment:
    path: Path
    first: int  # the number of its first record
    epoch: int  # of the process that wrote it


class Journal:
    """The records of one agent, in files that each begin with a number: ``<20 digits>.log``, or ``...-<epoch>.log``.

    What :meth:`append` returned from and :meth:`sync` after it is on the disk. A record that was cut short when the
    machine stopped was never acknowledged, and is removed; any other damage is an error.

    Args:
        folder: of this agent's journal; created when it is needed.
        epoch: how often this agent was taken over; a journal that a later one has written to is left alone. 0 where
            no other process can see it.
    """

    def __init__(self, folder: Path, epoch: int = 0) -> None:
        self.folder = folder
        self.epoch = epoch
        self._file: int | None = None
        self._path: Path | None = None
        self._length = 0
        self._synced = 0
        """Bytes of the newest file that are known to be on the disk."""
        self.bytes_since = 0
        """Bytes that were appended to the newest file."""

    # -- writing ------------------------------------------------------------------------------------------------------

    def append(self, number: int, content: bytes) -> None:
        """Write a record behind the others; it may still be lost until :meth:`sync`.

        Raises:
            OSError: it cannot be written; the journal is as it was before.
            OutdatedError: a later epoch has written here.
        """
        if self._file is None:
            self.begin(number)
        file = self._file
        length = len(content).to_bytes(4, "little")
        head = _HEAD.pack(len(content), zlib.crc32(length), zlib.crc32(content))
        try:
            _write(file, head + content)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(file, self._length)  # type: ignore[arg-type] # open here
            raise
        self._length += len(head) + len(content)
        self.bytes_since += len(head) + len(content)

    def sync(self) -> None:
        """Force what was appended to the disk; OSError if that fails, and then nobody knows what is there."""
        if self._file is not None:
            os.fdatasync(self._file)
            self._synced = self._length

    def drop_unsynced(self) -> None:
        """After a :meth:`sync` that failed: shorten the newest file to what is known to be on the disk.

        The system may have dropped what it could not write, and still show it to readers: a record that is read back
        now may be gone after the next power cut.
        """
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._synced)

    def start_segment(self) -> None:
        """Close the newest file: the next record begins another one."""
        if self._file is not None:
            os.close(self._file)
        self._file, self._path, self._length, self._synced, self.bytes_since = None, None, 0, 0, 0

    close = start_segment

    def trim(self, number: int) -> None:
        """Remove the files that hold only records below ``number``; OSError if that fails."""
        segments = self._segments()
        for segment, following in itertools.pairwise(segments):
            if following.first <= number:
                segment.path.unlink(missing_ok=True)

    def set_aside(self, number: int) -> int:
        """Keep the records from ``number`` on under other names, where nothing reads them any more.

        Whatever stops it halfway, no record is gone: files are copied before they are shortened.

        Returns:
            How many readable records they were.
        """
        self.start_segment()
        aside = 0
        for segment in reversed(self._segments()):
            found, damage = _read(segment.path, segment.first)
            later = [at for at, _ in found if at >= number]
            aside += len(later)
            if segment.first >= number:
                segment.path.rename(_free_name(segment.path))
            elif later or damage is not None:
                kept = sum(_HEAD.size + len(content) for at, content in found if at < number)
                copy = _free_name(segment.path)
                shutil.copyfile(segment.path, copy)
                _sync_file(copy)
                os.truncate(segment.path, len(_MAGIC) + 8 + kept)
                _sync_file(segment.path)
        if self.folder.is_dir():
            sync_folder(self.folder)
        return aside

    def begin(self, number: int) -> None:
        """Begin a file with this record; its name has the epoch, so that no two processes write to the same one.

        Raises:
            OSError: it cannot be written.
            OutdatedError: a later epoch has written here.
        """
        make_folders(self.folder)
        newest = max((segment.epoch for segment in self._segments()), default=0)
        if self.epoch and newest > self.epoch:
            raise OutdatedError(f"{self.folder} has files that another process wrote since it took over this agent")
        epoch = self.epoch or newest
        path = self.folder / f"{number:020d}{f'-{epoch}' if epoch else ''}.log"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC | os.O_CLOEXEC
        if path.exists() and path.stat().st_size > len(_MAGIC) + 8:
            raise FileExistsError(f"{path} holds records already")
        file = os.open(path, flags, 0o600)
        head = _MAGIC + epoch.to_bytes(8, "little")
        try:
            _write(file, head)
            sync_folder(self.folder)
        except OSError:
            os.close(file)
            path.unlink(missing_ok=True)
            raise
        self._file, self._path, self._length, self._synced, self.bytes_since = file, path, len(head), 0, 0

    def taken_over_at(self, epoch: int) -> int | None:
        """The number of the first record that a later epoch than this one may have written; None if there is none."""
        return next((segment.first for segment in self._valid() if segment.epoch > epoch), None)

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self, number: int, *, mend: bool = True) -> Iterator[tuple[int, bytes]]:
        """The records from ``number`` on, in order: number and content of each.

        A record at the end that was cut short is removed from its file; without ``mend`` it is only left out. So is
        what a process wrote after a later epoch had begun: that was never acknowledged.

        Raises:
            DamagedJournalError: when the records before the damaged one have been yielded.
        """
        segments = self._valid()
        expected = number if segments and segments[0].first > number else None
        for index, segment in enumerate(segments):
            is_last = index == len(segments) - 1
            found, damage = _read(segment.path, segment.first)
            if not is_last and segments[index + 1].epoch > segment.epoch:
                own = segments[index + 1].first - segment.first
                found, damage = found[:own], damage if len(found) < own else None
            if damage is not None and damage.torn and is_last:
                if mend:
                    os.truncate(segment.path, damage.offset)
                damage = None
            if expected is not None and segment.first != expected and segment.first > number:
                raise DamagedJournalError(segment.path, 0, len(found))
            for at, content in found:
                if at >= number:
                    yield at, content
            if damage is not None:
                later = sum(len(_read(other.path, other.first)[0]) for other in segments[index + 1 :])
                raise DamagedJournalError(segment.path, damage.offset, damage.lost + later)
            expected = segment.first + len(found)

    def _segments(self) -> list[_Segment]:
        try:
            names = sorted(os.listdir(self.folder))  # noqa: PTH208 - names are all that is wanted
        except FileNotFoundError:
            return []
        found = [(name, match) for name in names if (match := _NAME.fullmatch(name))]
        segments = [_Segment(self.folder / name, int(match[1]), int(match[2] or 0)) for name, match in found]
        return sorted(segments, key=lambda segment: (segment.first, segment.epoch))

    def _valid(self) -> list[_Segment]:
        """Without those that a process began from which the agent had been taken."""
        valid: list[_Segment] = []
        for segment in self._segments():
            if not valid or segment.epoch >= valid[-1].epoch:
                valid.append(segment)
        return valid


@dataclasses.dataclass(frozen=True)
class _Damage:
    offset: int
    torn: bool
    lost: int


def _read(path: Path, first: int) -> tuple[list[tuple[int, bytes]], _Damage | None]:
    """The readable records of a file, and what is wrong after them."""
    content = path.read_bytes()
    head = len(_MAGIC) + 8
    if len(content) < head or not content.startswith(_MAGIC):
        return [], _Damage(0, torn=len(content) < head or not any(content), lost=0)
    found: list[tuple[int, bytes]] = []
    offset = head
    while offset < len(content):
        one = _record_at(content, offset)
        if one is None:
            return found, _damage(content, offset)
        found.append((first + len(found), one))
        offset += _HEAD.size + len(one)
    return found, None


def _record_at(content: bytes, offset: int) -> bytes | None:
    """The content of the record that begins here; None if there is no whole one."""
    if offset + _HEAD.size > len(content):
        return None
    length, length_sum, content_sum = _HEAD.unpack_from(content, offset)
    if zlib.crc32(content[offset : offset + 4]) != length_sum or length > _LARGEST:
        return None
    begin = offset + _HEAD.size
    one = content[begin : begin + length]
    return one if len(one) == length and zlib.crc32(one) == content_sum else None


def _damage(content: bytes, offset: int) -> _Damage:
    """What is wrong at an offset: a record that was cut short, which nobody was told of, or anything else.

    A length that is whole, with fewer bytes behind it than it says, was cut short. So was a head that is not whole, and
    a file that had grown before its content arrived, which is zeros.
    """
    rest = content[offset:]
    if len(rest) < _HEAD.size or not any(rest):
        return _Damage(offset, torn=True, lost=0)
    length, length_sum, _ = _HEAD.unpack_from(rest)
    length_is_whole = zlib.crc32(rest[:4]) == length_sum
    if length_is_whole and _HEAD.size + length > len(rest):
        return _Damage(offset, torn=True, lost=0)
    lost, at = 1, offset + (_HEAD.size + length if length_is_whole else 1)
    while at + _HEAD.size <= len(content):
        one = _record_at(content, at)
        lost += one is not None
        at += 1 if one is None else _HEAD.size + len(one)
    return _Damage(offset, torn=False, lost=lost)


def _write(file: int | None, content: bytes) -> None:
    """Write all of it; a short write is an error like any other."""
    if file is None:
        raise OSError("the journal is not open")
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]


def _sync_file(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _free_name(path: Path) -> Path:
    """A name for a file that is set aside."""
    number = 1
    while (free := path.with_name(f"{path.name}{_ASIDE}-{number}")).exists():
        number += 1
    return free
