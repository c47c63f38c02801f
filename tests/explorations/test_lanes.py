"""Policies with a state for each environment: numbers by hand, and what becomes of the state."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from axonrl.errors import ArgumentError
from axonrl.explorations import Linear, OrnsteinUhlenbeck, RandomDecay, StateDependent
from axonrl.tests.explorations.scripted import Scripted
from axonrl.tests.raising import raised

BOX = spaces.Box(-1, 1, (2,))
CHOICES = spaces.Discrete(3, start=5)


def acted(policy: Any, greedy: Any, *drawn: Any, timestep: int = 0) -> Any:
    return policy({"action": np.array(greedy)}, timestep, Scripted(*drawn))[0].tolist()


def test_noise_by_hand() -> None:
    policy = OrnsteinUhlenbeck(0.5, BOX, theta=0.25, mu=1.0)
    greedy = np.array([[10.0, 20.0], [30.0, 40.0]], np.float32)
    # x = 1; then 1 + 0.5 n; then x + 0.25 (1 - x) + 0.5 n
    assert acted(policy, greedy, [[1, -1], [0, 2]]) == [[11.5, 20.5], [31.0, 42.0]]
    assert acted(policy, greedy, [[1, 0], [-2, 0]]) == [[11.875, 20.625], [30.0, 41.75]]
    chosen, extras = policy({"action": greedy}, 0, np.random.default_rng(0))
    assert (chosen.dtype.name, dict(extras)) == ("float32", {})
    assert greedy[0, 0] == 10  # the predictions are left alone
    space = spaces.Box(np.array([0, -1], np.float32), np.array([4, 1], np.float32))
    halves: Any = OrnsteinUhlenbeck(0.5, space, theta=0.25, mu=1.0, relative=True)
    assert acted(halves, np.array([[10.0, 20.0]], np.float32), [[1, -1]]) == [[13.0, 20.5]]  # 2 * 1.5 and 1 * 0.5
    some = halves.act_for({"action": np.zeros((1, 2), np.float32)}, 0, Scripted([[0, 0]]), np.array([0]))[0]
    assert some.tolist() == [[2.75, 0.625]]  # 2 * 1.375 and 0.625


def test_noise_begins_every_episode_at_mu_in_its_environment_only() -> None:
    policy = OrnsteinUhlenbeck(1.0, BOX, theta=0.5, mu=2.0)
    zeros = np.zeros((2, 2), np.float32)
    assert acted(policy, zeros, 4.0) == [[6.0, 6.0], [6.0, 6.0]]
    policy.reset(np.array([False, True]))
    assert acted(policy, zeros, 0.0) == [[4.0, 4.0], [2.0, 2.0]]


# Of three environments: two draw 0.5, one 0.01.
ENDS = {"ends": (0.01, 0.5)}
DRAWN = [1, 0, 1]


def test_each_environment_decays_to_its_own_end() -> None:
    policy = RandomDecay(Linear(1.0, 0.0, 10), CHOICES, **ENDS)
    assert policy.level(5) == 0.5
    greedy = [5, 5, 5]
    # At 5 epsilon is 0.5 in the schedule, so 0.75, 0.505 and 0.75.
    assert acted(policy, greedy, DRAWN, [0.7, 0.51, 0.76], [7, 7, 7], timestep=5) == [7, 5, 5]
    assert policy.level(5) == pytest.approx((0.75 + 0.505 + 0.75) / 3)
    # At the end 0.5, 0.01 and 0.5; nothing is drawn again.
    assert acted(policy, greedy, [0.49, 0.02, 0.51], [7, 7, 7], timestep=99) == [7, 5, 5]
    policy.reset(np.array([True, True, True]))  # an episode begins
    assert acted(policy, greedy, [0.51, 0.009, 0.49], [7, 7, 7], timestep=99) == [5, 7, 7]


def test_the_ends_are_those_of_asynchronous_q_learning() -> None:
    policy = RandomDecay(0.0, CHOICES)
    policy({"action": np.full(10_000, 5, np.int32)}, 0, np.random.default_rng(0))
    values, counts = np.unique(policy.state_dict()["ends"], return_counts=True)
    assert values.tolist() == [0.01, 0.1, 0.5]
    assert np.abs(counts - [3000, 4000, 3000]).max() < 250  # five standard deviations


def test_random_decay_draws_legal_actions() -> None:
    policy = RandomDecay(1.0, CHOICES)
    mask = np.array([[False, True, False], [True, False, False]])
    predictions = {"action": np.array([6, 5], np.int32), "action_mask": mask}
    rng = np.random.default_rng(0)
    assert {tuple(policy(predictions, 0, rng)[0].tolist()) for _ in range(50)} == {(6, 5)}


FLOATS = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.mark.parametrize(
    ("made", "predictions"),
    [
        (lambda: OrnsteinUhlenbeck(0.5, BOX), {"action": FLOATS}),
        (lambda: RandomDecay(0.3, CHOICES), {"action": np.array([5, 6, 7], np.int32)}),
        (lambda: StateDependent(BOX, resample_every=3), {"mean": FLOATS, "scaled_features": FLOATS[:, None]}),
    ],
)
def test_the_future_follows_from_the_saved_state(made: Any, predictions: Any) -> None:
    def steps(one: Any, rng: Any) -> Any:
        found = []
        for t in range(30):
            one.reset(np.array([t % 4 == 3, t % 5 == 3, False]))
            found.append(one(predictions, t, rng)[0].tolist())
        return found

    rng, policy, again = np.random.default_rng(0), made(), made()
    steps(policy, rng)
    saved, where = policy.state_dict(), rng.bit_generator.state
    expected = steps(policy, rng)
    again.load_state_dict(saved)
    rng.bit_generator.state = where
    assert steps(again, rng) == expected


def test_noise_of_some_environments_moves_alone() -> None:
    policy = OrnsteinUhlenbeck(1.0, BOX, theta=0.5)
    policy.reset(np.ones(3, np.bool_))
    some = {"action": np.zeros((2, 2), np.float32)}
    rng: Any = Scripted(np.array([[1.0], [2.0]]))
    assert policy.act_for(some, 0, rng, np.array([2, 0]))[0].tolist() == [[1.0, 1.0], [2.0, 2.0]]
    assert acted(policy, np.zeros((3, 2), np.float32), 0.0) == [[1.0, 1.0], [0.0, 0.0], [0.5, 0.5]]


def test_some_environments_draw_their_ends_when_they_first_act() -> None:
    policy = RandomDecay(0.0, CHOICES, **ENDS)
    policy.reset(np.ones(3, np.bool_))
    one = {"action": np.array([5])}
    first: Any = Scripted([1], 0.49, 7)
    assert policy.act_for(one, 0, first, np.array([1]))[0].tolist() == [7]
    # The others draw 0.01 now; that one keeps its 0.5.
    assert acted(policy, [5, 5, 5], [0, 0, 0], [0.49] * 3, [7] * 3) == [5, 7, 5]


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: OrnsteinUhlenbeck(0.1, BOX, theta=1.5), "theta"),
        (lambda: OrnsteinUhlenbeck(0.1, BOX, mu=float("nan")), "mu"),
        (lambda: OrnsteinUhlenbeck(0.1, spaces.Box(-np.inf, 1, (2,)), relative=True), "action_space"),
        (lambda: RandomDecay(1.5, CHOICES), "epsilon"),
        (lambda: RandomDecay(0.1, CHOICES, ends=(0.1, 1.1)), "ends"),
        (lambda: RandomDecay(0.1, CHOICES, ends="0.1"), "ends"),  # type: ignore[arg-type]
    ],
)
def test_what_does_not_fit_is_refused(make: Any, argument: str) -> None:
    assert raised(ArgumentError, make).argument == argument
