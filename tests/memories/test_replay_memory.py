"""ReplayMemory: what a batch holds, worked out by hand."""

from typing import Any, cast

import pytest

from axonrl.memories import ReplayMemory
from axonrl.tests.memories.transitions import Draws, numbers
from axonrl.tests.raising import raised


def test_a_batch_belongs_to_who_asked_for_it(built: Any, step: Any) -> None:
    memory = built(ReplayMemory(2, 2))
    step(memory, 0, 1)
    step(memory, 1, 2)
    memory.rng = Draws([0.75, 0.5], [0.25, 0.0], [0.0, 0.75, 0.25])
    first, second = memory.sample(), memory.sample()
    step(memory, 2, 3)
    step(memory, 3, 4)
    assert (numbers(first["observation"]), numbers(second["observation"])) == ([1, 1], [0, 0])
    first["observation"][:] = -1
    assert numbers(memory.get_by_index(0)["observation"]) == [2]
    assert numbers(memory.draw(3)["observation"]) == [2, 3, 2]  # more than are stored


def test_can_sample_counts_what_could_be_drawn(built: Any, extend: Any) -> None:
    memory = built(ReplayMemory(20, 4, n_step=3), num_envs=2)
    assert [memory.can_sample(count) for count in (0, 4, 7, 8, 1000)] == [False, False, False, True, True]
    masked = built(ReplayMemory(20, 4, n_step=2), num_envs=2)
    extend(masked, [0, 100], [1, 101])
    extend(masked, [1, 101], [2, 102], mask=[True, False])
    extend(masked, [2, 102], [3, 103], mask=[True, False])
    assert not masked.can_sample()  # 4 are stored, the newest of each lane waits
    raised(RuntimeError, masked.sample, match="batch of 4 cannot be drawn from 2")
    extend(masked, [3, 103], [4, 104])
    assert masked.can_sample()


def test_bad_arguments_are_named(built: Any) -> None:
    raised(ValueError, ReplayMemory, 10, 2, n_step=0, match="n_step must be an integer of at least 1, got 0")
    with pytest.raises(ValueError, match="batch_size must be at most size, got batch_size=11 and size=10"):
        ReplayMemory(10, 11)
    with pytest.raises(ValueError, match=r"discount must be a finite number of at least 0 and of at most 1, got 1\.5"):
        ReplayMemory(10, 2, discount=1.5)
    with pytest.raises(ValueError, match="frame_stack must be an integer of at least 1, got 0"):
        ReplayMemory(10, 1, frame_stack=0)
    with pytest.raises(ValueError, match=r"size must be an integer of at least 1, got 1\.5"):
        ReplayMemory(cast(int, 1.5), 1)
    with pytest.raises(ValueError, match="size must be at least 12 for batch_size=8 and n_step=3 with 2 env"):
        built(ReplayMemory(10, 8, n_step=3), num_envs=2)
