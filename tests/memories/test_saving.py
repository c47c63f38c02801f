"""A memory saved by a checkpoint store again and again, each time only what is new: bit for bit as it was."""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl.core import chunked_arrays
from axonrl.core.protocols import ArraySpec
from axonrl.memories import ReplayMemory, SequenceMemory, ring
from axonrl.run_dir import checkpoint_folder, checkpoint_parts
from axonrl.run_dir.checkpoints import CheckpointStore
from axonrl.tests.memories.test_memory_against_model import CASES, Case, assert_same_state, build, world_of
from axonrl.tests.memories.transitions import specs_of, timestep, timesteps
from axonrl.tests.run_dir.states import flip


@pytest.fixture(autouse=True)
def small(monkeypatch: Any) -> None:
    """Small memories are saved as large ones are."""
    monkeypatch.setattr(checkpoint_folder, "_INLINE_BYTES", 0)
    monkeypatch.setattr(checkpoint_parts, "MOST_PARTS", 4)
    monkeypatch.setattr(chunked_arrays, "CHUNK_BYTES", 24)


def folders(store: CheckpointStore) -> list[Path]:
    return sorted((store.model_dir / "checkpoints").glob("checkpoint-*"))


def views(memory: Any) -> Any:
    """A memory's state as a checkpoint gets it."""
    with chunked_arrays.as_views():
        return memory.state_dict()


def loaded(store: CheckpointStore, memory: Any) -> Any:
    """``memory``, with what the newest checkpoint holds."""
    found = store.open()
    assert found is not None
    memory.load_state_dict(found[1]["memory"])
    return memory


@pytest.mark.parametrize("case", [CASES[i] for i in (3, 4, 8, 10)], ids=lambda case: "-".join(map(str, case)))
def test_a_memory_resumed_from_its_checkpoints_is_the_same(case: Case, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(ring, "_SPARE_BYTES", 0 if case.tight else 2**26)
    rng, world = np.random.default_rng(3), world_of(case)
    memory, resumed, store = build(case), build(case), CheckpointStore(tmp_path, keep_max=3)
    history: list[Any] = []  # what happened since the newest checkpoint
    linked = 0
    for t in range(160):
        masked = case.masked == "always" or (case.masked == "later" and t > 60)
        batch, mask = world.timestep(masked)
        copied = {key: value.copy() for key, value in batch.items()}
        history.append(lambda memory, given=(mask if masked else None), batch=copied: memory.extend(given, **batch))
        if t == 120:
            history.append(lambda memory: memory.clear())
        for happened in history[-1 - (t == 120) :]:
            happened(memory)
            happened(resumed)
        if memory.can_sample() and case.prioritized and t % 2:
            resumed.rng.bit_generator.state = memory.rng.bit_generator.state
            assert_same_state(memory.sample(), resumed.sample())
            td_error = rng.normal(size=5)
            memory.update_priorities(td_error)
            resumed.update_priorities(td_error)
            history.append(None)  # draws are not repeated below
        if t % 7 in (0, 2) or t in (120, 121):
            folder = store.save({"memory": views(resumed)})
            linked += any(path.stat().st_nlink > 1 for path in folder.glob("part-*"))
            assert len(list(folder.glob("part-*"))) <= checkpoint_parts.MOST_PARTS
            found = CheckpointStore(tmp_path).load()
            assert found is not None
            assert_same_state(found[1]["memory"], memory.state_dict())
            history = []
        elif t % 5 == 0 and None not in history:  # another process continues from the newest checkpoint
            store = CheckpointStore(tmp_path, keep_max=3)
            resumed = loaded(store, build(case))
            for happened in history:
                happened(resumed)
        assert_same_state(memory.state_dict(), resumed.state_dict())
    assert linked > 10


def filled(timesteps: int, size: int = 64, **kwargs: Any) -> tuple[Any, Any]:
    """A memory of one lane, and a function that stores some more timesteps."""
    memory = ReplayMemory(size, 4, **kwargs)
    memory.build(specs_of(ArraySpec((3,), np.float32)), 1, np.random.default_rng(0))
    count = iter(range(10**6))

    def store(more: int) -> None:
        for t in (next(count) for _ in range(more)):
            now, following = (np.full(3, number, np.float32) for number in (t, t + 1))
            memory.step(**timestep(now, following, action=t % 5, reward=t / 2))

    store(timesteps)
    return memory, store


def test_only_what_is_new_is_written(tmp_path: Path) -> None:
    memory, store_more = filled(40)
    store = CheckpointStore(tmp_path)
    first = store.save({"memory": views(memory)})
    store_more(2)
    second = store.save({"memory": views(memory)})
    whole, new = sorted(second.glob("part-*"))
    assert [whole.name, new.name] == ["part-00000001.safetensors", "part-00000002.safetensors"]
    assert whole.samefile(first / whole.name)
    # Two timesteps and two rows: action, reward, two flags, the row that it begins at, three float32.
    held = checkpoint_parts.read_part(new, None)[0].stretches  # type: ignore[arg-type]
    assert sum((one.end - one.begin) * one.item_bytes for one in held) == 2 * (4 + 4 + 4 + 4 + 8 + 12)
    assert {one.end - one.begin for one in held} == {2}


def test_of_sequences_only_what_is_new_is_written(tmp_path: Path) -> None:
    """With the recurrent state that each starts from, and across clear and another process."""
    specs = {**specs_of(ArraySpec((3,), np.float32)), "state": {"h": ArraySpec((5,), np.float32)}}

    def built() -> Any:
        memory = SequenceMemory(64, 2, length=4, overlap=2, sampler="prioritized")
        memory.build(specs, 2, np.random.default_rng(0))
        return memory

    def store_more(memory: Any, first: int, last: int) -> None:
        for t in range(first, last):
            now, state = np.full((2, 3), t, np.float32), {"h": np.arange(10, dtype=np.float32).reshape(2, 5) + t}
            memory.extend(**timesteps(now, now + 1, terminated=np.array([t % 11 == 10, False]), state=state))

    memory, folder = built(), CheckpointStore(tmp_path)
    store_more(memory, 0, 20)
    folder.save({"memory": views(memory)})
    memory = loaded(CheckpointStore(tmp_path), built())
    store_more(memory, 20, 22)  # completes 17 .. 20 and 19 .. 21 in the first lane, 18 .. 21 in the second
    store = CheckpointStore(tmp_path)
    loaded(store, built())  # links what it has read
    new = sorted(store.save({"memory": views(memory)}).glob("part-*"))[-1]
    held = {one.series.partition("/")[2]: one for one in checkpoint_parts.read_part(new, None)[0].stretches}  # type: ignore[arg-type]
    of_state = [held[f"state['h']/{lane}"] for lane in (0, 1)]
    assert [(one.end - one.begin, one.item_bytes) for one in of_state] == [(2, 20), (1, 20)]
    other = loaded(CheckpointStore(tmp_path), built())
    assert_same_state(other.state_dict(), memory.state_dict())
    for one in (memory, other):
        store_more(one, 22, 40)
        one.rng = np.random.default_rng(1)
    assert_same_state(other.sample(), memory.sample())
    memory.clear()
    store_more(memory, 40, 60)
    store.save({"memory": views(memory)})
    assert_same_state(loaded(CheckpointStore(tmp_path), built()).state_dict(), memory.state_dict())


@pytest.mark.parametrize("damage", [flip, Path.unlink])
def test_a_damaged_part_is_named_and_the_checkpoint_before_is_used(tmp_path: Path, damage: Any) -> None:
    memory, store_more = filled(30)
    store = CheckpointStore(tmp_path)
    store.save({"memory": views(memory)})
    expected = memory.state_dict()
    for _ in range(2):
        store_more(3)
        store.save({"memory": views(memory)})
    second, third = (folder / "part-00000002.safetensors" for folder in folders(store)[1:])
    damage(second)
    if damage is Path.unlink:  # else it is one file
        damage(third)
    after = CheckpointStore(tmp_path)
    with pytest.warns(UserWarning, match=r"is damaged: .*part-00000002.safetensors .*checkpoint-00000001") as caught:
        resumed = loaded(after, filled(0)[0])
    assert len(caught) == 2
    assert_same_state(resumed.state_dict(), expected)
    resumed.step(**{key: value[0] for key, value in memory.gather(np.array([30])).items() if key != "discount"})
    after.save({"memory": views(resumed)})
    assert_same_state(loaded(CheckpointStore(tmp_path), filled(0)[0]).state_dict(), resumed.state_dict())


@pytest.mark.parametrize("why", ["no links", "replaced", "removed"])
def test_what_cannot_be_linked_is_written_again(tmp_path: Path, monkeypatch: Any, why: str) -> None:
    memory, store_more = filled(30)
    store = CheckpointStore(tmp_path)
    first = store.save({"memory": views(memory)})
    store_more(3)
    if why == "no links":

        def refuse(*paths: Any) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
    elif why == "replaced":
        (first / "part-00000001.safetensors").write_bytes(b"?")
    else:
        shutil.rmtree(first)
    store.save({"memory": views(memory)})
    assert [path.name for path in folders(store)[-1].glob("part-*")] == [f"part-{len(folders(store)):08d}.safetensors"]
    assert_same_state(loaded(CheckpointStore(tmp_path), filled(0)[0]).state_dict(), memory.state_dict())


def test_small_and_unnamed_streams_are_plain_arrays(tmp_path: Path, monkeypatch: Any) -> None:
    memory, _ = filled(30)
    monkeypatch.setattr(checkpoint_folder, "_INLINE_BYTES", 1 << 20)
    folder = CheckpointStore(tmp_path).save({"memory": views(memory)})
    assert sorted(path.name for path in folder.iterdir()) == ["arrays.safetensors", "manifest.json", "state.json"]
    assert_same_state(loaded(CheckpointStore(tmp_path), filled(0)[0]).state_dict(), memory.state_dict())
    monkeypatch.setattr(checkpoint_folder, "_INLINE_BYTES", 0)
    folder = CheckpointStore(tmp_path).save({"x": chunked_arrays.Stream.of(np.arange(9))})
    assert not list(folder.glob("part-*"))


def test_a_reader_keeps_what_it_opened(tmp_path: Path) -> None:
    memory, store_more = filled(30)
    store = CheckpointStore(tmp_path, keep_max=1)
    store.save({"memory": views(memory)})
    expected, found = memory.state_dict(), CheckpointStore(tmp_path).open()
    memory.clear()
    store_more(5)
    store.save({"memory": views(memory)})  # removes the folder of the first
    assert len(folders(store)) == 1
    resumed = filled(0)[0]
    resumed.load_state_dict(found[1]["memory"])  # type: ignore[index]
    assert_same_state(resumed.state_dict(), expected)


def test_observations_of_several_parts_and_types(tmp_path: Path) -> None:
    spaces = {
        "a/b": ArraySpec((2,), np.float64),
        "a": ArraySpec((), np.bool_),
        "image": ArraySpec((2, 2, 3), np.uint8),
        "nothing": ArraySpec((0,), np.float32),
    }

    def dicts() -> Any:
        memory = ReplayMemory(20, 2)
        memory.build({**specs_of(spaces), "log prob": ArraySpec((), np.float16)}, 2, np.random.default_rng(0))
        return memory

    rng, memory, store = np.random.default_rng(0), dicts(), CheckpointStore(tmp_path)
    for t in range(40):
        now, following = (
            {key: rng.integers(0, 2, (2, *spec.shape)).astype(spec.dtype) for key, spec in spaces.items()}
            for _ in range(2)
        )
        more = {"action": np.ones(2, np.int32), "log prob": rng.random(2).astype(np.float16)}
        mask = np.array([True, t % 9 != 8]) if t > 20 else None
        memory.extend(mask, **timesteps(now, following, lanes=2, **more))
        if t % 3 == 0:
            store.save({"memory": views(memory)})
            assert_same_state(loaded(CheckpointStore(tmp_path), dicts()).state_dict(), memory.state_dict())


def test_views_take_no_memory_of_their_own() -> None:
    memory, _ = filled(64, sampler="prioritized")
    memory.sample()
    state = views(memory)
    assert np.shares_memory(state["sampler"]["priorities"], memory.sampler._tree.values)
    (chunk,) = state["rows"].part(0, 1).chunks()
    assert np.shares_memory(chunk, memory._ring._rows)
    assert isinstance(memory.state_dict()["rows"], np.ndarray)
