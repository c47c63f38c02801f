"""The memory of Tensorforce's interface: sums of rewards, what follows them, and which rows there are, by hand."""

from typing import Any

import numpy as np

from axonrl.compat.tensorforce.agents.trajectories import ABORTED, CUT, TERMINATED, Trajectories
from axonrl.core.protocols import ArraySpec

from .agents import refused

FLOAT = ArraySpec((), np.float32)


def memory(capacity: int = 100, state: bool = False, **given: Any) -> Trajectories:
    specs = {"observation": {"state": FLOAT}, "action": {"action": FLOAT}, "state": {"h": FLOAT} if state else {}}
    settings: dict[str, Any] = dict(episodes=False, size=3, recent=True, longest=4, bootstraps=True, window=1)
    made = Trajectories(capacity, specs, np.random.default_rng(0), **{**settings, **given})
    made.discount = 0.5
    return made


def fill(made: Trajectories, first: int, length: int, code: int | None, rewards: float = 1.0) -> None:
    """An episode whose observations are first, first + 1, ...; its internals are 100 more."""
    for t in range(first, first + length):
        state = {"h": np.array(100.0 + t, np.float32)} if made._columns.get("state") else {}
        made.append({"state": np.array(t, np.float32)}, {"action": np.array(-t, np.float32)}, state, rewards)
    if code is not None:
        follows, internals = (np.array(number + first + length, np.float32) for number in (0, 100))
        made.end(code, {"state": follows}, {"h": internals} if made._columns["state"] else {})


def test_sums_of_rewards_and_what_follows_them() -> None:
    made = memory(size=9)
    made.horizon = 1
    fill(made, 0, 3, TERMINATED)
    fill(made, 10, 3, ABORTED)
    fill(made, 20, 3, CUT)
    batch = made.sample()
    # of the episode that was cut, the value of the last observation stands for the last reward
    assert batch["observation"]["state"].tolist() == [0, 1, 2, 10, 11, 12, 20, 21, 22]
    assert batch["reward"].tolist() == [1.5, 1.5, 1.0, 1.5, 1.5, 1.0, 1.5, 1.0, 0.0]
    assert batch["discount"].tolist() == [0.25, 0.0, 0.0, 0.25, 0.25, 0.5, 0.25, 0.5, 1.0]
    follows = batch["next_observation"]["state"]
    assert follows[batch["discount"] > 0].tolist() == [2, 12, 13, 13, 22, 22, 22]


def test_a_running_episode_waits_for_what_follows() -> None:
    made = memory(size=3)
    made.horizon = 1
    fill(made, 0, 4, None)
    assert made.available() == 2
    refused(made.sample)
    fill(made, 4, 1, None)
    assert made.sample()["observation"]["state"].tolist() == [0, 1, 2]
    without = memory(size=3, bootstraps=False)
    without.horizon = 1
    fill(without, 0, 4, None)
    assert without.sample()["reward"].tolist() == [1.5, 1.5, 1.5]


def test_random_rows_are_those_that_can_be_used() -> None:
    made = memory(capacity=6, size=200, recent=False)
    fill(made, 0, 5, TERMINATED)
    fill(made, 10, 4, CUT)
    fill(made, 20, 1, None)
    made.batch_size = made.rows = 3  # the ring has forgotten 0 to 3, and 20 waits
    seen = {float(x) for _ in range(50) for x in made.sample()["observation"]["state"]}
    assert seen == {4.0, 10.0, 11.0, 12.0, 13.0}


def test_whole_episodes_are_followed_by_padding() -> None:
    made = memory(episodes=True, size=2)
    made.horizon = 3
    fill(made, 0, 2, TERMINATED, 8.0)
    fill(made, 10, 3, CUT, 8.0)
    fill(made, 20, 4, TERMINATED, 8.0)
    batch = made.sample()
    assert batch["valid"].tolist() == [1, 1, 1, 1, 1, 1, 1, 0]
    assert batch["reward"].tolist() == [12, 8, 0, 15, 14, 12, 8, 0]
    assert batch["observation"]["state"].tolist() == [10, 11, 12, 20, 21, 22, 23, 10]
    made.rows = made.draw()
    assert made.sample()["valid"].tolist() == [1] * 7


def test_windows_begin_with_their_first_internal_state() -> None:
    made = memory(state=True, size=4, window=3)
    fill(made, 0, 2, TERMINATED)
    fill(made, 10, 2, ABORTED)
    batch = made.sample()
    assert batch["window_valid"].tolist() == [[False, False, True], [False, True, True]] * 2
    assert batch["observation"]["state"].tolist() == [[0, 0, 0], [0, 0, 1], [10, 10, 10], [10, 10, 11]]
    assert batch["state"]["h"].tolist() == [100, 100, 110, 110]
    assert batch["next_observation"]["state"][2:].tolist() == [[10, 10, 11], [10, 11, 12]]
    assert batch["next_window_valid"][2:].tolist() == [[False, True, True], [True, True, True]]
    assert batch["next_state"]["h"][2:].tolist() == [110, 110]


def test_an_episode_whose_beginning_is_overwritten_is_none() -> None:
    made = memory(capacity=5, episodes=True, size=1)
    fill(made, 0, 4, TERMINATED)
    fill(made, 10, 3, TERMINATED)
    other = memory(capacity=5, episodes=True, size=1)
    other.load_state_dict(made.state_dict())
    assert (len(other), other.available(), made.available()) == (5, 1, 1)
    assert other.sample()["observation"]["state"][:3].tolist() == [10, 11, 12]
