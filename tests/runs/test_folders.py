"""Folders that are written whole or not at all. That a crash leaves the old one: see test_export.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from axonrl.errors import ArgumentError, CheckpointError
from axonrl.runs.folders import staged, target_of


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


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


def test_directories_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for wrong in ("x" * 5_000, "x\0", tmp_path / "file" / "made", None, ""):
        with pytest.raises(ArgumentError, match=r"^directory "):
            target_of(wrong, "an export", ["policy.json"])
    assert target_of(tmp_path / "new" / ".." / "made", "an export", ["policy.json"]) == tmp_path / "made"
