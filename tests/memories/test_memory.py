"""What every memory does: store, forget, count, save. Observations are numbers, and so is what is expected."""

import copy
import json
from typing import Any

import numpy as np
import pytest

from axonrl.core import checks
from axonrl.core.protocols import ArraySpec
from axonrl.errors import ArgumentError
from axonrl.memories import ReplayMemory, ring
from axonrl.tests.memories.transitions import NewestMemory, refused, specs_of, timestep, timesteps
from axonrl.tests.raising import raised


def contents(memory: Any) -> Any:
    """(observation, next observation, terminated, truncated) of every transition, oldest first."""
    keys = ("observation", "next_observation", "terminated", "truncated")
    return [tuple(int(memory.get_by_index(i)[key].item()) for key in keys) for i in range(len(memory))]


def test_a_memory_of_ones_own(built: Any, step: Any) -> None:
    memory = built(NewestMemory(5, 2))
    assert not memory.can_sample()
    for t in range(8):
        step(memory, t, t + 1)
    assert memory.can_sample()
    assert memory.sample()["observation"].tolist() == [[6], [7]]
    assert not memory.is_rollout
    memory.update_priorities(np.ones(2))  # which it has not


def test_indices_count_from_the_oldest_and_from_the_end(built: Any, extend: Any) -> None:
    memory = built(NewestMemory(4, 1), num_envs=2)
    for t in range(3):
        extend(memory, [t, 100 + t], [t + 1, 101 + t])
    expected = [1, 101, 2, 102]
    assert [memory.get_by_index(i)["observation"].item() for i in range(4)] == expected
    assert [memory.get_by_index(i)["observation"].item() for i in range(-4, 0)] == expected
    assert memory.get_by_index(-1)["observation"].shape == (1,)
    assert memory.gather([[3, 0], [1, 1]])["action"].tolist() == [[102, 1], [101, 101]]
    for outside in (4, -5):
        raised(IndexError, memory.get_by_index, outside, match=f"index must be in -4 .. 3, got {outside}")
    raised(IndexError, memory.gather, [-1, 4], match=r"index must be in 0 \.\. 3, got -1 \.\. 4")


@pytest.mark.parametrize("cut", [False, True])
def test_an_array_that_is_filled_again_in_place_after_an_end(built: Any, cut: Any) -> None:
    """Environments may hand out the same array always; at an end, identity says nothing about the contents."""
    memory = built(NewestMemory(4, 1))
    memory.trust_identity()
    buffer = np.array([1.0], np.float32)
    memory.step(**timestep(np.array([0.0], np.float32), buffer, terminated=not cut))
    if cut:
        memory.step(**timestep(buffer.copy() + 6, buffer + 7))
        assert contents(memory) == [(0, 1, 0, 1), (7, 8, 0, 0)]
    else:
        buffer[:] = 7
        memory.step(**timestep(buffer, buffer + 1))
        assert contents(memory) == [(0, 1, 1, 0), (7, 8, 0, 0)]


def test_room_is_made_for_as_many_observations_as_come(built: Any, step: Any, monkeypatch: Any) -> None:
    """Nine rows and episodes of three transitions, which take four: two episodes fit, then one out for one in."""
    monkeypatch.setattr(ring, "_SPARE_BYTES", 0)
    memory = built(NewestMemory(8, 1))
    lengths = []
    for t in range(18):
        now = 10 * (t // 3) + t % 3
        step(memory, now, now + 1, terminated=t % 3 == 2)
        lengths.append(len(memory))
    assert lengths == [1, 2, 3, 4, 5, 6] + [6] * 12


def test_a_memory_that_cannot_fit_is_refused(built: Any, monkeypatch: Any) -> None:
    # 32 bytes for every transition: 24, and two observations of 4
    monkeypatch.setattr(checks, "physical_memory", lambda: 31_999)
    with pytest.raises(ValueError, match=r"NewestMemory\(size=1000\) needs 32,000 bytes, this machine has 31,999"):
        built(NewestMemory(1000, 1))
    monkeypatch.setattr(checks, "physical_memory", lambda: 32_000)
    built(NewestMemory(1000, 1))
    monkeypatch.setattr(checks, "physical_memory", lambda: None)
    built(NewestMemory(1000, 1))
    with refused("size", "NewestMemory(size=9000000000000000000) needs 36,000,000,000,000,000,000 bytes"):
        built(NewestMemory(9 * 10**18, 1))
    with refused("size", "at most 9,223,372,036,854,775,807, got 1e+30"):
        NewestMemory(1e30, 1)  # type: ignore[arg-type]
    with refused("n_step"):
        ReplayMemory(1000, 1, n_step=10**12)


def test_the_number_of_environments_divides_the_size(built: Any) -> None:
    with pytest.raises(ValueError, match="got size=10 with 4 environments; 8 and 12 are"):
        built(NewestMemory(10, 1), num_envs=4)
    with pytest.raises(ValueError, match="num_envs must be an integer of at least 1, got 0"):
        built(NewestMemory(2, 1), num_envs=0)


def test_specs_that_cannot_be_stored(specs: Any) -> None:
    def build(**changes: Any) -> None:
        changed = {key: value for key, value in {**specs, **changes}.items() if value is not None}
        NewestMemory(2, 1).build(changed, 1, np.random.default_rng(0))

    raised(ValueError, build, action=None, match="missing: action")
    with pytest.raises(ValueError, match="observation and next_observation must be equal"):
        build(next_observation=ArraySpec((2,), np.float32))
    with pytest.raises(ValueError, match="the spec of reward must be that of a scalar"):
        build(reward=ArraySpec((2,), np.float32))
    with pytest.raises(ValueError, match="'discount' cannot be recorded"):
        build(discount=ArraySpec((), np.float32))


def test_keys_are_checked(built: Any) -> None:
    memory = built(NewestMemory(4, 1))
    good = timestep(np.zeros(1), np.zeros(1))
    with pytest.raises(KeyError, match="unexpected key 'done'; expected are action, reward"):
        memory.step(**good, done=False)
    good.pop("reward")
    raised(KeyError, memory.step, **good, match="missing key 'reward'")
    assert len(memory) == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("observation", np.zeros(2)),
        ("observation", {"position": np.zeros(1)}),
        ("next_observation", np.zeros((1, 1))),
        ("terminated", np.zeros(1, np.bool_)),
    ],
)
def test_shapes_are_checked_before_anything_is_stored(built: Any, step: Any, key: Any, value: Any) -> None:
    memory = built(NewestMemory(1, 1))
    step(memory, 0, 1)
    good = timestep(np.full(1, 5), np.full(1, 6))
    raised(ValueError, memory.step, **good | {key: value}, match=rf"^{key} must have shape")
    vector = {name: np.asarray(each)[None] for name, each in good.items()}
    raised(ValueError, memory.extend, **vector | {key: np.zeros((2, 3))}, match=rf"^{key} must have shape \(1,")
    assert contents(memory) == [(0, 1, 0, 0)]


def test_what_cannot_be_stored_leaves_no_trace(built: Any, step: Any) -> None:
    memory = built(NewestMemory(4, 3))
    step(memory, 0, 1)
    for _ in range(3):
        with pytest.raises((OverflowError, ValueError)):
            memory.step(**timestep(np.ones(1, np.float32), np.full(1, 2, np.float32), action=2**40))
    step(memory, 1, 2)
    step(memory, 2, 3)
    assert contents(memory) == [(0, 1, 0, 0), (1, 2, 0, 0), (2, 3, 0, 0)]


def test_a_memory_is_copied_before_it_is_built_or_not_at_all(built: Any) -> None:
    memory = NewestMemory(4, 2)
    built(copy.deepcopy(memory))
    with pytest.raises(TypeError, match="it is already built"):
        copy.deepcopy(built(memory))


def test_step_is_for_one_environment_and_a_mask_has_one_bool_for_each(built: Any, step: Any, extend: Any) -> None:
    memory = built(NewestMemory(4, 1), num_envs=2)
    raised(ValueError, step, memory, 0, 1, match="with 2 use extend")
    with pytest.raises(ValueError, match=r"mask must be bool of shape \(2,\), got bool of shape \(3,\)"):
        extend(memory, [0, 1], [1, 2], mask=[True, True, True])
    raised(ValueError, extend, memory, [0, 1], [1, 2], mask=[1, 1], match="got int64 of shape")


def test_an_array_that_is_filled_again_and_again(built: Any) -> None:
    """Identity says nothing about the contents, unless the caller promises that."""
    memory = built(NewestMemory(16, 1), num_envs=2)
    buffer = np.zeros((2, 1), np.float32)
    for number in (1, 2):
        buffer[:] = number
        memory.extend(**timesteps(buffer, buffer))
    assert contents(memory) == [(1, 1, 0, 1)] * 2 + [(2, 2, 0, 0)] * 2
    memory.trust_identity()
    for number in (3, 4):
        buffer[:] = number
        memory.extend(**timesteps(buffer, buffer))
    # 4 was taken for the 3 that is stored: the promise was broken.
    assert [one[0] for one in contents(memory)[4::2]] == [3, 3]


@pytest.mark.parametrize(
    ("dtype", "value", "fits"),
    [
        (np.int32, 1.5, False),
        (np.int32, np.float32(2), True),
        (np.int32, np.nan, False),
        (np.int32, "2", False),
        (np.uint8, 300, False),
        (np.uint8, -1, False),
        (np.uint8, np.uint16(300), False),
        (np.uint8, np.uint16(255), True),
        (np.int32, np.int64(2**32 + 1), False),
        (np.int32, 2**40, False),
        (np.int64, 2**70, False),
        pytest.param(np.float32, 10**400, False, id="float32-10**400-False"),
        (np.float32, np.float64(1.1), True),
        (np.bool_, 1, True),
        (np.bool_, 2, False),
    ],
)
def test_values_that_the_dtype_would_change_are_refused(dtype: Any, value: Any, fits: bool) -> None:
    box = ArraySpec((2,), dtype)
    zeros = {"one": np.zeros(2, dtype)}
    good = timestep(zeros, zeros, action=np.zeros((), dtype))
    both = {"one": np.array([value] * 2)}
    for key, named, given in (("action", "action", value), ("observation", "observation['one']", both)):
        memory = NewestMemory(4, 1)
        memory.build({**specs_of({"one": box}), "action": ArraySpec((), dtype)}, 1, np.random.default_rng(0))
        if fits:
            memory.step(**good | {key: given})
            assert len(memory) == 1
            continue
        with pytest.raises(ArgumentError, match=f"must be {np.dtype(dtype)}, got") as error:
            memory.step(**good | {key: given})
        assert error.value.argument == named
        assert len(memory) == 0


def test_dict_observations_are_dicts_of_columns(specs: Any) -> None:
    observation = {"position": ArraySpec((2,), np.float64), "seen": ArraySpec((), np.bool_)}
    memory: Any = NewestMemory(8, 4)
    memory.build(specs | {"observation": observation, "next_observation": observation}, 2, np.random.default_rng(0))

    def observe(number: Any) -> Any:
        return {"position": np.full((2, 2), number, np.float64), "seen": np.full(2, number % 2 == 1)}

    def extend(now: Any, following: Any, **changes: Any) -> None:
        memory.extend(**timesteps(now, following, **changes))

    extend(observe(1), observe(2), terminated=np.ones(2))
    extend(observe(3), observe(4))
    extend(observe(4), observe(5))
    batch = memory.sample()
    # The values of timesteps 3 and 4, each once for every environment.
    assert batch["observation"]["position"][:, 0].tolist() == [3, 3, 4, 4]
    assert batch["observation"]["seen"].tolist() == [True, True, False, False]
    assert batch["next_observation"]["position"][:, 1].tolist() == [4, 4, 5, 5]
    assert batch["next_observation"]["position"].dtype == np.float64
    assert memory.get_by_index(0)["next_observation"]["position"].tolist() == [2, 2]
    # One part that differs is enough for another episode.
    extend(observe(5) | {"seen": np.zeros(2, np.bool_)}, observe(6))
    assert [memory.get_by_index(i)["truncated"].item() for i in (-4, -3)] == [1, 1]
    assert len(memory.state_dict()["rows"]["seen"]) == (2 + 3 + 2) * 2
    # In each environment another part differs.
    extend({"position": np.array([[0.0, 0.0], [6.0, 6.0]]), "seen": np.array([False, True])}, observe(7))
    assert [memory.get_by_index(i)["truncated"].item() for i in (-4, -3)] == [1, 1]
    now = observe(7)
    with pytest.raises(KeyError, match="observation: missing key 'seen'; expected are position, seen"):
        extend({"position": now["position"]}, now)
    with pytest.raises(ValueError, match=r"next_observation\['seen'\] must have shape"):
        extend(now, now | {"seen": np.zeros(7)})
    with pytest.raises(ValueError, match="observation must be a dictionary of position, seen; got ndarray"):
        extend(np.zeros((2, 2)), now)


def test_before_and_after_build(built: Any, step: Any) -> None:
    memory: Any = NewestMemory(4, 1)
    assert len(memory) == memory.nbytes == 0
    replay: Any = ReplayMemory(4, 1)
    calls = [memory.state_dict, memory.clear, memory.can_sample, memory.trust_identity, replay.sample]
    calls += [lambda: step(memory, 0, 1), lambda: memory.gather([]), lambda: memory.get_by_index(0)]
    calls += [lambda: replay.update_priorities(np.zeros(1)), lambda: replay.load_state_dict({})]
    for call in calls:
        raised(RuntimeError, call, match=r"not built: call build\(specs, num_envs, rng\) first")
    built(memory)
    raised(RuntimeError, built, memory, match="already built")


def test_a_state_is_arrays_and_numbers_of_the_used_part_only(built: Any, step: Any) -> None:
    memory = built(NewestMemory(100, 1))
    for t in range(3):
        step(memory, t, t + 1)
    state = memory.state_dict()
    arrays = {name: state.pop(name) for name in ("start", "rows", "begin", "end", "first_row", "used_rows")}
    arrays |= state.pop("columns")
    newest = state.pop("newest")  # apart from the others, as a cut may mark it as truncated
    assert newest["action"].tolist() == [2]
    settings = {"size": 100, "num_envs": 1, "batch_size": 1, "discount": 0.99, "frame_stack": None}
    assert json.loads(json.dumps(state)) == {**settings, "lockstep": True}
    assert {key: len(array) for key, array in arrays.items()} == {
        **{"start": 3, "rows": 4, "begin": 1, "end": 1, "first_row": 1, "used_rows": 1},
        **{"action": 2, "reward": 2, "terminated": 2, "truncated": 2},
    }
    step(memory, 3, 4)
    assert len(arrays["rows"]) == 4
    arrays["rows"][:] = -1  # they are copies
    assert contents(memory)[0] == (0, 1, 0, 0)


def test_a_state_of_another_memory_is_refused(built: Any, step: Any, specs: Any) -> None:
    memory = built(NewestMemory(4, 1))
    step(memory, 0, 1)
    state = memory.state_dict()
    with pytest.raises(ValueError, match="saved memory has size=4, this one has size=6"):
        built(NewestMemory(6, 1)).load_state_dict(state)
    with pytest.raises(ValueError, match="saved memory has n_step=nothing, this one has n_step=1"):
        built(ReplayMemory(4, 1)).load_state_dict(state)

    def other(**changes: Any) -> Any:
        result = NewestMemory(4, 1)
        result.build(specs | changes, 1, np.random.default_rng(0))
        return result

    with pytest.raises(ValueError, match=r"saved columns/action is int32 .*, this memory's is float32"):
        other(action=ArraySpec((), np.float32)).load_state_dict(state)
    wide = ArraySpec((3,), np.float32)
    with pytest.raises(ValueError, match=r"observation is float32 of shape \(2, 1\), .* of \(2, 3\)"):
        other(observation=wide, next_observation=wide).load_state_dict(state)
    full = built(NewestMemory(4, 1))
    step(full, 5, 6)
    raised(ValueError, full.load_state_dict, state | {"columns": {}}, match="saved columns has the parts")
    assert contents(full) == [(5, 6, 0, 0)]


def test_a_state_with_more_observations_than_there_are_places_for(built: Any, step: Any, monkeypatch: Any) -> None:
    memory = built(NewestMemory(8, 1))
    for t in range(8):
        step(memory, 10 * t, 10 * t + 1, terminated=True)
    monkeypatch.setattr(ring, "_SPARE_BYTES", 0)
    with pytest.raises(ValueError, match=r"8 timesteps in 16 rows, this one has room for 8 in 9"):
        built(NewestMemory(8, 1)).load_state_dict(memory.state_dict())
