"""A random history, stored by ReplayMemory and by the simplest memory there could be: lists of dictionaries."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from axonrl.core.protocols import ArraySpec
from axonrl.memories import Prioritized, ReplayMemory, ring
from axonrl.schedules import Linear
from axonrl.tests.memories.transitions import specs_of

DISCOUNT, ALPHA, BETA, EPSILON = 0.75, 0.5, Linear(0.25, 1.0, 20), 0.125
SIZE, BATCH_SIZE, STEPS, FRAMES = 24, 5, 200, 3


class Case(NamedTuple):
    """Lanes; n; masks (never, later, always); few spare rows; axis of frames; how often episodes end; sampler."""

    num_envs: int
    n_step: int
    masked: str
    tight: bool
    axis: int | None
    ends: float
    prioritized: bool


CASES = [
    Case(1, 1, "never", False, None, 1.0, False),
    Case(1, 3, "never", True, None, 1.0, True),
    Case(1, 3, "always", False, 1, 1.0, True),
    Case(1, 1, "later", True, 2, 0.2, False),
    Case(3, 1, "never", True, None, 1.0, True),
    Case(3, 3, "never", False, 1, 1.0, False),
    Case(3, 1, "always", False, None, 1.0, True),
    Case(3, 3, "always", True, None, 1.0, False),
    Case(3, 3, "later", False, None, 1.0, True),
    Case(3, 1, "later", True, 1, 1.0, False),
    Case(3, 3, "always", True, 2, 0.2, True),
    Case(2, 2, "later", True, 2, 0.2, True),
]
"""Pairwise."""


class Model:
    """One list of all transitions of each lane, of which the last ``kept`` count."""

    def __init__(self, num_envs: int, n_step: int = 1) -> None:
        self.rows: list[list[Any]] = [[] for _ in range(num_envs)]
        self.kept, self.n_step = [0] * num_envs, n_step
        self.priorities: dict[Any, float] = {}
        self.maximum, self.batches = 1.0, 0
        self.rng = np.random.default_rng(1)

    def extend(self, mask: Any, batch: Any) -> None:
        for lane, rows in enumerate(self.rows):
            if mask[lane]:
                now = {key: value[lane].copy() for key, value in batch.items()}
                if rows:
                    before = rows[-1]
                    cut = before["next_observation"].tolist() != now["observation"].tolist()
                    before["truncated"] |= cut and not before["terminated"]
                rows.append(now)

    def transitions(self, waiting: int = 0) -> Any:
        """(lane, number), by age in their lanes; without the newest ``waiting`` of each lane."""
        found = []
        for lane, rows in enumerate(self.rows):
            numbers = range(len(rows) - self.kept[lane], len(rows) - waiting)
            found += [((age, len(numbers), lane), (lane, t)) for age, t in enumerate(numbers)]
        return [place for _, place in sorted(found)]

    def n_step_transition(self, lane: Any, t: Any) -> Any:
        reward, last, rows = 0.0, t, self.rows[lane]
        for k in range(self.n_step):
            last = t + k
            reward += DISCOUNT**k * float(rows[last]["reward"])
            if rows[last]["terminated"] or rows[last]["truncated"]:
                break
        discount = 0.0 if rows[last]["terminated"] else DISCOUNT ** (last - t + 1)
        ends = {key: rows[last][key] for key in ("terminated", "truncated", "next_observation")}
        return rows[t] | ends | {"reward": reward, "discount": discount}

    def draw_uniform(self, candidates: Any) -> Any:
        return [candidates[int(u * len(candidates))] for u in self.rng.random(BATCH_SIZE)], None

    def draw_prioritized(self, candidates: Any) -> Any:
        timesteps = SIZE // len(self.rows)
        by_place = sorted(candidates, key=lambda place: (place[1] % timesteps, place[0]))
        serials = [int(self.rows[lane][t]["serial"]) for lane, t in by_place]
        self.priorities = {serial: self.priorities.get(serial, self.maximum) for serial in serials}
        cumulative = np.cumsum([self.priorities[serial] ** ALPHA for serial in serials])
        parts = (np.arange(BATCH_SIZE) + self.rng.random(BATCH_SIZE)) / BATCH_SIZE * cumulative[-1]
        index = [int(np.argmax(cumulative > part)) for part in parts]
        probabilities = np.array([self.priorities[serials[i]] ** ALPHA for i in index]) / cumulative[-1]
        weights = (len(serials) * probabilities) ** -BETA(self.batches)
        self.batches += 1
        return [by_place[i] for i in index], weights / weights.max()

    def update(self, drawn: Any, td_error: Any) -> None:
        for (lane, t), error in zip(drawn, td_error, strict=True):
            priority = abs(error) + EPSILON
            self.priorities[int(self.rows[lane][t]["serial"])] = priority
            self.maximum = max(self.maximum, priority)


class World:
    """Episodes that end, are cut, and begin with observations that may repeat; some stacks do not follow the last."""

    def __init__(self, num_envs: int, axis: int | None, ends: float = 1.0) -> None:
        self.rng, self.num_envs, self.axis, self.ends = np.random.default_rng(7), num_envs, axis, ends
        self.serial = 0
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

    def timestep(self, masked: bool) -> Any:
        """A batch, and the mask of the lanes that take part; the others stay where they are."""
        rng, n = self.rng, self.num_envs
        mask = rng.random(n) < (0.7 if masked else 2.0)
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
        shape = (n, *(1,) * (following.ndim - 1))
        if (begins | ~mask).any():
            self.observation = np.where(begins.reshape(shape), self.observe(), following)
            self.observation = np.where(mask.reshape(shape), self.observation, batch["observation"])
        else:  # the very object, or an equal one
            self.observation = following if rng.random() < 0.5 else following.copy()
        return batch, mask


def world_of(case: Case) -> World:
    return World(case.num_envs, case.axis, case.ends)


def build(case: Case) -> Any:
    shapes = {None: (2,), 1: (FRAMES, 2), 2: (2, FRAMES)}
    specs = {**specs_of(ArraySpec(shapes[case.axis], np.float32)), "serial": ArraySpec((), np.int64)}
    memory = ReplayMemory(
        SIZE,
        BATCH_SIZE,
        discount=DISCOUNT,
        n_step=case.n_step,
        frame_stack=None if case.axis is None else FRAMES,
        sampler=Prioritized(ALPHA, BETA, EPSILON) if case.prioritized else None,
    )
    memory.build(specs, case.num_envs, np.random.default_rng(1))
    return memory


def assert_transition(got: Any, expected: Any) -> None:
    assert got.keys() - {"weight"} == expected.keys()
    for key, value in expected.items():
        np.testing.assert_array_equal(got[key], np.asarray(value).astype(got[key].dtype), err_msg=key)


def assert_same_state(a: Any, b: Any) -> None:
    assert a.keys() == b.keys()
    for key, value in a.items():
        if isinstance(value, dict):
            assert_same_state(value, b[key])
        else:
            np.testing.assert_array_equal(value, b[key], strict=isinstance(value, np.ndarray))


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_memory_is_the_model_and_survives_saving(case: Case, monkeypatch: Any) -> None:
    """One memory lives through all, the other is saved and loaded again and again: bit for bit the same future."""
    monkeypatch.setattr(ring, "_SPARE_BYTES", 0 if case.tight else 2**26)
    memory, resumed, model, world = build(case), build(case), Model(case.num_envs, case.n_step), world_of(case)
    memory.trust_identity()
    batches, shortened, parted = 0, 0, False
    for t in range(STEPS):
        masked = case.masked == "always" or (case.masked == "later" and t > STEPS // 2)
        batch, mask = world.timestep(masked)
        parted |= len(set(mask)) == 2
        copied = {key: value.copy() for key, value in batch.items()}  # a resumed run has other objects
        for each, values in ((memory, batch), (resumed, copied)):
            if case.num_envs == 1 and not masked:
                each.step(**{key: value[0] for key, value in values.items()})
            else:
                each.extend(mask if masked else None, **values)
        model.extend(mask, batch)
        model.kept = memory._ring.counts.tolist()
        shortened += any(
            kept < min(len(rows), SIZE // case.num_envs) for kept, rows in zip(model.kept, model.rows, strict=True)
        )
        assert len(memory) == len(resumed) == sum(model.kept)
        if t % 17 == 0 or t < 3:
            state, other = resumed.state_dict(), build(case)
            assert_same_state(memory.state_dict(), state)
            other.rng = resumed.rng
            other.load_state_dict(state)
            assert_same_state(other.state_dict(), state)
            resumed = other
        if t % 25 == 24:
            for index, (lane, number) in enumerate(model.transitions()):
                row = model.rows[lane][number]
                expected = row | {"discount": 0.0 if row["terminated"] else DISCOUNT}
                assert_transition(memory.get_by_index(index), expected)
        candidates = model.transitions(waiting=case.n_step - 1)
        assert memory.can_sample() == resumed.can_sample() == (len(candidates) >= BATCH_SIZE)
        if t % 3 == 0 and memory.can_sample():
            batches += 1
            sampled = memory.sample()
            assert_same_state(sampled, resumed.sample())
            drawn, weights = (model.draw_prioritized if case.prioritized else model.draw_uniform)(candidates)
            for i, place in enumerate(drawn):
                assert_transition({key: value[i] for key, value in sampled.items()}, model.n_step_transition(*place))
            assert ("weight" in sampled) == case.prioritized
            if weights is not None:
                np.testing.assert_allclose(sampled["weight"], weights, rtol=1e-6)
                td_error = world.rng.normal(size=BATCH_SIZE).astype(np.float32)
                td_error[1] = -100.0 * (t == 198)  # a new maximum
                model.update(drawn, td_error.astype(np.float64))
                for each in (memory, resumed):
                    each.update_priorities(td_error)
    assert batches > STEPS // 4
    assert (shortened > 0) == case.tight
    assert parted == (case.num_envs > 1 and case.masked != "never")
