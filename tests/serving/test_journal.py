"""The journal: what was acknowledged is there, what was cut short is not, and all other damage is an error."""

import errno
import os
from pathlib import Path

import pytest

from axonrl.serving.hosting.fencing import OutdatedError
from axonrl.serving.hosting.journal import DamagedJournalError, Journal
from axonrl.tests.raising import raised

RECORDS = [b"first", b"the second one", b"3" * 100]
HEAD = 12
"""Bytes before a record's content."""


def filled(folder: Path) -> Path:
    """A journal with three records; its only file."""
    journal = Journal(folder)
    for number, content in enumerate(RECORDS, 1):
        journal.append(number, content)
    journal.sync()
    journal.close()
    (file,) = folder.iterdir()
    return file


def read(folder: Path, number: int = 1) -> list[tuple[int, bytes]]:
    return list(Journal(folder).read(number, lambda *record: record))


def test_a_record_that_was_cut_short_goes_at_every_byte(tmp_path: Path) -> None:
    content = filled(tmp_path / "whole").read_bytes()
    begin = len(content) - HEAD - len(RECORDS[2])
    for length in range(begin, len(content)):
        folder = tmp_path / str(length)
        folder.mkdir()
        file = folder / f"{1:020d}.log"
        file.write_bytes(content[:length])
        assert [number for number, _ in read(folder)] == [1, 2]
        journal = Journal(folder)
        journal.append(3, b"again")
        journal.close()
        assert read(folder)[2:] == [(3, b"again")]
        (folder / f"{3:020d}.log").rename(folder / f"{4:020d}.log")  # the record was acknowledged after all
        raised(DamagedJournalError, read, folder)


def test_a_file_that_grew_before_its_content_arrived_ends_there(tmp_path: Path) -> None:
    file = filled(tmp_path)
    file.write_bytes(file.read_bytes() + bytes(40))
    assert [number for number, _ in read(tmp_path)] == [1, 2, 3]


@pytest.mark.parametrize("record", [0, 2])
def test_a_flipped_bit_is_never_taken_for_a_record_that_was_cut_short(tmp_path: Path, record: int) -> None:
    file = filled(tmp_path)
    content = file.read_bytes()
    sizes = [HEAD + len(one) for one in RECORDS]
    begin = len(content) - sum(sizes) + sum(sizes[:record])
    for at in range(begin, begin + sizes[record]):
        flipped = bytearray(content)
        flipped[at] ^= 0x10
        file.write_bytes(flipped)
        error = raised(DamagedJournalError, read, tmp_path)
        assert (error.path, error.offset) == (file, begin)
        assert error.lost == 3 - record
        assert file.read_bytes() == flipped


def test_records_set_aside_are_read_no_more_and_are_not_gone(tmp_path: Path) -> None:
    content = filled(tmp_path).read_bytes()
    journal = Journal(tmp_path)
    assert journal.set_aside(2) == 2
    assert read(tmp_path) == [(1, RECORDS[0])]
    journal.append(2, b"other")
    journal.close()
    assert read(tmp_path) == [(1, RECORDS[0]), (2, b"other")]
    kept = [path for path in tmp_path.iterdir() if path.suffix != ".log"]
    assert [path.read_bytes() for path in kept] == [content]


def test_trimming_leaves_what_a_number_needs(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(1, 7):
        journal.append(number, b"%d" % number)
        if number % 2 == 0:
            journal.start_segment()
    journal.trim(4)
    assert [number for number, _ in read(tmp_path, 4)] == [4, 5, 6]
    assert len(list(tmp_path.iterdir())) == 2
    journal.trim(5)
    assert len(list(tmp_path.iterdir())) == 1
    journal.close()


def test_a_segment_that_is_missing_is_damage(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in (1, 2, 3):
        journal.append(number, b"x")
        journal.start_segment()
    (tmp_path / f"{2:020d}.log").unlink()
    raised(DamagedJournalError, read, tmp_path)
    (tmp_path / f"{1:020d}.log").unlink()
    raised(DamagedJournalError, read, tmp_path, 2)
    assert [number for number, _ in read(tmp_path, 3)] == [3]


def test_what_cannot_be_written_leaves_the_journal_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path)
    journal.append(1, RECORDS[0])
    write = os.write

    def full(file: int, content: memoryview) -> int:
        if len(content) > 8:
            return write(file, content[:8])  # the disk takes some of it
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        raised(OSError, journal.append, 2, b"12345678", match="No space")
    journal.append(2, RECORDS[1])
    journal.close()
    assert read(tmp_path) == [(1, RECORDS[0]), (2, RECORDS[1])]


def test_an_outdated_writer_is_refused(tmp_path: Path) -> None:
    later = Journal(tmp_path, epoch=2)
    later.append(1, b"x")
    later.close()
    outdated = Journal(tmp_path, epoch=1)
    raised(OutdatedError, outdated.append, 2, b"y")
    assert read(tmp_path) == [(1, b"x")]
