"""A random history, stored by SequenceMemory and by the simplest memory there could be: lists of dictionaries."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from axonrl.core.protocols import ArraySpec, SpecTree
from axonrl.memories import Prioritized, SequenceMemory
from axonrl.tests.memories import test_memory_against_model
from axonrl.tests.memories.test_memory_against_model import FRAMES, World
from axonrl.tests.memories.transitions import specs_of

DISCOUNT, ALPHA, BETA, EPSILON, ETA = 0.75, 0.5, 0.25, 0.125, 0.75
TIMESTEPS, BATCH_SIZE, STEPS = 40, 4, 240


class Case(NamedTuple):
    """Lanes; length, burn-in and overlap; masks (never, later, always); axis of frames; sampler."""

    num_envs: int
    length: int
    burn_in: int
    overlap: int
    masked: str
    axis: int | None
    prioritized: bool


CASES = [
    Case(1, 4, 3, 2, "never", None, True),
    Case(1, 5, 2, 4, "always", 1, True),
    Case(3, 4, 5, 1, "never", None, True),
    Case(3, 1, 2, 0, "later", 2, False),
    Case(3, 6, 1, 3, "always", None, True),
    Case(2, 5, 4, 3, "later", None, False),
]


class Model(test_memory_against_model.Model):
    """One list of all transitions of each lane, of which the last ``TIMESTEPS`` count."""

    def __init__(self, case: Case) -> None:
        super().__init__(case.num_envs)
        self.case = case

    def sequences(self, lane: int) -> list[tuple[int, int, int]]:
        """All that were ever complete: (first timestep trained on, timesteps of burn-in, timesteps trained on)."""
        length, burn_in, overlap = self.case.length, self.case.burn_in, self.case.overlap
        rows, begin, found = self.rows[lane], 0, []
        for t, row in enumerate(rows):
            ended = bool(row["terminated"] or row["truncated"])
            if ended or t == len(rows) - 1:
                for first in range(begin, t + 1, length - overlap):
                    stored = t + 1 - first
                    if (ended or stored >= length) and (first == begin or stored > overlap):
                        found.append((first, min(burn_in, first - begin), min(length, stored)))
                begin = t + 1
        return found

    def candidates(self) -> list[tuple[int, int]]:
        """(lane, number) of the sequences that may be drawn, in layers: the oldest of each lane, then the next."""
        found = []
        for lane, rows in enumerate(self.rows):
            kept = [
                number
                for number, (first, burn_in, _) in enumerate(self.sequences(lane))
                if first - burn_in >= len(rows) - TIMESTEPS
            ]
            found += [((age, len(kept), lane), (lane, number)) for age, number in enumerate(kept)]
        return [place for _, place in sorted(found)]

    def draw(self, candidates: Any) -> tuple[Any, Any]:
        if not self.case.prioritized:
            return [candidates[int(u * len(candidates))] for u in self.rng.random(BATCH_SIZE)], None
        by_place = sorted(candidates, key=lambda place: (place[1] % TIMESTEPS, place[0]))
        self.priorities = {place: self.priorities.get(place, self.maximum) for place in by_place}
        cumulative = np.cumsum([self.priorities[place] ** ALPHA for place in by_place])
        parts = (np.arange(BATCH_SIZE) + self.rng.random(BATCH_SIZE)) / BATCH_SIZE * cumulative[-1]
        drawn = [by_place[int(np.argmax(cumulative > part))] for part in parts]
        weights = np.array([self.priorities[place] ** ALPHA for place in drawn]) ** -BETA
        return drawn, weights / weights.max()

    def batch(self, drawn: Any) -> dict[str, Any]:
        """Every sequence written out, timestep by timestep."""
        columns = [self.written_out(lane, *self.sequences(lane)[number]) for lane, number in drawn]
        return {key: np.stack([column[key] for column in columns], 0 if key == "state" else 1) for key in columns[0]}

    def written_out(self, lane: int, first: int, burn_in: int, count: int) -> dict[str, Any]:
        rows, steps = self.rows[lane], []
        for offset in range(-self.case.burn_in, self.case.length):
            at = min(max(offset, -burn_in), count - 1)
            step = dict(rows[first + at])
            step["discount"] = DISCOUNT * (1 - step["terminated"])
            if at != offset:
                step |= dict.fromkeys(("reward", "terminated", "truncated", "discount"), 0)
            if offset >= count:
                step["observation"] = step["next_observation"]
            step["inside"] = float(at == offset)
            steps.append(step)
        column = {key: np.stack([step[key] for step in steps]) for key in steps[0]}
        inside = column.pop("inside")
        column["state"] = rows[first - burn_in]["state"]
        burnt = {"burn_in": inside[: self.case.burn_in]} if self.case.burn_in else {}
        return {**column, "valid": inside[self.case.burn_in :], **burnt}

    def update(self, drawn: Any, td_error: Any) -> None:
        for (lane, number), errors in zip(drawn, td_error.T, strict=True):
            count = self.sequences(lane)[number][2]
            absolute = np.abs(errors[self.case.burn_in :][:count])
            priority = ETA * absolute.max() + (1 - ETA) * absolute.mean() + EPSILON
            self.priorities[lane, number] = priority
            self.maximum = max(self.maximum, priority)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_sequences_are_those_of_the_model(case: Case) -> None:
    world, model = World(case.num_envs, case.axis), Model(case)
    shapes = {None: (2,), 1: (FRAMES, 2), 2: (2, FRAMES)}
    specs: dict[str, SpecTree] = {
        **specs_of(ArraySpec(shapes[case.axis], np.float32)),
        **{"state": {"h": ArraySpec((2,), np.float32)}, "serial": ArraySpec((), np.int64)},
    }

    def made(seed: int) -> SequenceMemory:
        sampler = Prioritized(ALPHA, BETA, EPSILON) if case.prioritized else None
        memory = SequenceMemory(
            TIMESTEPS * case.num_envs,
            BATCH_SIZE,
            length=case.length,
            burn_in=case.burn_in,
            overlap=case.overlap,
            eta=ETA,
            discount=DISCOUNT,
            frame_stack=None if case.axis is None else FRAMES,
            sampler=sampler,
        )
        memory.build(specs, case.num_envs, np.random.default_rng(seed))
        return memory

    memory, sampled = made(1), 0
    for step in range(STEPS):
        partial = case.masked == "always" or (case.masked == "later" and step > STEPS // 2)
        batch, mask = world.timestep(partial)
        batch["state"] = {"h": np.stack([batch["serial"], -batch["serial"]], 1).astype(np.float32)}
        if case.num_envs == 1 and not partial:
            memory.step(
                **{k: v["h"][0] if k == "state" else v[0] for k, v in batch.items()}
                | {"state": {"h": batch["state"]["h"][0]}}
            )
        else:
            memory.extend(mask, **batch)
        model.extend(mask, {**batch, "state": batch["state"]["h"]})
        candidates = model.candidates()
        assert memory.can_sample() == (len(candidates) >= BATCH_SIZE)
        if step % 3 or not memory.can_sample():
            continue
        drawn, weights = model.draw(candidates)
        found: Any = memory.sample()
        expected = model.batch(drawn)
        state = found.pop("state")
        np.testing.assert_array_equal(state["h"], expected.pop("state"))
        if weights is not None:
            np.testing.assert_allclose(np.asarray(found.pop("weight")), weights, rtol=1e-6)
        assert found.keys() == expected.keys()
        for key, values in expected.items():
            np.testing.assert_array_equal(found[key], values, err_msg=f"{key} at {step}")
        td_error = world.rng.normal(size=(case.burn_in + case.length, BATCH_SIZE)).astype(np.float32)
        model.update(drawn, td_error)
        memory.update_priorities(td_error)
        sampled += 1
        if sampled % 15 == 0:  # and on in another process
            saved, rng = memory.state_dict(), memory.rng
            memory = made(9)
            memory.load_state_dict(saved)
            memory.rng = rng
    assert sampled > 50
