import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from axonrl.errors import ArgumentError, CheckpointError
from axonrl.run_dir.arrays import load_arrays, save_arrays
from axonrl.run_dir.checkpoints import CheckpointStore
from axonrl.run_dir.files import why_unwritable, write_atomically, write_json_atomically
from axonrl.run_dir.folders import staged, target_of
from axonrl.tests.raising import raised
from axonrl.tests.run_dir.states import names

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)


def assert_same(a: Any, b: Any) -> None:
    """Equal to the bit, of the same types, in the same order."""
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, (np.ndarray, np.generic)):
        assert (a.dtype, a.shape) == (b.dtype.newbyteorder("="), b.shape)
        assert a.tobytes() == np.asarray(b).astype(a.dtype).tobytes()
    elif isinstance(a, float):
        assert np.float64(a).tobytes() == np.float64(b).tobytes()
    else:
        assert a == b


def save_and_load(folder: Path, state: Any) -> Any:
    store = CheckpointStore(folder)
    store.save(state)
    found = CheckpointStore(folder).load()
    assert found is not None
    return found[1]


def test_every_dtype_and_shape(tmp_path: Path) -> None:
    shapes: tuple[tuple[int, ...], ...] = ((), (0,), (0, 3), (5,), (2, 3, 4))
    state = {
        dtype: (np.arange(np.prod(shape)).reshape(shape) % 2).astype(dtype)
        for dtype, shape in zip(DTYPES, shapes * 3, strict=False)
    }
    assert_same(save_and_load(tmp_path, state), state)


def test_layouts(tmp_path: Path) -> None:
    base = np.arange(24).reshape(4, 6)
    mapped = np.memmap(tmp_path / "m", np.int16, "w+", shape=(3,))
    mapped[:] = [1, -2, 3]
    state = {
        "mapped": mapped,
        "transposed": base.T,
        "strided": base[::2, 1::3],
        "backwards": base[::-1],
        "big_endian": base.astype(">i4"),
        "broadcast": np.broadcast_to(np.float32(2), (3, 3)),
        "fortran": np.asfortranarray(base),
    }
    loaded = save_and_load(tmp_path, state)
    assert_same(loaded, {name: np.array(array) for name, array in state.items()})
    loaded["transposed"][0, 0] = -1  # arrays are writable: training goes on in them
    assert loaded["transposed"][0, 0] == -1


def test_arrays_larger_than_a_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("axonrl.run_dir.files.CHUNK_BYTES", 1000)
    array = np.random.default_rng(0).random(777)
    assert_same(save_and_load(tmp_path, {"a": array, "b": array[:250]}), {"a": array, "b": array[:250]})


def test_numbers_are_exact(tmp_path: Path) -> None:
    state = {
        "ints": [0, -1, 2**63, 2**64 + 1, -(2**127), 2**128 - 1, 2**200, -(2**200) + 1],
        "huge": 3**20_000,  # more decimal digits than Python is willing to read
        "floats": [0.1, -0.0, 5e-324, 1.7976931348623157e308, float("inf"), float("-inf"), float("nan")],
        "bools": [True, False, 1, 0],
    }
    assert_same(save_and_load(tmp_path, state), state)


def test_numpy_scalars_stay_numpy_scalars(tmp_path: Path) -> None:
    loaded = save_and_load(tmp_path, {"mean": np.float32(0.1), "n": np.int64(3), "x": np.float64(0.1), "y": 0.1})
    # A Python float instead of a float32 or float64 would give a product of another dtype after resuming.
    assert type(loaded["mean"]) is np.float32
    assert (loaded["x"] * np.ones(1, np.float32)).dtype == np.float64
    assert (loaded["y"] * np.ones(1, np.float32)).dtype == np.float32
    assert loaded["n"] == 3


@pytest.mark.parametrize("name", ["PCG64", "MT19937"])  # large integers; an array
def test_generators_go_on_exactly(tmp_path: Path, name: str) -> None:
    rng = np.random.Generator(getattr(np.random, name)(7))
    rng.integers(10, size=3, dtype=np.uint32)  # leaves half a word buffered
    loaded = save_and_load(tmp_path, {"rng": rng.bit_generator.state})
    again = np.random.Generator(getattr(np.random, name)())
    again.bit_generator.state = loaded["rng"]
    assert again.integers(10, size=5, dtype=np.uint32).tolist() == rng.integers(10, size=5, dtype=np.uint32).tolist()
    assert again.random(5).tolist() == rng.random(5).tolist()


def test_awkward_keys(tmp_path: Path) -> None:
    one = np.ones(1)
    state = {
        "a/b": one,
        "a": {"b": one * 2, "": one * 3},
        "": {"a": one * 4},
        "a%2Fb": one * 5,
        "__metadata__": one * 6,
        "%5F_metadata__": one * 7,
        "$array": "a",
        "$$array": {"$array": one * 8},
        "m": {"$int": "0x10"},
        "k": {"$scalar": {"$x": 1}},
        "\ud800": one * 9,
        '~.\\ "\n\0é\U0001f916': {"": {"/": [None, {"~": ["\0"]}, {}]}},
        "dense/kernel:0": one * 10,
    }
    assert_same(save_and_load(tmp_path, state), state)


class Thing:
    pass


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"a": [1, {"b": Thing()}]}, r"state\['a'\]\[1\]\['b'\] is of type Thing"),
        ({"a": (1, 2)}, r"state\['a'\] is of type tuple"),
        ({"a": {1: 2}}, r"the keys of state\['a'\] must be strings, got 1"),
        ({"a": [np.ones(2)]}, r"state\['a'\]\[0\] is a NumPy value inside a list"),
        ({"a": np.ones(2, np.complex128)}, r"state\['a'\] has the dtype complex128"),
        ({"a": np.zeros(2).view(np.ma.MaskedArray)}, r"state\['a'\] is of type MaskedArray"),
        ([1], "a state must be a mapping, got list"),
    ],
)
def test_what_cannot_be_stored_exactly_is_named_and_nothing_is_written(
    tmp_path: Path, state: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        CheckpointStore(tmp_path).save(state)
    assert list(tmp_path.iterdir()) == []


def test_json_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_json_atomically(path, {"seed": 2**62, "x": [1.5, None], "name": "é"})
    assert json.loads(path.read_text()) == {"seed": 2**62, "x": [1.5, None], "name": "é"}
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"run.json cannot be written as JSON: .*Thing"):
        write_json_atomically(path, {"a": Thing()})
    with pytest.raises(CheckpointError, match=re.escape(str(tmp_path / "no" / "run.json"))):
        write_json_atomically(tmp_path / "no" / "run.json", {})
    assert path.read_bytes() == before
    assert names(tmp_path) == ["run.json"]


def test_json_file_survives_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.json"
    write_json_atomically(path, {"seed": 1})

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match=r"run.json cannot be written: .*No space left on device"):
        write_json_atomically(path, {"seed": 2})
    assert json.loads(path.read_text()) == {"seed": 1}
    assert names(tmp_path) == ["run.json"]


def test_arrays_file(tmp_path: Path) -> None:
    path = tmp_path / "best.safetensors"
    arrays = {"b/k:0": np.arange(6.0).reshape(2, 3).T, "a": np.array(True), "c": np.zeros((0, 2), np.int8)}
    save_arrays(path, arrays, {"return": "475.0"})
    loaded, metadata = load_arrays(path)
    assert metadata == {"return": "475.0"}
    assert set(loaded) == set(arrays)
    for name, array in arrays.items():
        assert_same(loaded[name], array)
        assert_same(safetensors.numpy.load_file(path)[name], array)
    assert names(tmp_path) == ["best.safetensors"]
    save_arrays(path, {})
    assert load_arrays(path) == ({}, {})


def test_what_an_arrays_file_cannot_hold(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with pytest.raises(ValueError, match="array 'a' has the dtype complex64, expected one of bool, int8"):
        save_arrays(path, {"a": np.zeros(1, np.complex64)})
    raised(ValueError, save_arrays, path, {"__metadata__": np.zeros(1)}, match="cannot be named '__metadata__'")
    with pytest.raises(ValueError, match="metadata must map strings to strings, got 'n': 3"):
        save_arrays(path, {}, {"n": 3})  # type: ignore[dict-item]  # the mistake
    assert names(tmp_path) == []


def test_a_damaged_or_missing_arrays_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "best.safetensors"
    raised(CheckpointError, load_arrays, path, match=r"best.safetensors cannot be read")
    save_arrays(path, {"a": np.ones(3)})
    path.write_bytes(path.read_bytes()[:-1])
    raised(CheckpointError, load_arrays, path, match=r"best.safetensors cannot be read")


def test_who_reads_a_file_that_is_replaced_reads_the_old_one_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"the old content")
    with path.open("rb", buffering=0) as file:
        assert file.read(4) == b"the "
        write_atomically(path, b"another content")
        assert file.read() == b"old content"
    assert path.read_bytes() == b"another content"


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
