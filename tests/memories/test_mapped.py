"""Memories whose arrays are files."""

import copy
import gc
import shutil
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

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


def files_under(folder: Path) -> list[str]:
    """Lines of this process' maps of files there."""
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if str(folder) in line]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say which files a process maps")
def test_arrays_are_in_files_without_names_as_long_as_the_memory_is_there(tmp_path: Path) -> None:
    memory = mapped(tmp_path / "deep" / "memory", 1_000_000)
    assert memory.nbytes == memory.nbytes_for(SPECS, 1)
    assert len(files_under(tmp_path / "deep" / "memory")) == 6  # four columns, the rows, and where timesteps start
    assert list((tmp_path / "deep" / "memory").iterdir()) == []
    del memory
    gc.collect()
    assert files_under(tmp_path) == []


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


def test_memories_share_a_folder(tmp_path: Path) -> None:
    first, second = mapped(tmp_path), mapped(tmp_path, 20)
    step(first, 5)
    step(second, 7)
    assert [one.get_by_index(0)["reward"] for one in (first, second)] == [5, 7]


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    caught = raised(ArgumentError, mapped, tmp_path / "file" / "memory", match=r"cannot be used: .*Not a directory")
    assert str(tmp_path / "file") in str(caught)


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
    assert (tmp_path / "memory").is_dir()
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
