"""HindsightMemory: which goals may be drawn, and what a batch is with them, worked out by hand."""

import copy
import itertools
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from axonrl.core.protocols import ArraySpec, SpecTree
from axonrl.environments.memory_view import EnvironmentView
from axonrl.errors import ArgumentError, NonFiniteError
from axonrl.memories import HindsightMemory
from axonrl.memories.episode_bounds import Bounds
from axonrl.tests.memories.transitions import Draws, numbers, refused, specs_of, timestep, timesteps
from axonrl.tests.raising import raised

Numbers = list[float]
CARTPOLE: Any = Box(-1, 1, (4,))
POINT: dict[str, ArraySpec] = {
    "observation": ArraySpec((1,), np.float32),
    "achieved_goal": ArraySpec((1,), np.float32),
    "desired_goal": ArraySpec((1,), np.float32),
}


def reached(achieved: Any, desired: Any, info: Any) -> Any:
    return (np.abs(achieved - desired) < 0.5).all(axis=-1)


def reward(achieved: Any, desired: Any, info: Any) -> Any:
    """0 where the goal is reached, else -1; and it must be called with an empty info."""
    assert info == {}
    return reached(achieved, desired, info) - 1.0


def observed(position: Any, goal: Any) -> dict[str, Any]:
    """Where something is: on a line, a goal being another place. Numbers, or a list with one for each lane."""
    at, wanted = (np.array(value, np.float32)[..., None] for value in (position, goal))
    return {"observation": at, "achieved_goal": at, "desired_goal": wanted}


def walk(memory: Any, positions: Numbers, goal: float, *, terminated: bool = False, truncated: bool = False) -> None:
    """Store an episode through these positions, whose last transition ends it or does not."""
    for index, (now, then) in enumerate(itertools.pairwise(positions)):
        last = index == len(positions) - 2
        paid = float(reward(np.array([then]), np.array([goal]), {}))
        ends = {"terminated": last and terminated, "truncated": last and truncated}
        memory.step(**timestep(observed(now, goal), observed(then, goal), reward=paid, **ends))


def built(memory: Any, num_envs: int = 1, seed: int = 0) -> Any:
    memory.build(specs_of(POINT), num_envs, np.random.default_rng(seed))
    return memory


def memory_of(batch_size: int = 4, **arguments: Any) -> Any:
    return built(HindsightMemory(20, batch_size, **{"discount": 0.5, "compute_reward": reward, **arguments}))


def sampled(memory: Any, index: list[int], chosen: Any, drawn: Any = None) -> dict[str, Any]:
    """A batch of the transitions of these indices, with the numbers that decide on their goals."""
    of = (np.array(index) + 0.5) / len(memory._candidates)
    draws = [of, np.where(chosen, 0.0, 0.99)] + ([] if drawn is None else [drawn])
    memory.rng = Draws(*draws)
    batch: dict[str, Any] = memory.sample()
    assert memory.rng.draws == []
    return batch


@pytest.mark.parametrize(
    ("strategy", "goals"),
    [
        # The achieved goals of the timesteps t .. 3 of an episode through 10, 11, 12, 13, 14.
        ("future", [{11, 12, 13, 14}, {12, 13, 14}, {13, 14}, {14}]),
        ("final", [{14}] * 4),
        ("episode", [{11, 12, 13, 14}] * 4),
    ],
)
def test_goals_of_each_strategy(strategy: str, goals: list[set[int]]) -> None:
    memory = memory_of(strategy=strategy)
    walk(memory, [1, 2, 3], goal=99, truncated=True)
    walk(memory, [10, 11, 12, 13, 14], goal=99, terminated=True)
    walk(memory, [20, 21, 22], goal=99)
    found: list[set[float]] = [set() for _ in range(4)]
    for drawn in np.arange(0.05, 1, 0.1):
        each = None if strategy == "final" else [drawn] * 4
        batch = sampled(memory, [2, 3, 4, 5], [True] * 4, each)
        for row, goal in enumerate(numbers(batch["observation"]["desired_goal"])):
            found[row].add(goal)
        assert numbers(batch["next_observation"]["desired_goal"]) == numbers(batch["observation"]["desired_goal"])
    assert found == goals


def test_an_episode_that_runs_ends_for_now_with_the_newest_timestep() -> None:
    memory = memory_of(2, strategy="final")
    assert memory.nbytes_for(specs_of(POINT), 1) == memory.nbytes
    walk(memory, [1, 2, 3], goal=99)
    assert numbers(sampled(memory, [0, 1], [True, True])["observation"]["desired_goal"]) == [3, 3]
    walk(memory, [3, 4], goal=99)
    assert numbers(sampled(memory, [0, 1], [True, True])["observation"]["desired_goal"]) == [4, 4]
    walk(memory, [50, 51], goal=99)  # what came before was cut
    assert numbers(sampled(memory, [2, 3], [True, True])["observation"]["desired_goal"]) == [4, 51]


def test_without_compute_terminated_ends_stay() -> None:
    memory = memory_of(2, strategy="episode")
    walk(memory, [1, 2, 3, 4], goal=4, terminated=True)
    batch = sampled(memory, [0, 2], [True, True], [0.1, 0.1])
    assert numbers(batch["reward"]) == [0, -1]
    assert numbers(batch["terminated"]) == [0, 1]


def test_n_step_returns_with_new_goals() -> None:
    memory = memory_of(3, n_step=3, strategy="episode", compute_terminated=reached)
    walk(memory, [1, 2, 3, 4], goal=4, terminated=True)
    walk(memory, [10, 11, 12, 13, 14], goal=99, truncated=True)
    # The goals 3, 11 and 14, the first and the second of which are reached on the way.
    batch = sampled(memory, [0, 3, 4], [True] * 3, [0.5, 0.1, 0.9])
    assert numbers(batch["observation"]["desired_goal"]) == [3, 11, 14]
    assert numbers(batch["reward"]) == [-1 + 0, 0, -1 - 0.5 + 0]
    assert numbers(batch["next_observation"]["achieved_goal"]) == [3, 11, 14]
    assert numbers(batch["next_observation"]["observation"]) == [3, 11, 14]
    assert numbers(batch["next_observation"]["desired_goal"]) == [3, 11, 14]
    assert numbers(batch["terminated"]) == [1, 1, 1]
    assert numbers(batch["truncated"]) == [0, 0, 1]
    assert numbers(batch["discount"]) == [0, 0, 0]
    # The goal 2 of an episode that terminated at 4: it ended there, for a reason that is gone.
    batch = sampled(memory, [1, 3, 4], [True, False, False], [0.1, 0, 0])
    assert numbers(batch["reward"]) == [-1.5, -1.75, -1.75]
    assert numbers(batch["truncated"]) == [1, 0, 1]
    assert numbers(batch["discount"]) == [0.25, 0.125, 0.125]
    stored = memory.gather(np.arange(7))  # as it was
    assert numbers(stored["reward"]) == [-1, -1, 0, -1, -1, -1, -1]
    assert numbers(stored["observation"]["desired_goal"]) == [4, 4, 4, 99, 99, 99, 99]


def test_bounds_of_random_episodes() -> None:
    """Against a search through the flags, over the end of the ring, of lanes in and out of step."""
    rng = np.random.default_rng(0)
    memory = built(HindsightMemory(24, 1, compute_reward=reward), num_envs=3)
    ring = memory._ring
    for t in range(200):
        mask = None if t < 60 else rng.random(3) < 0.7
        place = np.full(3, float(t))
        # Where the next one has another observation, the ring cuts the episode when it comes.
        now, following = (observed(at, place * 0) for at in (place, place + (rng.random(3) < 0.8)))
        ends = {end: rng.random(3) < 0.15 for end in ("terminated", "truncated")}
        memory.extend(mask, **timesteps(now, following, lanes=3, **ends))
        if rng.random() < 0.6 and len(memory):
            index = rng.integers(len(memory), size=8)
            places = ring.places(index)
            fresh = Bounds(ring).around(places)
            assert np.array_equal(memory._bounds.around(places), fresh)
            flags = np.asarray(ring.columns["terminated"]) + np.asarray(ring.columns["truncated"])
            for number, first, last, lane in zip(*fresh, places % 3, strict=True):
                begin, end = (ring.begin + np.zeros(3, int))[lane], (ring.end + np.zeros(3, int))[lane]
                ended = [bool(flags[n % 8 * 3 + lane]) for n in range(begin, end)]
                starts = [n for n in range(begin, number + 1) if n == begin or ended[n - 1 - begin]]
                stops = [n for n in range(number, end) if n == end - 1 or ended[n - begin]]
                assert (first, last) == (starts[-1], stops[0])


def test_the_share_of_new_goals() -> None:
    memory = built(HindsightMemory(1000, 900, k=3, compute_reward=reward))
    walk(memory, list(range(1000)), goal=-7)
    goals = np.concatenate([numbers(memory.sample()["observation"]["desired_goal"]) for _ in range(20)])
    # 18,000 draws of probability 3/4: five standard deviations are 0.0161.
    assert abs((goals != -7).mean() - 0.75) < 0.0161
    memory = built(HindsightMemory(20, 10, k=0, compute_reward=reward))
    walk(memory, list(range(20)), goal=-7)
    assert {*numbers(memory.sample()["observation"]["desired_goal"])} == {-7}


def test_a_function_of_a_single_pair_is_called_for_each() -> None:
    def single(achieved: Any, desired: Any, info: Any) -> float:
        assert achieved.shape == desired.shape == (1,)
        return 0.0 if abs(achieved[0] - desired[0]) < 0.5 else -1.0

    def always_false(achieved: Any, desired: Any, info: Any) -> bool:
        return False

    memory = memory_of(2, strategy="final", compute_reward=single, compute_terminated=always_false)
    walk(memory, [1, 2, 3], goal=3, terminated=True)
    walk(memory, [4, 5, 6], goal=99, truncated=True)
    batch = sampled(memory, [2, 3], [True, True])
    assert numbers(batch["reward"]) == [-1, 0]
    assert numbers(batch["terminated"]) == [0, 0]


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda achieved, desired, info: np.zeros(len(achieved)), ArgumentError, "gives 0 where step gave -1"),
        (lambda achieved, desired, info: np.full(len(achieved), np.nan), NonFiniteError, "compute_reward"),
        (lambda achieved, desired, info: "good", ArgumentError, "compute_reward must return a number for each of"),
    ],
)
def test_a_function_that_gives_other_rewards_is_refused(function: Any, error: Any, message: str) -> None:
    memory = memory_of(2, strategy="final", compute_reward=function)
    walk(memory, [1, 2, 3], goal=99)
    raised(error, sampled, memory, [0, 1], [True, True], match=message)


def test_what_is_refused_before_it_is_built() -> None:
    for arguments, argument in (
        ({"strategy": "past"}, "strategy"),
        ({"k": -1}, "k"),
        ({"compute_reward": "mine"}, "compute_reward"),
        ({"compute_terminated": reached}, "compute_terminated"),
    ):
        with refused(argument):
            HindsightMemory(10, 2, **arguments)
    other: SpecTree = {**POINT, "desired_goal": ArraySpec((2,), np.float32)}
    for observation, told in ((ArraySpec((4,), np.float32), "float32[4]"), (other, "desired_goal float32[2]")):
        with refused("observation_space", told):
            HindsightMemory(10, 2).build(specs_of(observation), 1, np.random.default_rng(0))
    with refused("compute_reward", "none was given", str(CARTPOLE)):
        HindsightMemory(10, 2).use_environment(EnvironmentView(CARTPOLE, Discrete(2)))


def test_a_memory_that_nobody_told_of_rewards() -> None:
    memory = built(HindsightMemory(10, 2, strategy="final"))
    walk(memory, [1, 2, 3], goal=99)
    raised(RuntimeError, sampled, memory, [0, 1], [True, True], match="compute_reward")


def test_copies_share_the_functions_of_an_environment() -> None:
    class Environment:
        def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
            return reward(achieved, desired, info)

        def __deepcopy__(self, memo: Any) -> Any:
            raise AssertionError("it may be large")

    memory = HindsightMemory(10, 2)
    environment = Environment()
    memory.use_environment(EnvironmentView(CARTPOLE, Discrete(2), environment))
    copy.deepcopy(memory)
    copy.deepcopy(HindsightMemory(10, 2, compute_reward=environment.compute_reward))
