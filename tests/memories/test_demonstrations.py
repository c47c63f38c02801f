"""DemonstrationMemory: what it mixes, and what a batch has beside ReplayMemory's, worked out by hand."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from axonrl import memories
from axonrl.core.protocols import ArraySpec
from axonrl.environments import read_episodes, write_episodes
from axonrl.environments.memory_view import EnvironmentView
from axonrl.errors import ArgumentError, NonFiniteError
from axonrl.memories import DemonstrationMemory, Prioritized, ReplayMemory
from axonrl.tests.memories.transitions import numbers, refused, specs_of
from axonrl.tests.raising import raised

SPACES: Any = (Box(-1000, 1000, (1,), np.float32), Discrete(1000))
SPECS = specs_of(ArraySpec((1,), np.float32))


def episode(first: int, rewards: list[float], *, truncated: bool = False) -> dict[str, Any]:
    """From observation ``first`` on, each one higher than the one before; the action is the observation."""
    count = len(rewards)
    ends = np.arange(count) == count - 1
    observations = np.arange(first, first + count + 1, dtype=np.float32)[:, None]
    return {
        "observation": observations[:-1],
        "action": np.arange(first, first + count, dtype=np.int32),
        "reward": np.array(rewards, np.float32),
        "terminated": ends & (not truncated),
        "truncated": ends & truncated,
        "next_observation": observations[1:],
    }


PAIR = ("reward", "n_step_reward")
EXPERT = [episode(100, [1, 2, 4]), episode(200, [8, 16], truncated=True)]


def built(memory: Any, num_envs: int = 1, seed: int = 0) -> Any:
    memory.build(SPECS, num_envs, np.random.default_rng(seed))
    return memory


def act(memory: Any, timesteps: int, first: int = 0) -> None:
    """The agent's own timesteps, of one episode that goes on."""
    memories.fill(memory, [{**episode(first, [0.0] * timesteps), "terminated": np.zeros(timesteps, np.bool_)}])


@pytest.mark.parametrize(("ratio", "batch_size", "expected"), [(0.5, 5, 2), (0.01, 8, 1), (0.99, 8, 7)])
def test_the_ratio(ratio: float, batch_size: int, expected: int) -> None:
    expert = [episode(100, [0.0] * 20)]
    memory = built(DemonstrationMemory(20, batch_size, demonstrations=expert, ratio=ratio))
    own = batch_size - expected
    assert not memory.can_sample(own - 1)
    act(memory, own)
    assert memory.can_sample()
    batch = memory.sample()
    assert numbers(batch["demonstration"]) == [0.0] * own + [1.0] * expected
    assert batch["demonstration"].dtype == np.float32
    assert (np.array(numbers(batch["observation"])) >= 100).tolist() == [False] * own + [True] * expected
    assert len(memory) == own


def test_demonstrations_are_never_forgotten() -> None:
    memory = built(DemonstrationMemory(4, 4, demonstrations=EXPERT, ratio=0.5))
    act(memory, 50)
    memory.clear()
    act(memory, 4)
    drawn = {one for _ in range(60) for one in numbers(memory.sample()["observation"][2:])}
    assert drawn == {100, 101, 102, 200, 201}
    assert memory.nbytes > built(ReplayMemory(4, 4)).nbytes
    unbuilt = DemonstrationMemory(4, 4, demonstrations=EXPERT, ratio=0.5)
    assert unbuilt.nbytes_for(SPECS, 1) == memory.nbytes_for(SPECS, 1) == memory.nbytes


def test_one_step_and_n_steps_in_one_batch() -> None:
    """Every demonstration is drawn, also those at the end of what there is; across both kinds of end."""
    memory = built(DemonstrationMemory(60, 40, demonstrations=EXPERT * 4, ratio=0.5, n_step=2, discount=0.5))
    act(memory, 21)
    found: dict[float, tuple[Any, ...]] = {}
    keys = ("reward", "discount", "next_observation", "n_step_reward", "n_step_discount", "n_step_next_observation")
    for _ in range(20):
        batch = memory.sample()
        columns = zip(numbers(batch["observation"]), *(numbers(batch[key]) for key in keys), strict=True)
        found.update({first: tuple(rest) for first, *rest in columns})
    assert {start: found[start] for start in (100, 101, 102, 200, 201)} == {
        100: (1, 0.5, 101, 2, 0.25, 102),
        101: (2, 0.5, 102, 4, 0, 103),
        102: (4, 0, 103, 4, 0, 103),
        200: (8, 0.5, 201, 16, 0.25, 202),
        201: (16, 0.5, 202, 16, 0.5, 202),
    }
    assert found[3] == (0, 0.5, 4, 0, 0.25, 5)
    plain = built(DemonstrationMemory(4, 2, demonstrations=EXPERT))
    act(plain, 4)
    assert "n_step_reward" not in plain.sample()


def test_priorities_go_to_their_parts() -> None:
    memory = built(
        DemonstrationMemory(4, 4, demonstrations=EXPERT, ratio=0.5, sampler=Prioritized(alpha=1.0, beta=1.0))
    )
    assert memory.needs_td_error
    act(memory, 4)
    batch = memory.sample()
    own, expert = numbers(batch["observation"])[:2], numbers(batch["observation"])[2:]
    assert batch["weight"].tolist() == [1.0] * 4
    memory.update_priorities(np.array([0.0, 1000.0, 0.0, 1000.0]))
    again = [numbers(memory.sample()["observation"]) for _ in range(10)]
    # Each part has one transition of about the whole priority, unless it was drawn twice at once.
    assert np.mean([one[:2] == [own[1]] * 2 for one in again]) > 0.8
    assert np.mean([one[2:] == [expert[1]] * 2 for one in again]) > 0.8
    state = memory.state_dict()
    raised(ArgumentError, memory.update_priorities, np.zeros(3), match=r"\(4,\)")
    raised(NonFiniteError, memory.update_priorities, np.array([7.0, 7.0, 7.0, np.nan]), match="nan at index 3")
    np.testing.assert_equal(memory.state_dict(), state)


def test_a_state_holds_no_demonstrations_and_is_of_these_alone() -> None:
    memory = built(DemonstrationMemory(10, 4, demonstrations=EXPERT, ratio=0.5))
    act(memory, 7)
    state = memory.state_dict()
    assert not any(key in str(state.keys()) for key in ("observation", "demonstrations_rows"))
    others = [episode(100, [1, 2, 4]), episode(200, [8, 17], truncated=True)]
    with pytest.raises(ValueError, match="demonstrations_digest"):
        built(DemonstrationMemory(10, 4, demonstrations=others, ratio=0.5)).load_state_dict(state)


def test_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "expert.npz"
    write_episodes(path, EXPERT)
    memory = DemonstrationMemory(10, 4, demonstrations=path, ratio=0.5)
    assert memory.demonstrations == str(path)
    raised(RuntimeError, memory.build, SPECS, 1, np.random.default_rng(0), match=r"expert\.npz")
    trial = memory.trial_copy()  # as an Agent makes one to look at a batch
    trial.build(SPECS, 1, np.random.default_rng(0))
    act(trial, 4)
    memory.use_environment(EnvironmentView(*SPACES))
    shared: Any = copy.deepcopy(memory)
    for one in (memory, shared):
        built(one)
        act(one, 2)
    given = built(DemonstrationMemory(10, 4, demonstrations=read_episodes(path, *SPACES), ratio=0.5))
    assert memory.demonstrations_digest == given.demonstrations_digest == shared.demonstrations_digest != ""
    looked: Any = trial.sample()
    batch: Any = memory.sample()
    assert {key: value.dtype for key, value in looked.items()} == {key: value.dtype for key, value in batch.items()}


def test_without_demonstrations_all_transitions_are_own() -> None:
    memory = built(DemonstrationMemory(10, 4))
    act(memory, 4)
    assert numbers(memory.sample()["demonstration"]) == [0, 0, 0, 0]


def test_lanes() -> None:
    memory = built(DemonstrationMemory(12, 4, demonstrations=EXPERT, ratio=0.5), num_envs=3)
    memories.fill(memory, [episode(0, [0.0, 0.0]), episode(10, [0.0]), episode(20, [0.0]), episode(30, [0.0])], lanes=3)
    assert len(memory) == 5
    assert memory._ring.counts.tolist() == [3, 1, 1]  # whole episodes, in turn
    assert sorted(numbers(memory.gather(np.arange(5))["observation"])) == [0, 1, 10, 20, 30]
    assert {*numbers(memory.sample()["observation"][2:])} <= {100, 101, 102, 200, 201}


def test_an_episode_ends_with_its_last_timestep() -> None:
    """Also one whose observation never changes, which the next episode would seem to continue."""
    still = {**episode(0, [1, 2, 4]), "terminated": np.zeros(3, np.bool_)}
    still["observation"] = still["next_observation"] = np.zeros((3, 1), np.float32)
    expert = [still, {**still, "reward": np.array([8, 16, 32], np.float32)}]
    memory = built(DemonstrationMemory(40, 40, demonstrations=expert * 6, ratio=0.9, n_step=3, discount=0.5))
    act(memory, 10)
    batches = [memory.sample() for _ in range(10)]
    found = {pair for one in batches for pair in zip(*(numbers(one[key][4:]) for key in PAIR), strict=True)}
    assert found == {(1, 3), (2, 4), (4, 4), (8, 24), (16, 32), (32, 32)}
    assert not still["truncated"].any()


@pytest.mark.parametrize(
    ("expert", "argument", "told"),
    [
        (EXPERT[0], "demonstrations", "list of episodes"),
        ([EXPERT[0], {}], "demonstrations[1]", "none"),
        ([{**EXPERT[0], "action": np.zeros(2)}], "demonstrations[0]", "action 2, reward 3"),
        ([{key: value[:0] for key, value in EXPERT[0].items()}], "demonstrations[0]", "reward 0"),
        ([{**EXPERT[0], "reward": np.array([0, np.nan, 0])}], "demonstrations[0]", "reward of demonstrations[0]"),
    ],
)
def test_episodes_that_are_none(expert: Any, argument: str, told: str) -> None:
    with refused(argument, told):
        DemonstrationMemory(10, 4, demonstrations=expert)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"action": np.array([0, 1, 1000])}, "action is outside of Discrete(1000) at timestep 2:"),
        ({"action": np.array([0, 1, 1.5])}, "action must be int32"),
        ({"observation": np.zeros((3, 1))}, "next_observation of timestep 0 is not the observation of the next one"),
        ({"truncated": [False, True, True]}, "terminated or truncated at timestep 1 already"),
        ({"truncated": None}, "truncated missing"),
    ],
)
def test_episodes_from_python_are_checked_as_those_of_a_file_are(changes: dict[str, Any], told: str) -> None:
    given = {key: value for key, value in {**EXPERT[0], **changes}.items() if value is not None}
    memory = DemonstrationMemory(10, 4, demonstrations=[EXPERT[1], given])
    with refused("demonstrations", told):
        memory.use_environment(EnvironmentView(*SPACES))


def test_an_episode_that_is_filled_in_continues_no_other() -> None:
    """Of two timesteps each, of the same observation, and without flags; the last one goes on."""
    memory = built(ReplayMemory(8, 4, n_step=3, discount=0.5))
    still = {**episode(0, [1, 2]), "terminated": np.zeros(2, np.bool_)}
    still["observation"] = still["next_observation"] = np.zeros((2, 1), np.float32)
    memories.fill(memory, [still, {**still, "reward": np.array([4, 8], np.float32)}, {**still}])
    batch = memory._batch_of(np.arange(4))
    assert numbers(batch["reward"]) == [1 + 2 / 2, 2, 4 + 8 / 2, 8]
    assert numbers(memory.gather(np.arange(6))["truncated"]) == [0, 1, 0, 1, 0, 0]


def test_only_whole_episodes_are_filled_in() -> None:
    memory = built(ReplayMemory(10, 4))
    with refused("episodes[1]", "reward 1"):
        memories.fill(memory, [EXPERT[0], {**EXPERT[1], "reward": np.zeros(1)}])
    assert len(memory) == 3


def test_what_is_refused() -> None:
    for ratio, batch_size in ((0.0, 4), (1.0, 4), (0.5, 1)):
        with refused("ratio"):
            DemonstrationMemory(10, batch_size, demonstrations=EXPERT, ratio=ratio)
    with refused("demonstrations", "got 1"):
        built(DemonstrationMemory(10, 4, demonstrations=[episode(0, [1.0])], ratio=0.5))
    specs = {**SPECS, "log_prob": ArraySpec((), np.float32)}
    with refused("demonstrations", "log_prob"):
        DemonstrationMemory(10, 4, demonstrations=EXPERT).build(specs, 1, np.random.default_rng(0))
