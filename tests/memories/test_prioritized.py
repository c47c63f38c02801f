"""Prioritized replay: numbers of Schaul et al. 2016 worked out by hand, and what is remembered of priorities.

That random histories are drawn from as a plain model does is tested in test_memory_against_model.py.
"""

import copy
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl import EstimatorSpec
from axonrl.errors import ArgumentError, NonFiniteError
from axonrl.memories import Prioritized, ReplayMemory, Sampler, Uniform
from axonrl.memories.sum_tree import SumTree
from axonrl.schedules import Linear
from axonrl.tests.estimators.fakes import agent, linear_model
from axonrl.tests.memories.transitions import Draws, numbers, refused
from axonrl.tests.raising import raised


@pytest.fixture
def filled(built: Any, step: Any) -> Any:
    """A memory with observations 0, 1, ... of which ``update`` gave the first ones these priorities."""

    def fill(memory: Any, stored: int, *priorities: float) -> Any:
        built(memory)
        for t in range(stored):
            step(memory, t, t + 1)
        while priorities:
            size = memory.batch_size
            memory.rng = Draws([0.5] * size)
            memory.sample()
            memory.sampler._drawn = np.arange(size)  # as if these had been drawn
            memory.update_priorities(np.array(priorities[:size]) - memory.sampler.epsilon)
            priorities = priorities[size:]
        return memory

    return fill


def test_a_transition_that_was_replaced_keeps_its_own_priority(filled: Any, step: Any) -> None:
    memory = filled(ReplayMemory(2, 2, sampler=Prioritized(1.0, 1.0, 0.5)), 2)
    memory.rng = Draws([0.5, 0.5])
    assert numbers(memory.sample()["observation"]) == [0, 1]
    step(memory, 2, 3)  # replaces 0 before the batch is updated
    memory.update_priorities(np.array([98.5, 2.5]))
    assert numbers(memory.state_dict()["sampler"]["priorities"]) == [1, 3]
    step(memory, 3, 4)
    assert numbers(memory.state_dict()["sampler"]["priorities"]) == [1, 99]  # 99 is the largest so far
    raised(RuntimeError, memory.update_priorities, np.zeros(2), match=r"call sample\(\) first")


@pytest.mark.parametrize("masked", [False, True])
def test_a_place_that_is_empty_has_no_priority_however_long_nobody_asked(built: Any, step: Any, masked: bool) -> None:
    """Of 0 .. 9 the newest, at place 9 % 4, waits for the next; 1 stood there when the sampler was last told."""
    memory = built(ReplayMemory(4, 2, n_step=2, sampler="prioritized"))

    def store(first: int, last: int) -> None:
        for t in range(first, last + 1):
            step(memory, t, t + 1)

    store(0, 3)
    assert memory.state_dict()["sampler"]["priorities"].tolist() == [1, 1, 1]
    if masked:
        memory._ring._leave_lockstep()
    store(4, 9)
    assert memory.state_dict()["sampler"]["priorities"].tolist() == [1, 0, 1, 1]
    store(10, 25)  # 22, 23 and 24
    assert memory.state_dict()["sampler"]["priorities"].tolist() == [1, 0, 1, 1]
    store(26, 26)  # 23, 24 and 25
    assert memory.state_dict()["sampler"]["priorities"].tolist() == [1, 1, 0, 1]


def test_clear_forgets_priorities_and_batches(filled: Any, step: Any) -> None:
    memory = filled(ReplayMemory(4, 2, sampler=Prioritized(1.0, Linear(0.0, 1.0, 4))), 4, 100, 200)
    memory.clear()
    assert not memory.can_sample()
    for t in range(2):
        step(memory, 10 + t, 11 + t)
    memory.rng = Draws([0.9, 0.9])
    assert numbers(memory.sample()["observation"]) == [10, 11]
    state = memory.state_dict()["sampler"]
    assert (numbers(state["priorities"]), state["maximum"], state["num_batches"]) == ([1, 1], 1, 1)


def test_td_errors_that_are_none_are_refused_and_a_batch_comes_first(filled: Any) -> None:
    memory = filled(ReplayMemory(4, 2, sampler="prioritized"), 4)
    raised(RuntimeError, memory.update_priorities, np.zeros(2), match=r"call sample\(\) first")
    memory.sample()
    before = memory.state_dict()["sampler"]
    for given in (np.zeros(3), np.array(["a", "b"])):
        with refused("td_error", "td_error must be floats of shape (2,), got"):
            memory.update_priorities(given)
    for value in (np.nan, np.inf):
        with pytest.raises(NonFiniteError, match=f"td_error must be finite, got {value} at index 1 of the batch"):
            memory.update_priorities(np.array([0, value], np.float32))
    after = memory.state_dict()["sampler"]
    assert (after["maximum"], after["awaits_update"]) == (before["maximum"], True)


def test_a_copy_leaves_the_sampler_alone(filled: Any, step: Any) -> None:
    """As EVAL makes one: what it draws and updates is noted on the copy."""
    memory = filled(ReplayMemory(8, 2, sampler=Prioritized(beta=Linear(0.4, 1.0, 9))), 4, 3, 5)
    step(memory, 4, 5)
    memory.rng = Draws([0.3, 0.6])
    memory.sample()
    before = memory.state_dict()["sampler"]
    looked = copy.copy(memory)
    for _ in range(3):
        looked.rng = Draws([0.1, 0.9])
        looked.sample()
        looked.update_priorities(np.array([70, 80]))
    after = memory.state_dict()["sampler"]
    assert looked.state_dict()["sampler"]["num_batches"] == before["num_batches"] + 3
    for key, value in before.items():
        np.testing.assert_array_equal(after[key], value)


def test_a_saved_memory_has_the_same_sampler(filled: Any, built: Any) -> None:
    state = filled(ReplayMemory(8, 2, sampler=Prioritized(0.5)), 4).state_dict()
    for sampler in (Uniform(), Prioritized(0.6), Prioritized(0.5, 0.5), Prioritized(0.5, epsilon=0.1)):
        with pytest.raises(ValueError, match="the saved memory has sampling="):
            built(ReplayMemory(8, 2, sampler=sampler)).load_state_dict(state)


def test_samplers_by_name_and_by_mapping() -> None:
    assert type(ReplayMemory(4, 1).sampler) is Uniform
    assert type(ReplayMemory(4, 1, sampler="uniform").sampler) is Uniform
    beta = {"kind": "linear", "start": 0.4, "stop": 1.0, "duration": 100}
    sampler: Any = ReplayMemory(4, 1, sampler={"kind": "prioritized", "alpha": 0.7, "beta": beta}).sampler
    assert (type(sampler), sampler.alpha, sampler.beta) == (Prioritized, 0.7, Linear(0.4, 1.0, 100))


@pytest.mark.parametrize(
    ("given", "argument", "message"),
    [
        ("prioritised", "sampler", "did you mean 'prioritized'"),
        ({"alpha": 0.5}, "sampler.kind", "sampler.kind must be one of uniform, prioritized; got None"),
        ({"kind": "prioritized", "alfa": 1}, "sampler.alfa", "has no argument 'alfa' (did you mean 'alpha'?)"),
        ({"kind": "prioritized", "alpha": 2}, "Prioritized.alpha", "at most 1, got 2"),
        (Prioritized, "sampler", "got the class Prioritized, expected Prioritized(...)"),
    ],
)
def test_samplers_that_do_not_exist(given: Any, argument: str, message: str) -> None:
    with refused(argument, message):
        ReplayMemory(4, 1, sampler=given)


@pytest.mark.parametrize(("argument", "wrong"), [("alpha", 1.1), ("beta", -0.1), ("epsilon", 0)])
def test_prioritized_checks_its_arguments(argument: str, wrong: Any) -> None:
    with refused(f"Prioritized.{argument}", str(wrong)):
        Prioritized(**{argument: wrong})


@pytest.mark.parametrize("wrong", [-0.5, float("nan")])
def test_saved_priorities_that_are_none_are_refused(filled: Any, wrong: float) -> None:
    sampler = filled(ReplayMemory(4, 2, sampler="prioritized"), 3, 1, 2).sampler
    state = sampler.state_dict()
    damaged = {**state, "priorities": np.where(np.arange(len(state["priorities"])) == 1, wrong, state["priorities"])}
    with refused("priorities", f"got {wrong} at place 1"):
        sampler.load_state_dict(damaged)
    with pytest.raises(ArgumentError, match=r"at most 8, .* got 9"):  # a block of the sum tree
        sampler.load_state_dict({**state, "priorities": np.ones(9)})
    assert sampler.state_dict()["priorities"].tolist() == state["priorities"].tolist()


def test_beta_checks_its_schedule() -> None:
    with pytest.raises(ValueError, match=r"Prioritized\.beta must stay in 0 \.\. 1"):
        Prioritized(beta=Linear(0.5, 1.5, 10))
    with pytest.raises(ArgumentError, match="follows the number of batches drawn, not the run's progress"):
        Prioritized(beta=Linear(0.5, 1.0, 1.0, over="run"))


def test_every_memory_has_its_own_sampler_and_its_own_weights(built: Any, specs: Any) -> None:
    sampler = Prioritized()
    built(ReplayMemory(4, 1, sampler=sampler))
    with pytest.raises(RuntimeError, match="another memory uses this Prioritized"):
        built(ReplayMemory(4, 1, sampler=sampler))
    with pytest.raises(RuntimeError, match="belongs to no memory"):
        Uniform().draw(1, np.random.default_rng(0))
    with pytest.raises(ArgumentError, match="'weight' cannot be recorded"):
        ReplayMemory(4, 1).build({**specs, "weight": specs["reward"]}, 1, np.random.default_rng(0))


def test_a_sampler_of_ones_own(built: Any, step: Any) -> None:
    """It is told of every place once: what was added, what is empty."""

    class Newest(Sampler):
        def __init__(self) -> None:
            self.told: list[Any] = []

        def added(self, places: Any) -> None:
            self.told.append(("added", places.tolist()))

        def removed(self, places: Any) -> None:
            self.told.append(("removed", places.tolist()))

        def draw(self, n: int, rng: Any) -> Any:
            assert self.candidates is not None
            return self.candidates.places(np.arange(len(self.candidates) - n, len(self.candidates)))

    sampler = Newest()
    memory = built(ReplayMemory(4, 2, n_step=2, sampler=sampler))
    for t in range(3):
        step(memory, t, t + 1)
    batch = memory.sample()
    assert numbers(batch["observation"]) == [0, 1]
    assert "weight" not in batch
    for t in range(3, 6):
        step(memory, t, t + 1)
    assert numbers(memory.sample()["observation"]) == [3, 4]
    assert sampler.told == [("added", [0, 1]), ("removed", [1]), ("added", [2, 3, 0])]


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ([0], r"must return integers of shape \(2,\), got int64 of shape \(1,\)"),
        ([0.0, 1.0], r"must return integers of shape \(2,\), got float64 of shape \(2,\)"),
        ([0, -1], "nothing can be drawn at -1"),
        ([8, 0], "nothing can be drawn at 8"),
        ([0, 2], "nothing can be drawn at 2"),  # its return is not known yet
        ([0, 3], "nothing can be drawn at 3"),  # never written
    ],
)
@pytest.mark.parametrize("in_lock_step", [True, False])
def test_places_where_nothing_can_be_drawn_are_refused(
    places: Any, message: str, in_lock_step: bool, built: Any, step: Any
) -> None:
    class Own(Sampler):
        def draw(self, n: int, rng: Any) -> Any:
            return np.array(places)

    memory = built(ReplayMemory(8, 2, n_step=2, sampler=Own()))
    for t in range(3):
        step(memory, t, t + 1)
    if not in_lock_step:
        memory._ring._leave_lockstep()
    assert raised(ArgumentError, memory.sample, match=rf"Own\.draw .*{message}").argument == "sampler"


@pytest.mark.parametrize("capacity", [1, 8, 1000])
def test_sums_follow_from_the_values_alone(capacity: int) -> None:
    """After any history: bit for bit those of a new tree, and no place with 0 is ever found."""
    rng, tree = np.random.default_rng(0), SumTree(capacity)
    for round_ in range(60):
        places = rng.integers(0, capacity, rng.choice([1, 3, 40, 700]))
        tree.put(places, rng.random(len(places)) * 10.0 ** rng.integers(-8, 9) * (rng.random(len(places)) < 0.7))
        if round_ % 20 == 10:
            tree.clear()
            tree.put(places[:1], 1.0)
        fresh = SumTree(capacity)
        fresh.put(np.arange(capacity), tree.values[:capacity])
        if (total := tree.total()) > 0:
            sums = np.concatenate([rng.random(50), [0, 1 - 2**-40]]) * total
            found = tree.find(sums)
            assert total == fresh.total()
            assert (found == fresh.find(sums)).all()
            assert (tree.values[found] > 0).all()
            cumulative = np.cumsum(tree.values)
            assert (cumulative[found] >= sums * (1 - 1e-12)).all()
            assert (cumulative[found] - tree.values[found] <= sums + total * 1e-12).all()


def test_a_model_without_td_errors_is_refused(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return dataclasses.replace(linear_model(features, labels, mode), td_error=None)

    memory = ReplayMemory(100, 8, sampler="prioritized")
    with pytest.raises(ValueError, match="this ReplayMemory samples by TD errors, but the TRAIN spec has none"):
        agent(tmp_path, memory, model_fn).train("CartPole-v1", 20, timesteps=40)
    assert list(tmp_path.glob("checkpoints/*")) == []
