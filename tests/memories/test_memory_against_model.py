"""A random history, stored by ReplayMemory and by the simplest memory there could be: lists of dictionaries."""

from typing import Any

import numpy as np
import pytest

from axonrl.contracts import ArraySpec
from axonrl.memories import ReplayMemory, ring

DISCOUNT = 0.75
SIZE, BATCH_SIZE, STEPS = 24, 5, 300


class Model:
    """One list of transitions for each environment; None where a row was not a transition."""

    def __init__(self, num_envs: Any, n_step: Any) -> None:
        self.rows: list[list[Any]] = [[] for _ in range(num_envs)]
        self.n_step = n_step

    def extend(self, mask: Any, batch: Any) -> None:
        for environment, rows in enumerate(self.rows):
            now = {key: value[environment].copy() for key, value in batch.items()}
            before = rows[-1] if rows else None
            if before is not None:
                cut = not mask[environment] or before["next_observation"].tolist() != now["observation"].tolist()
                before["truncated"] |= cut and not before["terminated"]
            rows.append(now if mask[environment] else None)

    def keep(self, timesteps: Any) -> None:
        self.rows = [rows[len(rows) - timesteps :] for rows in self.rows]

    def transitions(self, waiting: int = 0) -> Any:
        """All of them by their serial number, oldest first, without the newest ``waiting`` timesteps."""
        timesteps = len(self.rows[0]) - waiting
        stored = [(rows, t) for t in range(timesteps) for rows in self.rows if rows[t] is not None]
        return {int(rows[t]["serial"]): (rows, t) for rows, t in stored}

    def n_step_transition(self, rows: Any, t: Any) -> Any:
        reward, last = 0.0, t
        for k in range(self.n_step):
            last = t + k
            reward += DISCOUNT**k * float(rows[last]["reward"])
            if rows[last]["terminated"] or rows[last]["truncated"]:
                break
        discount = 0.0 if rows[last]["terminated"] else DISCOUNT ** (last - t + 1)
        ends = {key: rows[last][key] for key in ("terminated", "truncated", "next_observation")}
        return rows[t] | ends | {"reward": reward, "discount": discount}


FRAMES = 3
STACKS = [(None, 1.0), (1, 1.0), (2, 0.2)]
"""The axis of a batch of observations along which frames are stacked, and how often episodes end, compared."""
STACK_IDS = ["whole", "stacks", "stacks-last-long"]


class World:
    """Episodes that end, are cut, and begin with observations that may repeat; stacks that sometimes are none."""

    def __init__(self, num_envs: Any, rng: Any, axis: Any = None, ends: Any = 1.0) -> None:
        self.rng, self.num_envs, self.axis, self.ends, self.serial = rng, num_envs, axis, ends, 0
        self.observation = self.observe()

    def observe(self) -> Any:
        """What an episode begins with."""
        frame = self.rng.integers(0, 3, (self.num_envs, 2)).astype(np.float32)
        return frame if self.axis is None else np.repeat(np.expand_dims(frame, self.axis), FRAMES, self.axis)

    def follow(self) -> Any:
        """What follows the observation."""
        if self.axis is None:
            return self.observe()
        frame = np.take(self.observe(), [0], self.axis)
        following = np.concatenate([np.delete(self.observation, 0, self.axis), frame], self.axis)
        following[self.rng.random(self.num_envs) < 0.05] += 1
        return following

    def timestep(self) -> Any:
        """A batch, and the mask of the rows that are transitions."""
        rng, n = self.rng, self.num_envs
        terminated, following = rng.random(n) < 0.08 * self.ends, self.follow()
        batch = {
            "observation": self.observation,
            "action": rng.integers(0, 4, n),
            "reward": rng.integers(-8, 9, n).astype(np.float64),
            "terminated": terminated,
            "truncated": ~terminated & (rng.random(n) < 0.04 * self.ends),
            "next_observation": following,
            "serial": self.serial + np.arange(n),
        }
        self.serial += n
        begins = terminated | batch["truncated"] | (rng.random(n) < 0.03 * self.ends)
        if begins.any():
            self.observation = np.where(begins.reshape(n, *(1,) * (following.ndim - 1)), self.observe(), following)
        else:  # the very object, or an equal one
            self.observation = following if rng.random() < 0.5 else following.copy()
        return batch, rng.random(n) > 0.05


def build(num_envs: Any, n_step: Any, axis: Any = None) -> Any:
    shapes = {None: (2,), 1: (FRAMES, 2), 2: (2, FRAMES)}
    observation, flag = ArraySpec(shapes[axis], np.float32), ArraySpec((), np.bool_)
    specs = {
        "observation": observation,
        "action": ArraySpec((), np.int32),
        "reward": ArraySpec((), np.float32),
        "terminated": flag,
        "truncated": flag,
        "next_observation": observation,
        "serial": ArraySpec((), np.int64),
    }
    frame_stack = None if axis is None else FRAMES
    memory = ReplayMemory(SIZE, BATCH_SIZE, discount=DISCOUNT, n_step=n_step, frame_stack=frame_stack)
    memory.build(specs, num_envs, np.random.default_rng(1))
    return memory


def assert_transition(got: Any, expected: Any) -> None:
    assert got.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_array_equal(got[key], np.asarray(value).astype(got[key].dtype), err_msg=key)


def assert_same_state(a: Any, b: Any) -> None:
    assert a.keys() == b.keys()
    for key, value in a.items():
        if isinstance(value, dict):
            assert_same_state(value, b[key])
        else:
            np.testing.assert_array_equal(value, b[key], strict=isinstance(value, np.ndarray))


@pytest.mark.parametrize(("axis", "ends"), STACKS, ids=STACK_IDS)
@pytest.mark.parametrize("spare_bytes", [2**26, 0], ids=["roomy", "tight"])
@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_memory_is_the_model_and_survives_saving(
    num_envs: Any, n_step: Any, masked: Any, spare_bytes: Any, axis: Any, ends: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(ring, "_SPARE_BYTES", spare_bytes)
    memory, model = build(num_envs, n_step, axis), Model(num_envs, n_step)
    world = World(num_envs, np.random.default_rng(7), axis, ends)
    batches, shortened = 0, 0
    for t in range(STEPS):
        batch, mask = world.timestep()
        if masked:
            memory.extend(mask, **batch)
        elif num_envs == 1:
            memory.step(**{key: value[0] for key, value in batch.items()})
        else:
            memory.extend(**batch)
        model.extend(mask if masked else np.ones(num_envs, np.bool_), batch)
        stored = memory._ring.count
        shortened += stored < min(t + 1, SIZE // num_envs)
        model.keep(stored)

        if t % 17 == 0 or t < 3:  # save, load, and go on with the other one
            state, other = memory.state_dict(), build(num_envs, n_step, axis)
            other.rng = memory.rng
            other.load_state_dict(state)
            assert_same_state(other.state_dict(), state)
            memory = other

        transitions = model.transitions()
        assert len(memory) == len(transitions)
        if t % 5 and t < STEPS - 1:
            continue
        for index, (rows, place) in enumerate(transitions.values()):
            expected = rows[place] | {"discount": 0.0 if rows[place]["terminated"] else DISCOUNT}
            assert_transition(memory.get_by_index(index), expected)

        candidates = model.transitions(waiting=n_step - 1)
        assert memory.can_sample() == (len(candidates) >= BATCH_SIZE)
        if memory.can_sample():
            sampled = memory.sample()
            batches += 1
            for i in range(BATCH_SIZE):
                expected = model.n_step_transition(*candidates[int(sampled["serial"][i])])
                assert_transition({key: value[i] for key, value in sampled.items()}, expected)
    assert batches > STEPS // 10
    assert (shortened > 0) == (spare_bytes == 0)


@pytest.mark.parametrize(("axis", "ends"), STACKS, ids=STACK_IDS)
@pytest.mark.parametrize("masked", ["never", "later", "always"])
@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("fill", [0, 1, 5, 23, 24, 25, 100])
def test_the_future_after_loading_is_bit_identical(fill: Any, num_envs: Any, masked: Any, axis: Any, ends: Any) -> None:
    """Same generator state, same transitions: the same batches, and the same state at the end."""
    memory, other = build(num_envs, 2, axis), build(num_envs, 2, axis)
    world = World(num_envs, np.random.default_rng(11), axis, ends)
    for _ in range(50):  # what it held before must not matter
        batch, mask = world.timestep()
        other.extend(mask, **batch)
    for _ in range(fill):
        batch, mask = world.timestep()
        memory.extend(mask if masked == "always" else None, **batch)
    other.load_state_dict(memory.state_dict())
    other.rng.bit_generator.state = memory.rng.bit_generator.state
    for _ in range(40):
        batch, mask = world.timestep()
        copied = {key: value.copy() for key, value in batch.items()}  # a resumed run has other objects
        used_mask = None if masked == "never" else mask
        memory.extend(used_mask, **batch)
        other.extend(used_mask, **copied)
        assert memory.can_sample() == other.can_sample()
        if memory.can_sample():
            assert_same_state(memory.sample(), other.sample())
    assert_same_state(memory.state_dict(), other.state_dict())
