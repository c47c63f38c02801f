"""BatchMemory: a rollout in, a rollout out."""

from typing import Any

import numpy as np
import pytest

from axonrl.core.protocols import Memory as MemoryProtocol
from axonrl.memories import BatchMemory
from axonrl.tests.raising import raised


def test_a_rollout_of_two_environments(built: Any, extend: Any) -> None:
    memory = built(BatchMemory(6, discount=0.5), num_envs=2)
    assert memory.is_rollout
    assert memory.batch_size == 6
    extend(memory, [0, 100], [1, 101], reward=[1, 2])
    extend(memory, [1, 101], [2, 102], reward=[3, 4], terminated=[False, True])
    assert not memory.can_sample()
    assert memory.can_sample(6)
    assert not memory.can_sample(5)
    extend(memory, [2, 200], [3, 201], reward=[5, 6], truncated=[True, False])
    assert memory.can_sample()
    batch = memory.sample()
    assert batch["observation"].tolist() == [[[0], [100]], [[1], [101]], [[2], [200]]]
    assert batch["next_observation"].tolist() == [[[1], [101]], [[2], [102]], [[3], [201]]]
    assert batch["action"].tolist() == [[0, 100], [1, 101], [2, 200]]
    assert batch["reward"].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert batch["terminated"].tolist() == [[0, 0], [0, 1], [0, 0]]
    assert batch["truncated"].tolist() == [[0, 0], [0, 0], [1, 0]]
    assert batch["discount"].tolist() == [[0.5, 0.5], [0.5, 0], [0.5, 0.5]]
    assert batch["discount"].dtype == np.float32
    assert isinstance(memory, MemoryProtocol)


def test_every_timestep_may_be_an_episode_of_its_own(built: Any, step: Any) -> None:
    memory = built(BatchMemory(20))
    for t in range(20):
        step(memory, 10 * t, 10 * t + 1, terminated=True)
    batch = memory.sample()
    assert batch["observation"].reshape(-1).tolist() == list(range(0, 200, 10))
    assert batch["next_observation"].reshape(-1).tolist() == list(range(1, 200, 10))


def test_misuse_is_refused(built: Any, step: Any, extend: Any) -> None:
    raised(ValueError, BatchMemory, 8, 4, match="got batch_size=4 and size=8")
    with pytest.raises(ValueError, match="multiple of the number of environments, got size=8 with 3"):
        built(BatchMemory(8), num_envs=3)
    memory = built(BatchMemory(2))
    extend(memory, [0], [1], mask=[True])
    raised(RuntimeError, memory.sample, match="sampled when it is full: it has 1 of 2 timesteps")
    step(memory, 1, 2)
    raised(RuntimeError, step, memory, 2, 3, match="rollout of 2 timesteps is full")


def test_lanes_fill_at_different_rates(built: Any, extend: Any) -> None:
    memory, other = built(BatchMemory(4, discount=0.5), num_envs=2), built(BatchMemory(4, discount=0.5), num_envs=2)
    for _ in range(2):  # the second rollout begins in lock step again
        extend(memory, [0, 100], [1, 101], mask=[True, False])
        extend(memory, [1, 100], [2, 101], mask=[True, True])
        other.load_state_dict(memory.state_dict())
        with pytest.raises(RuntimeError, match=r"full in lane 0 \(2 timesteps each\), but not in every lane"):
            extend(memory, [2, 101], [3, 102])
        assert not memory.can_sample()
        assert len(memory) == 3
        for each in (memory, other):
            extend(each, [9, 200], [9, 201], mask=[False, True])
            batch = each.sample()
            assert batch["observation"].tolist() == [[[0], [100]], [[1], [200]]]
            assert batch["next_observation"].tolist() == [[[1], [101]], [[2], [201]]]
            assert batch["truncated"].tolist() == [[0, 1], [0, 0]]  # lane 1 did not go on at 101
        memory.clear()


def test_what_full_lanes_get_is_left_out_if_asked_for(built: Any, extend: Any) -> None:
    memory = built(BatchMemory(4), num_envs=2)
    memory.drop_surplus()
    for _ in range(2):
        extend(memory, [0, 100], [1, 101], mask=[True, False])
        extend(memory, [1, 100], [2, 101])
        extend(memory, [2, 101], [3, 102], mask=[True, False])  # lane 0 is full, and lane 1 does not act
        assert (len(memory), memory.can_sample()) == (3, False)
        extend(memory, [3, 101], [4, 102])
        assert memory.sample()["observation"].tolist() == [[[0], [100]], [[1], [101]]]
        raised(RuntimeError, extend, memory, [4, 102], [5, 103], match="rollout of 4 timesteps is full")
        memory.clear()


def test_lanes_that_stay_empty_are_packed_into_a_rollout(built: Any, extend: Any) -> None:
    """Lane 1 has one timestep, lanes 0 and 2 fill what is left; one lane follows the other, each cut at its end."""
    memory = BatchMemory(6)
    memory.pack()
    built(memory, num_envs=3)
    for _ in range(2):
        extend(memory, [0, 100, 200], [1, 101, 201])
        extend(memory, [1, 0, 201], [2, 0, 202], mask=[True, False, True])
        assert (len(memory), memory.can_sample()) == (5, False)
        extend(memory, [2, 0, 202], [3, 0, 203], mask=[True, False, True])  # no room for lane 2
        batch: Any = memory.sample()
        assert batch["observation"].tolist() == [[[0], [2], [200]], [[1], [100], [201]]]
        assert batch["next_observation"].tolist() == [[[1], [3], [201]], [[2], [101], [202]]]
        assert batch["truncated"].tolist() == [[0, 1, 0], [0, 1, 1]]
        assert batch["discount"].shape == (2, 3)
        raised(RuntimeError, extend, memory, [3, 0, 203], [4, 0, 204], match="rollout of 6 timesteps is full")
        memory.clear()
    extend(memory, [0, 100, 200], [1, 101, 201])
    extend(memory, [1, 101, 201], [2, 102, 202])  # in lock step it is as it was
    batch = memory.sample()
    assert batch["observation"].tolist() == [[[0], [100], [200]], [[1], [101], [201]]]
    raised(RuntimeError, built(BatchMemory(3), num_envs=3).pack, match="built for lanes that fill together")
