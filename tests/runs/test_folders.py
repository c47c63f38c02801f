"""Folders that are written whole or not at all. That a crash leaves the old one: see test_export.py."""

import re
from pathlib import Path

import pytest

from axonrl.errors import ArgumentError, CheckpointError
from axonrl.runs.files import why_unwritable
from axonrl.runs.folders import staged, target_of
from axonrl.tests.raising import raised
from axonrl.tests.runs.states import names


def test_what_a_writer_leaves_that_was_killed_is_put_back(tmp_path: Path) -> None:
    """Between its last two steps the old folder is aside, and the new one not yet in its place."""
    for name in (".made.old", ".made.tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    with pytest.raises(ZeroDivisionError), staged(tmp_path / "made"):
        raise ZeroDivisionError
    assert names(tmp_path) == ["made"]
    assert names(tmp_path / "made") == [".made.old"]
    with staged(tmp_path / "made") as folder:
        (folder / "new").touch()
    assert names(tmp_path) == ["made"]
    assert names(tmp_path / "made") == ["new"]


def test_there_is_one_writer_at_a_time(tmp_path: Path) -> None:
    with staged(tmp_path / "made") as folder:
        (folder / "first").touch()
        with (
            pytest.raises(CheckpointError, match="made is being written by another process"),
            staged(tmp_path / "made"),
        ):
            pass
    assert names(tmp_path / "made") == ["first"]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no folder here in which nobody can write")
def test_a_folder_in_which_nobody_can_write() -> None:
    message = r"^/proc/made cannot be written: .*\. Choose another directory"
    with pytest.raises(CheckpointError, match=message), staged(Path("/proc/made")):
        pass
    assert re.match("/proc/new cannot be created: ", why_unwritable(Path("/proc/new/folder")))


def test_what_can_be_written_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert why_unwritable(tmp_path) == why_unwritable(tmp_path / "new" / "folder") == ""
    assert (
        why_unwritable(tmp_path / "file")
        == why_unwritable(tmp_path / "file" / "made")
        == (f"{tmp_path / 'file'} is not a folder")
    )
    assert names(tmp_path) == ["file"]


def test_directories_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for wrong, message in (
        ("x" * 5_000, r"^an export cannot be written to '.*: File name too long\. Choose another directory\."),
        ("x\0", r"^an export cannot be written to '.*: .*null"),
        (
            tmp_path / "file" / "made",
            rf"^an export cannot be written to {tmp_path}/file/made: {tmp_path}/file is not a folder\. Choose",
        ),
        (None, "^directory must be a path, got None"),
        ("", "^directory must be a path, got ''"),
    ):
        error = raised(ArgumentError, target_of, wrong, "an export", ["policy.json"], match=message)
        assert error.argument == "directory"
    assert target_of(tmp_path / "new" / ".." / "made", "an export", ["policy.json"]) == tmp_path / "made"
