import contextlib
import errno
import json
import os
import re
import resource
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from axonrl.errors import CheckpointError
from axonrl.run_dir.arrays import save_arrays
from axonrl.run_dir.checkpoints import CheckpointStore
from axonrl.run_dir.files import check_file
from axonrl.tests.damage import damages
from axonrl.tests.raising import raised
from axonrl.tests.run_dir.states import FILES, counted, counter_of, flip, names, newest, truncate


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_layout_on_disk(tmp_path: Path) -> None:
    state = {
        "counters": {"global_step": 3, "global_timestep": np.int64(4), "rate": 0.5, "other": np.ones(2)},
        "net": {"w": np.arange(3, dtype=np.float32)},
    }
    folder = CheckpointStore(tmp_path / "run").save(state)
    assert folder == tmp_path / "run" / "checkpoints" / "checkpoint-00000001"
    assert sorted(p.name for p in folder.parent.iterdir()) == ["checkpoint-00000001"]
    assert sorted(p.name for p in folder.iterdir()) == sorted(FILES)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["format_version"], manifest["index"]) == (1, 1)
    assert manifest["counters"] == {"global_step": 3, "global_timestep": 4, "rate": 0.5}
    assert {name: record["size"] for name, record in manifest["files"].items()} == {
        name: (folder / name).stat().st_size for name in ("arrays.safetensors", "state.json")
    }
    # Readable by the library alone.
    arrays = safetensors.numpy.load_file(folder / "arrays.safetensors")
    assert arrays["net/w"].tolist() == [0, 1, 2]


def test_indices_count_saves_and_old_ones_are_pruned(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep_max=2)
    assert store.newest() is None
    assert store.load() is None
    for n in range(1, 5):
        assert store.save(counted(n)).name == f"checkpoint-0000000{n}"
        assert store.newest() == n
    assert names(tmp_path / "checkpoints") == ["checkpoint-00000003", "checkpoint-00000004"]
    index, state = newest(store)
    assert index == 4
    assert counter_of(state) == 4


def test_one_is_kept_for_good_every_so_many_hours_also_after_a_resume(tmp_path: Path) -> None:
    def saved_at(*hours: float, every: float | None = 2.0) -> list[int]:
        seconds = iter([3600 * hour for hour in hours])
        store = CheckpointStore(tmp_path, keep_max=1, keep_every_hours=every, clock=lambda: next(seconds))
        for n in range(len(hours)):
            store.save(counted(n))
        return store.indices()

    assert saved_at(0, 1.5) == [2]  # the first one only begins the time
    assert saved_at(2, 3, 3.5) == [3, 5]  # each call is a process that resumes the run
    assert saved_at(5.5, 6) == [3, 6, 7]  # later than was due: the time goes on from there
    assert saved_at(7, 7.5) == [3, 6, 9]
    assert saved_at(20, 30, every=None) == [3, 6, 9, 11]  # not asked for any more: what is there stays
    assert saved_at(31, 32) == [3, 6, 9, 12, 13]


def test_any_checkpoint_that_is_kept_can_be_read(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep_max=3)
    assert store.indices() == []
    for n in range(1, 5):
        store.save(counted(n))
    assert store.indices() == [2, 3, 4]
    assert [counter_of(store.read(n)) for n in (4, 2)] == [4, 2]
    (tmp_path / "checkpoints" / "checkpoint-00000003" / "state.json").unlink()
    for n, what in ((3, "state.json"), (9, "manifest.json")):  # no other one takes the place of what was asked for
        raised(CheckpointError, store.read, n, match=rf"checkpoint-0000000{n} is damaged: {what}")


def test_keep_one_and_damaged_ones_do_not_push_out_the_new_one(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep_max=1)
    store.save(counted(1))
    (tmp_path / "checkpoints" / "checkpoint-00000009").mkdir()  # damaged: empty
    assert store.save(counted(2)).name == "checkpoint-00000010"
    assert names(tmp_path / "checkpoints") == ["checkpoint-00000010"]
    assert counter_of(newest(store)[1]) == 2


def test_pruning_that_fails_is_said_and_the_new_checkpoint_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CheckpointStore(tmp_path, keep_max=1)
    store.save(counted(1))

    def refuse(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("axonrl.run_dir.checkpoints.remove", refuse)
    with pytest.warns(UserWarning, match=r"old checkpoint .*checkpoint-00000001 cannot be removed: .*denied"):
        store.save(counted(2))
    assert counter_of(newest(store)[1]) == 2


def test_leftovers_of_dead_writers_are_removed_by_the_next_writer(tmp_path: Path) -> None:
    leftover = tmp_path / "checkpoints" / ".checkpoint-00000007-123.tmp"
    leftover.mkdir(parents=True)
    (leftover / "arrays.safetensors").write_bytes(b"half")
    store = CheckpointStore(tmp_path)
    assert store.load() is None  # neither a checkpoint nor a damaged one
    assert leftover.exists()  # a reader removes nothing
    assert names(tmp_path) == ["checkpoints"]  # and writes nothing
    store.save(counted(1))
    assert names(tmp_path / "checkpoints") == ["checkpoint-00000001"]


def test_a_folder_with_other_things_in_it_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "checkpoints").mkdir()
    for name in ("checkpoint-1", "checkpoint-0000000001", "checkpoint-00000001.bak", "other"):
        (tmp_path / "checkpoints" / name).mkdir()
    store = CheckpointStore(tmp_path)
    assert store.load() is None
    store.save(counted(1))
    assert newest(store)[0] == 1
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("keep_max", [0, 1.5, True])
def test_keep_max_is_checked(tmp_path: Path, keep_max: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(f"keep_max must be an integer of at least 1, got {keep_max!r}")):
        CheckpointStore(tmp_path, keep_max)


def of_another_version(path: Path) -> None:
    path.write_text(path.read_text().replace('"format_version": 1', '"format_version": 3'))


DAMAGE = [
    ("arrays.safetensors", truncate, r"arrays.safetensors has \d+ bytes instead of \d+"),
    ("arrays.safetensors", flip, r"the SHA-256 of arrays.safetensors has changed"),
    ("state.json", Path.unlink, r"state.json cannot be read: No such file"),
    ("manifest.json", of_another_version, "has the format_version 3: this version of axonrl reads 1"),
    ("manifest.json", truncate, r"manifest.json is not JSON"),
    ("manifest.json", lambda path: path.write_text("[]"), r"manifest.json has no format_version"),
    ("manifest.json", lambda path: path.write_text('{"format_version": 1, "index": 2}'), "files is missing"),
]


@pytest.mark.parametrize(("name", "damage", "message"), DAMAGE)
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(
    tmp_path: Path, name: str, damage: Callable[[Path], None], message: str
) -> None:
    store = CheckpointStore(tmp_path)
    store.save(counted(1))
    folder = store.save(counted(2))
    damage(folder / name)
    with pytest.warns(UserWarning, match=f"checkpoint-00000002 is damaged: .*{message}") as caught:
        index, state = newest(store)
    assert len(caught) == 1
    assert "using checkpoint-00000001 instead" in str(caught[0].message)
    assert index == 1
    assert counter_of(state) == 1
    assert store.newest() == 2


@pytest.mark.parametrize("name", ["state.json", "manifest.json"])
def test_whichever_byte_is_flipped_the_state_is_right(tmp_path: Path, name: str) -> None:
    store = CheckpointStore(tmp_path)
    store.save(counted(1))
    path = store.save(counted(2)) / name
    whole = path.read_bytes()
    found = []
    for position in np.linspace(0, len(whole) - 1, 60).astype(int):
        data = bytearray(whole)
        data[position] ^= 1 << (position % 8)
        path.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            index, state = newest(store)
        assert counter_of(state) == index
        found.append(index)
    # Blanks and the counters for humans in the manifest may change unnoticed; nothing that counts may.
    assert 1 in found
    if name != "manifest.json":
        assert set(found) == {1}


def test_each_damaged_field_of_the_manifest_is_named(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    path = store.save({**counted(1), "counters": {"global_step": 1}}) / "manifest.json"
    for field, damaged in damages(
        json.loads(path.read_text()), ["format_version", "counters.global_step"], ["counters"]
    ):
        path.write_text(json.dumps(damaged))
        name = field.removeprefix("files.")  # of a file that is missing
        assert name in str(raised(CheckpointError, store.read, 1, match=r"manifest\.json"))


def test_a_checkpoint_under_another_name_is_damaged(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    folder = store.save(counted(1))
    folder.rename(folder.with_name("checkpoint-00000005"))
    raised(CheckpointError, store.load, match=r"checkpoint-00000005: manifest.json belongs to checkpoint 1")


def test_all_damaged_is_an_error_that_lists_each_with_its_damage(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    truncate(store.save(counted(1)) / "state.json")
    (store.save(counted(2)) / "manifest.json").unlink()
    flip(store.save(counted(3)) / "arrays.safetensors")
    caught = raised(CheckpointError, store.load)
    first, *lines = str(caught).split("\n")
    assert first == f"every checkpoint in {tmp_path / 'checkpoints'} is damaged:"
    assert lines[0] == "  checkpoint-00000003: the SHA-256 of arrays.safetensors has changed"
    assert lines[1] == "  checkpoint-00000002: manifest.json cannot be read: No such file or directory"
    assert lines[2].startswith("  checkpoint-00000001: state.json has ")


def test_a_reader_whose_checkpoint_is_pruned_meanwhile_reads_the_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = CheckpointStore(tmp_path, keep_max=1)
    writer.save(counted(1))
    reads: list[str] = []

    def check(path: Path, expected: Any) -> None:
        reads.append(path.parent.name)
        if len(reads) == 1:
            writer.save(counted(2))
        check_file(path, expected)

    monkeypatch.setattr("axonrl.run_dir.checkpoint_folder.check_file", check)
    index, state = newest(CheckpointStore(tmp_path))  # no warning: nothing is damaged
    assert index == 2
    assert counter_of(state) == 2
    assert reads == ["checkpoint-00000001", "checkpoint-00000002", "checkpoint-00000002"]


@contextlib.contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """The operating system itself refuses to write larger files; Python ignores the signal that comes with it."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_write_that_the_system_refuses_halfway(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.save(counted(1))
    save_arrays(tmp_path / "best.safetensors", {"a": np.ones(3)})
    before = snapshot(tmp_path)
    with file_size_limit(100_000):
        with pytest.raises(CheckpointError, match=r"checkpoint-00000002 cannot be written: .*File too large") as caught:
            store.save({"a": np.ones(1_000_000)})
        with pytest.raises(CheckpointError, match=r"best.safetensors cannot be written: .*File too large"):
            save_arrays(tmp_path / "best.safetensors", {"a": np.ones(1_000_000)})
    assert str(tmp_path / "checkpoints") in str(caught.value)
    assert "the earlier checkpoints stay valid (newest: checkpoint-00000001)" in str(caught.value)
    assert snapshot(tmp_path) == before  # nothing half-written is left, and nothing is missing
    assert counter_of(newest(store)[1]) == 1
    assert store.save(counted(2)).name == "checkpoint-00000002"  # there is room again


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    run = tmp_path / "run"
    run.mkdir()
    (run / "checkpoints").write_text("")
    for folder, named in ((file, file), (file / "below", file), (run, run / "checkpoints")):
        store = CheckpointStore(folder)
        raised(CheckpointError, store.load, match=re.escape(str(named)))
        raised(CheckpointError, store.newest, match=re.escape(str(named)))
        raised(CheckpointError, store.save, {}, match=re.escape(str(named)))
    for folder in (file, file / "below"):
        with pytest.raises(CheckpointError, match=re.escape(str(file))), CheckpointStore(folder).lock():
            pass


def test_an_interrupted_save_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CheckpointStore(tmp_path)

    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupt)
        # The folders are there already: the interrupt falls into the writing of the first file.
        (tmp_path / "checkpoints").mkdir()
        with pytest.raises(KeyboardInterrupt):
            store.save(counted(1))
    assert names(tmp_path / "checkpoints") == []
    store.save(counted(1))  # the lock is free again
