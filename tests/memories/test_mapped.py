"""Memories whose arrays are files."""

import copy
import gc
import json
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest

from axonrl.core.chunked_arrays import as_views
from axonrl.core.protocols import ArraySpec
from axonrl.errors import ArgumentError
from axonrl.memories import Prioritized, ReplayMemory
from axonrl.memories.description import arguments_of
from axonrl.tests.memories.test_memory_against_model import assert_same_state
from axonrl.tests.memories.transitions import refused, specs_of, timestep
from axonrl.tests.raising import raised

SPECS = specs_of(ArraySpec((3,), np.float32))


def mapped(folder: Path, size: int = 16, specs: Any = SPECS) -> Any:
    memory = ReplayMemory(size, 4, path=folder)
    memory.build(specs, 1, np.random.default_rng(0))
    return memory


def step(memory: Any, t: int) -> None:
    now, following = np.full(3, t, np.float32), np.full(3, t + 1, np.float32)
    memory.step(**timestep(now, following, reward=t))


def test_files_take_space_only_where_something_is_stored(tmp_path: Path) -> None:
    memory = mapped(tmp_path / "deep" / "memory", 1_000_000)
    files = list((tmp_path / "deep" / "memory").glob("*.array"))
    assert sum(file.stat().st_size for file in files) == memory.nbytes == memory.nbytes_for(SPECS, 1)
    before = sum(file.stat().st_blocks for file in files) * 512
    for t in range(10):
        step(memory, t)
    assert before < 2**16 < memory.nbytes
    assert sum(file.stat().st_blocks for file in files) * 512 < 2**18


def test_a_memory_larger_than_the_machine(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("axonrl.core.checks.physical_memory", lambda: 100)
    with pytest.raises(ArgumentError, match=r"needs 768 bytes, this machine has 100;"):
        ReplayMemory(16, 4).build(SPECS, 1, np.random.default_rng(0))
    mapped(tmp_path)
    sampler = Prioritized()  # its tree stays in RAM
    with pytest.raises(ArgumentError, match=r"needs \d+ bytes, this machine has 100;"):
        ReplayMemory(16, 4, path=tmp_path / "b", sampler=sampler).build(SPECS, 1, np.random.default_rng(0))
    assert not (tmp_path / "b").exists()


def test_a_full_disk(tmp_path: Path, monkeypatch: Any) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1000, 900, 100))
    with pytest.raises(ArgumentError, match=r"needs 768 bytes, and its disk has 100 left") as caught:
        mapped(tmp_path / "memory")
    assert (caught.value.argument, caught.value.value) == ("path", str(tmp_path / "memory"))
    assert not list((tmp_path / "memory").glob("*.array"))


HOLDER = """
import sys, numpy as np
from axonrl.tests.memories.test_mapped import mapped
from pathlib import Path
memory = mapped(Path(sys.argv[1]))
print("built", flush=True)
sys.stdin.read()
"""


def test_one_memory_at_a_time(tmp_path: Path) -> None:
    first = mapped(tmp_path)
    step(first, 5)
    raised(ArgumentError, mapped, tmp_path, match="in use by another memory of this process")
    assert first.get_by_index(0)["reward"] == 5
    del first
    gc.collect()
    holder = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "built\n"
        raised(ArgumentError, mapped, tmp_path, match=f"in use by process {process.pid}")
        process.kill()
    mapped(tmp_path)  # a killed process holds nothing


def test_a_memory_that_nobody_has_any_more_holds_no_folder(tmp_path: Path) -> None:
    memory: Any = mapped(tmp_path)
    memory.itself = memory  # only the garbage collector removes it, as it does an Agent
    gc.disable()
    try:
        del memory
        mapped(tmp_path)
    finally:
        gc.enable()


def test_a_memory_whose_lock_was_removed_keeps_what_it_holds(tmp_path: Path) -> None:
    first = mapped(tmp_path)
    step(first, 5)
    (tmp_path / "lock").unlink()
    step(mapped(tmp_path), 7)
    assert first.get_by_index(0)["reward"] == 5


def test_a_folder_that_is_not_whole(tmp_path: Path) -> None:
    folder = tmp_path / "memory"

    def refused(message: str, **kwargs: Any) -> None:
        gc.collect()
        before = {path.name: path.stat().st_size for path in folder.iterdir()}
        assert str(folder) in str(raised(ArgumentError, mapped, folder, **kwargs, match=message))
        assert {path.name: path.stat().st_size for path in folder.iterdir()} == {**before, "lock.pid": ANY}

    mapped(folder)
    refused(r"columns\['action'\] is int32 \[16, 1\] there and int32 \[20, 1\] here", size=20)
    other = specs_of(ArraySpec((3,), np.float64))
    refused(r"rows is float32 \[32, 1, 3\] there and float64 \[32, 1, 3\] here", specs=other)
    os.truncate(folder / "01.array", 9)
    refused(r"01.array \(columns\['reward'\]\) has 9 bytes instead of 64")
    (folder / "01.array").unlink()
    refused(r"01.array \(columns\['reward'\]\) has 0 bytes instead of 64")
    (folder / "layout.json").write_text("[")
    refused(r"layout.json does not say what it holds")
    (folder / "layout.json").write_text("[[1]]")
    refused(r"layout.json does not say what it holds")
    (folder / "layout.json").unlink()
    mapped(folder)  # a creation that was interrupted is taken up
    (folder / "layout.json").unlink()
    (folder / "thesis.txt").write_text("mine")
    refused(r"holds something else than a memory \(thesis.txt\)")
    (folder / "file").write_text("")
    raised(ArgumentError, mapped, folder / "file" / "memory", match=r"cannot be used: .*Not a directory")


@pytest.mark.parametrize("path", ["", 3])
def test_a_path_that_is_none(path: Any) -> None:
    with refused("path", "path must be a folder"):
        ReplayMemory(16, 4, path=path)


def test_copies_before_it_is_built(tmp_path: Path) -> None:
    memory = ReplayMemory(16, 4, path="memory")
    memory.place_in(tmp_path)
    for copied in (copy.deepcopy(memory), memory.trial_copy()):
        assert (copied.path, copied.size) == ("memory", 16)
    trial: Any = memory.trial_copy()
    trial.build(SPECS, 1, np.random.default_rng(0))
    step(trial, 3)
    assert trial.get_by_index(-1)["reward"] == 3
    assert not list(tmp_path.iterdir())
    memory.build(SPECS, 1, np.random.default_rng(0))
    assert json.loads((tmp_path / "memory" / "layout.json").read_text())[0] == ["columns['action']", [16, 1], "<i4"]
    assert arguments_of(memory) == {
        **{"kind": "replay", "size": 16, "batch_size": 4, "discount": 0.99, "n_step": 1, "frame_stack": None},
        **{"sampler": {"kind": "uniform"}, "path": "memory"},
    }


def test_a_trial_may_be_larger_than_ram_and_disk() -> None:
    trial = ReplayMemory(10**10, 4, path="nowhere").trial_copy()
    trial.build(SPECS, 1, np.random.default_rng(0))
    step(trial, 3)
    assert trial.nbytes > 3 * 10**11


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say which pages a process has")
def test_saving_and_loading_need_no_ram(tmp_path: Path) -> None:
    def resident() -> int:
        status = Path("/proc/self/status").read_text()
        return sum(int(line.split()[1]) for line in status.splitlines() if line.startswith(("RssAnon", "RssFile")))

    specs = specs_of(ArraySpec((4096,), np.uint8))
    memory = mapped(tmp_path / "first", 8192, specs)  # 32 MiB
    value = np.zeros(4096, np.uint8)
    for t in range(8192):
        following = np.full(4096, t % 251, np.uint8)
        memory.step(**timestep(value, following))
        value = following
    before = resident()
    with as_views():
        state = memory.state_dict()
    loaded = mapped(tmp_path / "second", 8192, specs)
    loaded.load_state_dict(state)
    assert resident() < before + 4096  # KiB
    assert_same_state(memory.state_dict(), loaded.state_dict())
