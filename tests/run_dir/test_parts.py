"""Parts of checkpoints: which are linked, which are written, and when they become one."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl.core.chunked_arrays import Piece, Stream
from axonrl.core.protocols import ArraySpec
from axonrl.errors import CheckpointError
from axonrl.run_dir import checkpoint_folder, checkpoint_parts
from axonrl.run_dir.arrays import load_arrays
from axonrl.run_dir.checkpoints import CheckpointStore
from axonrl.run_dir.files import write_file
from axonrl.tests.raising import raised


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_folder, "_INLINE_BYTES", 0)
    monkeypatch.setattr(checkpoint_parts, "MOST_PARTS", 4)


def numbers(*series: tuple[str, int, int]) -> Stream:
    """Item n of every series is n."""
    return Stream(ArraySpec((), np.int64), [Piece(*one, np.arange) for one in series])


def items(folder: Path) -> list[dict[str, tuple[int, int]]]:
    """What each part of a checkpoint holds of each series, oldest part first."""
    read = [checkpoint_parts.read_part(path, None)[0] for path in sorted(folder.glob("part-*"))]  # type: ignore[arg-type]
    return [{one.series: (one.begin, one.end) for one in part.stretches} for part in read]


def test_parts_become_one_when_there_are_many(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    sizes = []
    for n in range(1, 13):
        folder = store.save({"x": numbers(("a", 0, 10 * n))})
        sizes.append([end - begin for part in items(folder) for begin, end in part.values()])
        assert np.array_equal(store.load()[1]["x"], np.arange(10 * n))  # type: ignore[index]
    ten = [10]
    assert sizes[:8] == [ten, ten * 2, ten * 3, ten * 4, [50], [50, 10], [50, 10, 10], [50, 10, 10, 10]]
    assert sizes[8:] == [[50, 40], [50, 40, 10], [50, 40, 10, 10], [50, 40, 30]]


def test_what_is_no_longer_needed_is_not_written_again(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep_max=1)
    for begin, end in ((0, 10), (5, 20), (12, 30), (20, 40)):
        folder = store.save({"x": numbers(("a", begin, end))})
    assert items(folder) == [{"a": (20, 30)}, {"a": (30, 40)}]  # those of 0 .. 19 are gone
    folder = store.save({"x": numbers(("a", 25, 50))})
    folder = store.save({"x": numbers(("a", 26, 60))})
    folder = store.save({"x": numbers(("a", 27, 61))})
    assert items(folder) == [{"a": (27, 61)}]


def test_items_that_no_part_holds(tmp_path: Path) -> None:
    """Nothing that axonrl writes: files whose hashes are right, and that do not fit together."""
    store = CheckpointStore(tmp_path)
    folder = store.save({"x": numbers(("a", 0, 9))})
    text = (folder / "state.json").read_text().replace('["a", 0, 9]', '["a", 0, 10]')
    record = write_file(folder / "state.json", [text.encode()])
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["state.json"] = {"size": record.size, "sha256": record.sha256}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    raised(CheckpointError, store.open, match=r"no part holds the items 9 \.\. 9 of a")
    manifest["files"]["../other"] = manifest["files"]["state.json"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    raised(CheckpointError, store.open, match="names files that a checkpoint does not have")


def test_the_format_on_disk(tmp_path: Path) -> None:
    folder = CheckpointStore(tmp_path).save({"n": 3, "x": numbers(("a/b", 5, 8))})
    manifest: Any = json.loads((folder / "manifest.json").read_text())
    state: Any = json.loads((folder / "state.json").read_text())
    assert sorted(manifest["files"]) == ["arrays.safetensors", "part-00000001.safetensors", "state.json"]
    assert state["$streams"] == {"x": {"dtype": "int64", "shape": [], "pieces": [["a/b", 5, 8]]}}
    arrays, _ = load_arrays(folder / "part-00000001.safetensors")
    assert {name: array.tolist() for name, array in arrays.items()} == {"a/b/5": [5, 6, 7]}
