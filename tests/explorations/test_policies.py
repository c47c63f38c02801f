import re
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from axonrl.core.protocols import NO_LEGAL_ACTION
from axonrl.errors import ArgumentError
from axonrl.explorations import Constant, EpsilonGreedy, GaussianNoise, Greedy, Linear, Noisy, Random
from axonrl.tests.explorations.scripted import Scripted
from axonrl.tests.raising import raised

UNUSED: Any = None


def described(result: Any) -> tuple[Any, str, dict[str, Any]]:
    chosen, extras = result
    return chosen.tolist(), chosen.dtype.name, dict(extras)


def actions(*values: int, dtype: Any = np.int32) -> Any:
    return {"action": np.array(values, dtype)}


def test_greedy_returns_the_models_action() -> None:
    predictions = actions(1, 0)
    chosen, extras = Greedy()(predictions, 5, UNUSED)
    assert chosen is predictions["action"]
    assert dict(extras) == {}
    assert Greedy().level(5) == 0


@pytest.mark.parametrize(
    ("policy", "drawn"),
    [
        (EpsilonGreedy(Linear(1.0, 0.0, 1.0, over="run"), spaces.Discrete(2)), 0.0),
        (GaussianNoise(Linear(1.0, 0.0, 1.0, over="run"), spaces.Box(-1, 1, (1,), np.float32)), 5.0),
    ],
)
def test_a_level_over_the_run_is_that_of_the_progress_told_last(policy: Any, drawn: float) -> None:
    levels = []
    for progress in (0.0, 0.5, 1.0):
        policy.follow(progress)
        levels.append(policy.level(10**6))
    assert levels == [1.0, 0.5, 0.0]
    assert policy(actions(1), 0, Scripted(drawn))[0].tolist() == [1]  # at 1 neither explores any more


def test_a_users_schedule_without_a_number_is_named_with_what_it_returned() -> None:
    def forgetful(t: Any, ops: Any = None) -> Any:
        return None

    for policy, name in (
        (EpsilonGreedy(forgetful, spaces.Discrete(2)), "epsilon"),
        (GaussianNoise(forgetful, spaces.Box(-1, 1, (1,), np.float32)), "sigma"),
    ):
        match = rf"^{name}: the schedule <function .*forgetful.* must return a number, but returned None$"
        assert raised(ArgumentError, policy.level, 0, match=match).argument == name
        raised(ArgumentError, policy, actions(1), 0, np.random.default_rng(0), match=match)


@pytest.mark.parametrize("value", [float("nan"), -0.1, np.float32(1.5), np.array([0.5, np.nan]), np.array([0.5, 0.1])])
def test_a_users_schedule_outside_the_range_is_refused(value: Any) -> None:
    policy = EpsilonGreedy(lambda t, ops=None: value, spaces.Discrete(2))
    match = r"^epsilon: the schedule <function .* must return a finite number in 0 \.\. 1, but returned "
    raised(ArgumentError, policy.level, 0, match=match)
    assert raised(ArgumentError, policy, actions(1), 0, np.random.default_rng(0), match=match).argument == "epsilon"


def test_epsilon_greedy_for_one_environment() -> None:
    policy = EpsilonGreedy(0.25, spaces.Discrete(4, start=10))
    at_epsilon: Any = Scripted(0.25)
    assert described(policy(actions(11), 0, at_epsilon)) == ([11], "int32", {})
    assert at_epsilon.asked == [("random", None)]
    below: Any = Scripted(0.2499, 13)
    assert described(policy(actions(11), 0, below)) == ([13], "int32", {})
    assert below.asked == [("random", None), ("integers", 10, 14, None)]


def test_epsilon_greedy_decides_for_each_environment() -> None:
    policy = EpsilonGreedy(0.5, spaces.Discrete(3, start=-1))
    rng: Any = Scripted([0.1, 0.9, 0.5], [-1, -1, -1])
    assert described(policy(actions(0, 1, 1, dtype=np.int64), 0, rng)) == ([-1, 1, 1], "int32", {})
    assert rng.asked == [("random", (3,)), ("integers", -1, 2, (3,))]


def test_all_choices_of_a_multi_discrete_action_are_random_or_none() -> None:
    policy = EpsilonGreedy(0.5, spaces.MultiDiscrete([2, 3], start=[0, 10]))
    rng: Any = Scripted([0.4, 0.5, 0.1], [[1, 12], [0, 11], [1, 10]])
    greedy = {"action": np.array([[0, 10], [0, 10], [0, 10]], np.int32)}
    assert described(policy(greedy, 0, rng)) == ([[1, 12], [0, 10], [1, 10]], "int32", {})
    (draws, _), (_, low, high, shape) = rng.asked
    assert (draws, low.tolist(), high.tolist(), shape) == ("random", [0, 10], [2, 13], (3, 2))
    quiet: Any = Scripted([0.9], [[1, 12]])
    one = policy({"action": greedy["action"][:1]}, 0, quiet)
    assert one[0].tolist() == [[0, 10]]


def test_random_choices_of_a_multi_discrete_action_are_legal() -> None:
    policy = EpsilonGreedy(1.0, spaces.MultiDiscrete(np.array([[2, 3]]), start=np.array([[0, 10]])))
    mask = np.array([[0, 1, 1, 0, 1], [1, 1, 0, 0, 0]], bool)
    predictions = {"action": np.zeros((2, 1, 2), np.int32), "action_mask": mask}
    rng = np.random.default_rng(0)
    drawn = np.stack([policy(predictions, 0, rng)[0] for _ in range(600)])  # [600, 2, 1, 2]
    assert drawn.shape == (600, 2, 1, 2)
    assert set(drawn[:, 0, 0, 0].tolist()) == {1}
    values, counts = np.unique(drawn[:, 0, 0, 1], return_counts=True)
    assert values.tolist() == [10, 12]
    assert np.abs(counts - 300).max() < 62  # five standard deviations
    assert set(drawn[:, 1, 0, 1].tolist()) == {NO_LEGAL_ACTION}
    with pytest.raises(ArgumentError, match="bool"):
        policy({**predictions, "action_mask": mask.astype(np.int8)}, 0, rng)


@pytest.mark.parametrize(("dtype", "start", "size"), [(np.int8, 100, 28), (np.uint8, 56, 200)])
def test_choices_reach_the_last_number_of_the_spaces_dtype(dtype: Any, start: int, size: int) -> None:
    policy = EpsilonGreedy(1.0, spaces.MultiDiscrete([size], dtype=dtype, start=[start]))
    drawn, _ = policy({"action": np.full((10_000, 1), start, np.int32)}, 0, np.random.default_rng(0))
    assert np.unique(drawn).tolist() == list(range(start, start + size))


def test_noisy_takes_the_noisy_action() -> None:
    noisy = np.array([2, 0], np.int32)
    assert Noisy()({**actions(1, 1), "noisy_action": noisy}, 0, UNUSED) == (noisy, {})


def test_random_in_a_discrete_space() -> None:
    rng = np.random.default_rng(0)
    policy = Random(spaces.Discrete(2, start=5))
    drawn = [policy(actions(0, 0), t, rng)[0] for t in range(40)]
    assert (drawn[0].shape, drawn[0].dtype) == ((2,), np.int32)
    assert set(np.concatenate(drawn).tolist()) == {5, 6}
    assert policy.level(0) == 1


def test_random_in_a_box_uses_the_bounds_of_each_component() -> None:
    rng = np.random.default_rng(0)
    low, high = np.array([[-1.0], [10.0]], np.float32), np.array([[1.0], [30.0]], np.float32)
    drawn, _ = Random(spaces.Box(low, high))({"action": np.zeros((2000, 2, 1), np.float32)}, 0, rng)
    assert (drawn.shape, drawn.dtype) == ((2000, 2, 1), np.float32)
    np.testing.assert_allclose(drawn.min(0), low, atol=0.1)
    np.testing.assert_allclose(drawn.max(0), high, atol=0.1)
    np.testing.assert_allclose(drawn.mean(0), [[0.0], [20.0]], atol=0.7)


def test_constant_repeats_its_action_for_each_environment() -> None:
    assert described(Constant(3)(actions(0, 0), 0, UNUSED)) == ([3, 3], "int32", {})
    policy = Constant([0.5, -1.0])
    box = {"action": np.zeros((2, 2), np.float32)}
    assert described(policy(box, 0, UNUSED)) == ([[0.5, -1.0], [0.5, -1.0]], "float32", {})
    policy(box, 0, UNUSED)[0][0, 0] = 9  # what it returns belongs to the caller
    assert described(policy(box, 0, UNUSED)) == ([[0.5, -1.0], [0.5, -1.0]], "float32", {})


def test_gaussian_noise_is_scaled_and_not_clipped() -> None:
    policy = GaussianNoise(Linear(2.0, 0.5, 10), spaces.Box(-1, 1, (2,)))
    rng: Any = Scripted([[1.0, -3.0], [0.0, 0.5]])
    greedy = np.array([[0.9, 0.0], [0.25, -1.0]], np.float32)
    chosen, extras = policy({"action": greedy}, 0, rng)
    np.testing.assert_allclose(chosen, [[2.9, -6.0], [0.25, 0.0]], rtol=1e-6)
    assert chosen.dtype == np.float32
    assert dict(extras) == {}
    assert rng.asked == [("standard_normal", (2, 2))]
    assert greedy[0, 0] == np.float32(0.9)  # the predictions are left alone
    assert [policy.level(t) for t in (0, 10)] == [2.0, 0.5]


def test_gaussian_noise_may_be_in_halves_of_the_range() -> None:
    space = spaces.Box(np.array([0, -1], np.float32), np.array([4, 1], np.float32))
    policy = GaussianNoise(0.5, space, relative=True)
    rng: Any = Scripted([[1.0, -2.0]])
    chosen, _ = policy({"action": np.array([[1.0, 0.5]], np.float32)}, 0, rng)
    np.testing.assert_allclose(chosen, [[2.0, -0.5]])
    assert chosen.dtype == np.float32
    assert policy.level(0) == 0.5


BOX, NO_BOUNDS = spaces.Box(-1, 1, (2,)), spaces.Box(-np.inf, 1, (2,))


@pytest.mark.parametrize(
    ("make", "argument", "message"),
    [
        (lambda: EpsilonGreedy(0.1, BOX), "action_space", "EpsilonGreedy needs a Discrete or a MultiDiscrete acti"),
        (lambda: GaussianNoise(-1, BOX), "sigma", "sigma must stay in 0 .. inf, got -1"),
        (lambda: GaussianNoise(0.1, spaces.Box(0, 9, (2,), np.uint8)), "action_space", "got Box(0, 9"),
        (lambda: Random(spaces.Text(2)), "action_space", "Random needs a Discrete, MultiDiscrete or MultiBinary space"),
        (lambda: Random(NO_BOUNDS), "action_space", "Random needs a Box with finite bounds, got Box(-inf"),
        (lambda: Random(spaces.Box(-1e308, 1e308, (2,), np.float64)), "action_space", "a Box with finite bounds"),
        (lambda: Constant("left"), "action", "Constant needs a numeric action, got 'left'"),
        (lambda: Constant([1, 2**40]), "action", "Constant needs an action that int32 holds, got [1, 1099511627776]"),
        (lambda: Constant(-1e39), "action", "Constant needs an action that float32 holds, got -1e+39"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, argument: str, message: str) -> None:
    assert raised(ArgumentError, make, match=re.escape(message)).argument == argument


def test_random_actions_of_each_part_of_a_composite_space() -> None:
    inside = spaces.Dict({"bits": spaces.MultiBinary(3), "far": spaces.Box(-2, 2, (1,), np.float32)})
    policy = Random(spaces.Dict({"both": inside, "wheels": spaces.MultiDiscrete([2, 3], start=[5, 0])}))
    greedy = {"both/bits": np.zeros((200, 3), np.int8), "both/far": np.zeros((200, 1), np.float32)}
    legal = np.tile([True, False, False, True, True], (200, 1))
    predictions = {"action": {**greedy, "wheels": np.zeros((200, 2), np.int32)}, "action_mask/wheels": legal}
    drawn, extras = policy(predictions, 0, np.random.default_rng(0))
    assert {tuple(row) for row in drawn["wheels"].tolist()} == {(5, 1), (5, 2)}
    assert (drawn["both/bits"].dtype, drawn["both/bits"].shape) == (np.int8, (200, 3))
    assert 250 < drawn["both/bits"].sum() < 350
    assert -2 <= drawn["both/far"].min() < -1.5 < 1.5 < drawn["both/far"].max() <= 2
    assert extras == {}
