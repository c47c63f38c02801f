"""Memories that store each frame once: how many they store, where stacks may lie, and what they refuse.

That batches are what was stored is tested in test_memory_against_model.py.
"""

import itertools
from typing import Any

import numpy as np
import pytest

from axonrl.core.protocols import ArraySpec
from axonrl.memories import Memory, ReplayMemory, ring
from axonrl.tests.memories.transitions import NewestMemory, specs_of, timestep, timesteps


def build(memory: Memory, shape: tuple[int, ...], num_envs: int = 1, dtype: Any = np.uint8) -> Any:
    memory.build(specs_of(ArraySpec(shape, dtype)), num_envs, np.random.default_rng(0))
    return memory


def stack(*frames: Any) -> Any:
    """A stack [k, 1] of frames of one number."""
    return np.array(frames, np.uint8)[:, None]


def step(memory: Any, observation: Any, following: Any, terminated: bool = False) -> None:
    memory.step(**timestep(observation, following, terminated=terminated))


def extend(memory: Any, observation: Any, following: Any) -> None:
    memory.extend(**timesteps(observation, following))


def run(memory: Any, episode: int, length: int) -> None:
    """An episode as FrameStackObservation shows it, with three frames: the first one is repeated."""
    frames = [100 * episode, 100 * episode, *range(100 * episode, 100 * episode + length + 1)]
    for t in range(length):
        now, following = stack(*frames[t : t + 3]), stack(*frames[t + 1 : t + 4])
        step(memory, now, following, terminated=t == length - 1)


def frames_of(memory: Any) -> Any:
    return memory.state_dict()["frames"].reshape(-1).tolist()


def contents(memory: Any) -> Any:
    """The frames of (observation, next observation), and whether the episode was cut, oldest first."""
    stored = [memory.get_by_index(i) for i in range(len(memory))]
    pairs = [(one["observation"], one["next_observation"], one["truncated"]) for one in stored]
    return [(*(stacked.reshape(-1).tolist() for stacked in pair), int(cut)) for *pair, cut in pairs]


def test_each_frame_is_stored_once() -> None:
    memory = build(NewestMemory(10, 1, frame_stack=3), (3, 1))
    run(memory, 0, 3)
    assert frames_of(memory) == [0, 0, 0, 1, 2, 3]
    run(memory, 1, 2)
    assert frames_of(memory) == [0, 0, 0, 1, 2, 3, 100, 100, 100, 101, 102]


def test_what_is_no_stack_is_stored_whole_and_what_does_not_change_not_at_all() -> None:
    memory = build(NewestMemory(10, 1, frame_stack=3), (3, 1))
    step(memory, stack(1, 2, 3), stack(2, 3, 4))
    step(memory, stack(2, 3, 4), stack(2, 3, 4))
    step(memory, stack(2, 3, 4), stack(4, 5, 6))  # two frames on: an overlap of one frame is not looked for
    step(memory, stack(5, 6, 7), stack(7, 6, 5))  # begins as a next one would, but the episode was cut
    assert frames_of(memory) == [1, 2, 3, 4, 4, 5, 6, 7, 7, 6, 5]


def test_an_episode_that_begins_costs_the_other_environments_nothing() -> None:
    memory = build(NewestMemory(10, 2, frame_stack=3), (3, 1), num_envs=2)
    extend(memory, [stack(0, 0, 0), stack(9, 9, 9)], [stack(0, 0, 1), stack(9, 9, 8)])
    extend(memory, [stack(0, 0, 1), stack(5, 5, 5)], [stack(0, 1, 2), stack(5, 5, 4)])
    state = memory.state_dict()
    assert state["num_frames"].tolist() == [5, 8]
    assert frames_of(memory) == [0, 0, 0, 1, 2, 9, 9, 9, 8, 5, 5, 5, 4]


@pytest.mark.parametrize("first", [(0, 0, 1), (2, 3, 4)])
def test_an_empty_memory_stores_the_first_stack_whole(first: Any) -> None:
    """Whatever was there before: nothing, zeros, or the very frames."""
    fresh, cleared, loaded = (build(NewestMemory(3, 1, frame_stack=3), (3, 1)) for _ in range(3))
    for memory in (cleared, loaded):
        step(memory, stack(1, 2, 3), stack(2, 3, 4))
    cleared.clear()
    loaded.load_state_dict(fresh.state_dict())
    for memory, newest in ((fresh, [0, 0, 0]), (cleared, [2, 3, 4]), (loaded, [0, 0, 0])):
        assert len(memory) == 0
        assert frames_of(memory) == newest  # what the next stack is compared with
        step(memory, stack(*first), stack(*first[1:], 7))
        assert frames_of(memory) == [*first, 7]
        for last in range(8, 30):
            step(memory, stack(0, 0, 0), stack(0, 0, last))
            assert contents(memory)[-1] == ([0, 0, 0], [0, 0, last], 0)
            assert len(memory) == min(last - 6, 3)


def test_frames_are_compared_bit_for_bit() -> None:
    memory = build(NewestMemory(10, 1, frame_stack=2), (2,), dtype=np.float32)
    nan, zero = np.float32(np.nan), np.float32(0)
    step(memory, np.array([1, nan]), np.array([nan, zero]))
    step(memory, np.array([nan, zero]), np.array([-zero, zero]))
    assert memory.state_dict()["num_frames"].tolist() == [5]  # 1 NaN 0, and two frames for the last stack
    assert np.signbit(memory.get_by_index(1)["next_observation"]).tolist() == [True, False]
    assert memory.get_by_index(0)["truncated"] == 0


def test_atari_takes_a_quarter(monkeypatch: Any) -> None:
    monkeypatch.setattr(ring, "_SPARE_BYTES", 0)
    whole = build(ReplayMemory(16_000, 32), (4, 84, 84)).nbytes
    once = build(ReplayMemory(16_000, 32, frame_stack=4), (4, 84, 84)).nbytes
    # For every timestep action, reward, two flags and an index, and rows for an eighth more. Then two indices for
    # every timestep, and the newest stack.
    assert whole == 16_000 * 24 + 18_000 * 4 * 7_056
    assert once == 16_000 * 24 + 18_000 * 7_056 + 16_000 * 16 + 4 * 7_056
    assert once / whole < 0.26


@pytest.mark.parametrize(
    ("shape", "frame"),
    [
        ((4,), ()),
        ((4, 4), (4,)),  # the first one, where the wrapper puts it
        ((4, 6, 4), (4, 6)),  # an image: its channels
    ],
)
def test_frames_are_stacked_along_the_first_or_the_last_axis(shape: Any, frame: Any) -> None:
    memory = build(NewestMemory(10, 2, frame_stack=4), shape)
    axis = 0 if shape[1:] == frame else -1
    film = np.random.default_rng(0).integers(0, 256, (6, *frame), np.uint8)
    shown = [np.stack(list(film[t : t + 4]), axis) for t in range(3)]
    for now, following in itertools.pairwise(shown):
        step(memory, now, following)
    np.testing.assert_array_equal(memory.state_dict()["frames"], film)
    batch = memory.sample()
    np.testing.assert_array_equal(batch["observation"], shown[:2])
    np.testing.assert_array_equal(batch["next_observation"], shown[1:])
    assert batch["observation"].flags.c_contiguous
    assert batch["observation"].dtype == np.uint8


@pytest.mark.parametrize("shape", [(), (3, 4, 5)])
def test_observations_that_are_no_stacks(shape: Any) -> None:
    message = f"frame_stack=4 needs observations with 4 frames along their first or last axis, got .* {shape}"
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(")", r"\)")):
        build(ReplayMemory(10, 1, frame_stack=4), shape)


def test_dict_observations_are_refused() -> None:
    observation = {"image": ArraySpec((4, 6, 5), np.uint8), "speed": ArraySpec((), np.float32)}
    with pytest.raises(ValueError, match=r"frame_stack=4 needs .* one array, got a dictionary of image, speed"):
        ReplayMemory(10, 1, frame_stack=4).build(specs_of(observation), 1, np.random.default_rng(0))


def test_a_state_of_another_memory_is_refused(monkeypatch: Any) -> None:
    def new(frame_stack: int | None = 3, shape: tuple[int, ...] = (3, 1)) -> Any:
        return build(NewestMemory(40, 1, frame_stack=frame_stack), shape)

    memory = new()
    run(memory, 0, 2)
    state = memory.state_dict()
    for target, message in (
        (new(None), "the saved memory has frame_stack=3, this one has frame_stack=None"),
        (new(shape=(1, 3)), "the saved memory has its frames along axis 0, this one along -1"),
        (new(shape=(3, 2)), r"the saved frames is uint8 of shape \(5, 1\), this memory's is uint8 of \(5, 2\)"),
    ):
        with pytest.raises(ValueError, match=message):
            target.load_state_dict(state)
    for _ in range(20):
        step(memory, stack(0, 1, 0), stack(1, 1, 1))
    monkeypatch.setattr(ring, "_SPARE_BYTES", 0)
    with pytest.raises(ValueError, match="the saved memory has 125 frames of a lane, this one has room for 45"):
        new().load_state_dict(memory.state_dict())
