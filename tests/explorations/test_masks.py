"""Behaviour policies under a mask: legal actions only, drawn as the numbers of the generator say."""

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Discrete, MultiDiscrete

from axonrl.core.protocols import NO_LEGAL_ACTION
from axonrl.errors import ArgumentError
from axonrl.explorations import Boltzmann, Categorical, EpsilonGreedy, Linear, MultiCategorical, Random
from axonrl.tests.explorations.scripted import Scripted

SPACE = Discrete(4, start=10)
MASK = np.array([[True, False, True, False], [False, False, False, True], [False] * 4, [True] * 4])
ROW: Any = {"action": np.array([11], np.int32)}


def chosen(policy: Any, predictions: Any, *numbers: Any) -> list[Any]:
    rng: Any = Scripted(*numbers)
    actions, _ = policy(predictions, 0, rng)
    assert (actions.dtype, actions.shape[0]) == (np.int32, len(predictions["action"]))
    drawn: list[Any] = actions.tolist()
    return drawn


def test_random_actions_are_drawn_among_the_legal_ones() -> None:
    predictions = {"action": np.zeros(4, np.int32), "action_mask": MASK}
    for numbers, first, last in (([0.0] * 4, 10, 10), ([0.49] * 4, 10, 11), ([1 - 2**-53] * 4, 12, 13)):
        expected = [first, 13, NO_LEGAL_ACTION, last]
        assert chosen(Random(SPACE), predictions, numbers) == expected
        assert chosen(EpsilonGreedy(1.0, SPACE), predictions, [0.0] * 4, numbers) == expected
    for mask, place, one in ((MASK[:1], 1, 12), (MASK[1:2], 0, 13), (MASK[2:3], None, NO_LEGAL_ACTION)):
        predictions = {**ROW, "action_mask": mask}
        assert chosen(Random(SPACE), predictions, place) == [one]
        assert chosen(EpsilonGreedy(0.5, SPACE), predictions, 0.4, place) == [one]
        assert chosen(EpsilonGreedy(0.5, SPACE), predictions, 0.5) == [11]


def test_rows_explore_independently() -> None:
    predictions = {"action": np.array([12, 13, NO_LEGAL_ACTION, 11], np.int32), "action_mask": MASK}
    policy = EpsilonGreedy(0.5, SPACE)
    assert chosen(policy, predictions, [0.4, 0.6, 0.6, 0.4], [0.0] * 4) == [10, 13, NO_LEGAL_ACTION, 10]


def test_a_categorical_gives_illegal_actions_no_probability() -> None:
    logits = np.log(np.array([[1, 96, 3, 0.1], [50, 1, 1, 2], [1, 1, 1, 1], [1, 1, 1, 1]], np.float32))
    predictions = {"action": np.zeros(4), "logits": logits, "action_mask": MASK}
    policy = Categorical(SPACE)
    assert chosen(policy, predictions, [0.24, 0.0, 0.5, 0.99]) == [10, 13, NO_LEGAL_ACTION, 13]  # P 1/4 and 3/4
    rng: Any = Scripted([0.26] * 4)
    actions, extras = policy(predictions, 0, rng)
    assert actions.tolist() == [12, 13, NO_LEGAL_ACTION, 11]
    np.testing.assert_allclose(extras["log_prob"][[0, 1, 3]], np.log([0.75, 1, 0.25]), rtol=1e-6)
    others = policy.log_prob_of(predictions, np.array([11, 13, 10, 13], np.int32))  # the first one is illegal
    np.testing.assert_allclose(others[[0, 1, 3]], [-np.inf, 0, np.log(0.25)], rtol=1e-6)
    assert logits[0, 1] == np.float32(np.log(96))  # the caller's stay as they were


def test_several_choices_are_masked_each_for_itself() -> None:
    policy = MultiCategorical(MultiDiscrete([2, 3], start=[5, -1]))
    mask = np.array([[True, False, False, True, True], [False, False, True, False, False]])
    predictions = {"action": np.zeros((2, 2)), "logits": np.log([[1.0, 9, 9, 1, 3]] * 2), "action_mask": mask}
    rng: Any = Scripted([0.9, 0.2, 0.1, 0.9])
    actions, extras = policy(predictions, 0, rng)
    assert actions.tolist() == [[5, 0], [NO_LEGAL_ACTION, -1]]
    assert extras["log_prob"][0] == pytest.approx(np.log(0.25))
    assert np.isfinite(extras["log_prob"]).all()


def test_boltzmann_draws_from_the_softmax_of_values_over_the_temperature() -> None:
    values = np.array([[2 * np.log(3), 0.0, 0, -1e9]] * 2, np.float32)  # at temperature 2: 3 to 1 to 1
    predictions = {"action": np.array([10, 10], np.int32), "q_values": values}
    policy = Boltzmann(Linear(2.0, 0.0, 10), SPACE)
    assert chosen(policy, predictions, [0.59, 0.61]) == [10, 11]
    assert chosen(policy, predictions, [0.79, 0.81]) == [11, 12]
    masked = {**predictions, "action_mask": MASK[[0, 2]]}  # 3 to 1 for actions 0 and 2
    assert chosen(policy, masked, [0.74, 0.9]) == [10, NO_LEGAL_ACTION]
    assert chosen(policy, masked, [0.76, 0.9]) == [12, NO_LEGAL_ACTION]
    assert [policy.level(t) for t in (0, 5, 10)] == [2, 1, 0]
    greedy, _ = policy(predictions, 10, np.random.default_rng(0))
    assert greedy.tolist() == [10, 10]


def test_boltzmann_draws_each_choice_by_itself() -> None:
    # At temperature 2: 1 to 4; 1 to 3 to next to nothing; one choice. Then all alike.
    values = 2 * np.array([[0, np.log(4), 0, np.log(3), -9, 0], [0] * 6], np.float32)
    predictions = {"action": np.array([[1, 11, 5], [0, 10, 5]], np.int32), "q_values": values}
    policy = Boltzmann(Linear(2.0, 0.0, 10), MultiDiscrete([2, 3, 1], start=[0, 10, 5]))
    draws = [0.19, 0.26, 0.9, 0.51, 0.34, 0.9]  # 1/5; 1/4 and 3/4; 1/2; thirds
    assert chosen(policy, predictions, draws) == [[0, 11, 5], [1, 11, 5]]
    mask = np.array([[1, 1, 1, 0, 1, 1], [0, 1, 0, 0, 0, 1]], bool)
    assert chosen(policy, {**predictions, "action_mask": mask}, draws) == [[0, 10, 5], [1, NO_LEGAL_ACTION, 5]]
    assert policy(predictions, 10, np.random.default_rng(0))[0] is predictions["action"]


def test_a_temperature_next_to_nothing_is_greedy_without_overflow() -> None:
    values = np.array([[1.0, 3e38, -3e38, 0]], np.float32)
    assert chosen(Boltzmann(1e-300, SPACE), {**ROW, "q_values": values}, [0.999]) == [11]


@pytest.mark.parametrize(
    ("policy", "rows", "wrong"),
    [
        (Random(SPACE), 1, lambda mask: mask.astype(np.int8)),  # ~1 is -2, an index
        (EpsilonGreedy(1.0, SPACE), 4, lambda mask: mask.astype(np.float32)),
        (Boltzmann(1.0, SPACE), 4, lambda mask: mask[:, :3]),
        (Categorical(SPACE), 1, lambda mask: mask[0]),
        (MultiCategorical(MultiDiscrete([1, 3])), 4, lambda mask: np.concatenate([mask, mask])),
    ],
)
def test_a_mask_of_another_form_is_refused(policy: Any, rows: int, wrong: Any) -> None:
    mask = np.ones((rows, 4), np.bool_)
    predictions = {
        "action": np.full(rows, 10, np.int32),
        "q_values": np.zeros((rows, 4)),
        "logits": np.zeros((rows, 4)),
    }
    policy({**predictions, "action_mask": mask}, 0, np.random.default_rng(0))
    message = rf"^predictions\['action_mask'\] must be bool \[{rows}, 4\], got "
    with pytest.raises(ArgumentError, match=message) as error:
        policy({**predictions, "action_mask": wrong(mask)}, 0, np.random.default_rng(0))
    assert error.value.argument == "predictions['action_mask']"
