"""Advantages and lambda-returns: by hand, and against a loop over timesteps."""

import re
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from axonrl.models.blocks import returns
from axonrl.models.blocks.returns import n_step_returns
from axonrl.tests.models.blocks.derivatives import gradients

gae: Any = returns.gae  # of arrays that are unpacked


def without_value(reward: Any, discount: Any, truncated: Any, value: Any, next_value: Any, lambda_: float) -> Any:
    return returns.lambda_returns(reward, discount, truncated, next_value, lambda_)


lambda_returns: Any = without_value


def run(function: Any, arrays: Any, lambda_: float) -> Any:
    """``function`` of the five arrays of a rollout."""
    return function(*[tf.constant(array, tf.float32) for array in arrays], lambda_).numpy()


# Four timesteps with gamma 1/2. Values are 2 4 6 8 and then 10, so the TD errors of an episode that goes on are
#   1 + 4/2 - 2 = 1,   3 + 6/2 - 4 = 2,   2 + 8/2 - 6 = 0,   5 + 10/2 - 8 = 2
REWARD = [1.0, 3.0, 2.0, 5.0]
VALUE = [2.0, 4.0, 6.0, 8.0]
NEXT_VALUE = [4.0, 6.0, 8.0, 10.0]


def rollout(terminated: Any = (), truncated: Any = (), final_value: float = 0.0) -> Any:
    """A rollout of one environment: an episode ends at these timesteps with a final observation of this value."""
    ends = {*terminated, *truncated}
    return [
        np.array(column).reshape(4, 1)
        for column in (
            REWARD,
            [0.0 if t in terminated else 0.5 for t in range(4)],
            [float(t in truncated) for t in range(4)],
            VALUE,
            [final_value if t in ends and t < 3 else NEXT_VALUE[t] for t in range(4)],
        )
    ]


ROLLOUTS: Any = {
    # With lambda 1/2 a quarter of what comes later counts: 0 + 2/4 = 0.5, 2 + 0.5/4 = 2.125, 1 + 2.125/4 = 1.53125
    "open end": (rollout(), [1.53125, 2.125, 0.5, 2.0]),
    # The TD error is 3 - 4 = -1 there, whatever the final observation's value, and 1 - 1/4 before
    "terminated": (rollout(terminated=[1], final_value=99.0), [0.75, -1.0, 0.5, 2.0]),
    # The TD error is 3 + 20/2 - 4 = 9 there, nothing of what comes later is added, and 1 + 9/4 before
    "truncated": (rollout(truncated=[1], final_value=20.0), [3.25, 9.0, 0.5, 2.0]),
    "terminated and truncated": (rollout([1], [1], final_value=99.0), [0.75, -1.0, 0.5, 2.0]),
    # 5 - 8 = -3, 0 - 3/4 = -0.75, 2 - 0.75/4 = 1.8125, 1 + 1.8125/4 = 1.453125
    "terminated at the end": (rollout(terminated=[3]), [1.453125, 1.8125, -0.75, -3.0]),
    # Nothing comes later: as the open end, the value of the last observation stands for the rest
    "truncated at the end": (rollout(truncated=[3]), [1.53125, 2.125, 0.5, 2.0]),
    # Every timestep an episode: the TD errors with final values of 0, 1 - 2, 3 - 4, 2 - 6, and 2 at the end
    "truncated everywhere": (rollout(truncated=[0, 1, 2, 3]), [-1.0, -1.0, -4.0, 2.0]),
}


def test_advantages_worked_out_by_hand_in_environments_that_do_not_mix() -> None:
    """Each a column, with different ends."""
    arrays = [np.concatenate(columns, 1) for columns in zip(*(arrays for arrays, _ in ROLLOUTS.values()), strict=True)]
    found = run(gae, arrays, 0.5)
    assert found.shape == (4, len(ROLLOUTS))
    assert found.T.tolist() == [expected for _, expected in ROLLOUTS.values()]


def test_lambda_returns_worked_out_by_hand() -> None:
    # Half the next value, half the next return: 5 + 10/2 = 10, 2 + (8 + 10)/4 = 6.5, 3 + (6 + 6.5)/4 = 6.125,
    # 1 + (4 + 6.125)/4 = 3.53125
    assert run(lambda_returns, rollout(), 0.5)[:, 0].tolist() == [3.53125, 6.125, 6.5, 10.0]
    # 3, then 1 + (4 + 3)/4
    assert run(lambda_returns, rollout(terminated=[1], final_value=99.0), 0.5)[:, 0].tolist() == [2.75, 3.0, 6.5, 10.0]
    # 3 + 20/2 = 13, then 1 + (4 + 13)/4
    truncated = rollout(truncated=[1], final_value=20.0)
    assert run(lambda_returns, truncated, 0.5)[:, 0].tolist() == [5.25, 13.0, 6.5, 10.0]


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        (rollout(), [4.25, 6.5, 7.0, 10.0]),
        (rollout(terminated=[1], final_value=99.0), [2.5, 3.0, 7.0, 10.0]),
        (rollout(truncated=[1], final_value=20.0), [7.5, 13.0, 7.0, 10.0]),
        (rollout(truncated=[3]), [4.25, 6.5, 7.0, 10.0]),
    ],
)
def test_with_lambda_1_they_are_discounted_returns(arrays: Any, expected: list[float]) -> None:
    assert run(lambda_returns, arrays, 1.0)[:, 0].tolist() == expected


def random_rollout(length: int, num_envs: int) -> list[Any]:
    """A rollout as a memory yields it, with values of a network, float32."""
    rng = np.random.default_rng(length)
    shape = (length, num_envs)
    reward, value, final = rng.standard_normal((3, *shape))
    terminated, truncated = rng.random((2, *shape)) < 0.03
    following = np.concatenate([value[1:], final[-1:]])
    next_value = np.where(terminated | truncated, final, following)
    columns = (reward, np.where(terminated, 0.0, 0.99), truncated, value, next_value)
    return [column.astype(np.float32) for column in columns]


def looped_gae(arrays: Any, lambda_: float) -> Any:
    """In float64, from the last timestep to the first."""
    reward, discount, truncated, value, next_value = (array.astype(np.float64) for array in arrays)
    advantage, later = np.zeros_like(reward), np.zeros(reward.shape[1])
    for t in reversed(range(len(reward))):
        ended = (discount[t] == 0) | (truncated[t] == 1)
        td_error = reward[t] + discount[t] * next_value[t] - value[t]
        advantage[t] = later = td_error + 0.99 * lambda_ * np.where(ended, 0.0, later)
    return advantage


@pytest.mark.parametrize(("length", "num_envs", "lambda_"), [(1, 3, 0.95), (5, 2, 1.0), (2048, 1, 0.95)])
def test_it_is_the_loop_up_to_rounding(length: int, num_envs: int, lambda_: float) -> None:
    arrays = random_rollout(length, num_envs)
    found = run(gae, arrays, lambda_)
    assert (found.shape, found.dtype) == ((length, num_envs), np.float32)
    np.testing.assert_allclose(found, looped_gae(arrays, lambda_), rtol=1e-5, atol=1e-5)


def traced(length: int, num_envs: int) -> Any:
    def function(*inputs: Any) -> Any:
        return gae(*inputs, lambda_=0.95), lambda_returns(*inputs, lambda_=0.95)

    return tf.function(function, autograph=False).get_concrete_function(*[tf.TensorSpec([length, num_envs])] * 5)


def test_the_graph_grows_with_the_logarithm_of_the_length() -> None:
    small, large = ([op.type for op in traced(length, 1).graph.get_operations()] for length in (64, 2048))
    # 6 rounds and 11, of two functions: with a graph per timestep it would be 32 times as many
    assert len(small) < len(large) < 2 * len(small)
    assert not {op for op in large if "While" in op}


def test_no_gradient_flows_through_them() -> None:
    for function in (gae, lambda_returns):
        assert gradients(lambda *inputs, of=function: of(*inputs, lambda_=0.5), *rollout()) == [None] * 5


def test_other_shapes_are_refused() -> None:
    good = tf.zeros([4, 2])
    message = "one shape [T, N] with a static T, got reward (4, 2), discount (4, 2), truncated (4, 2), value (4, 2, 1)"
    with pytest.raises(ValueError, match=re.escape(message)):
        gae(good, good, good, tf.zeros([4, 2, 1]), good, 0.5)
    traced = tf.function(lambda *inputs: gae(*inputs, lambda_=0.5), autograph=False)  # as model functions are
    with pytest.raises(ValueError, match=re.escape("static T, got reward (None, 2)")):
        traced.get_concrete_function(*[tf.TensorSpec([None, 2])] * 5)


def test_the_number_of_environments_may_be_unknown() -> None:
    function = tf.function(lambda *inputs: gae(*inputs, lambda_=0.5), input_signature=[tf.TensorSpec([4, None])] * 5)
    found = function(*[tf.constant(array, tf.float32) for array in rollout()])
    assert found.numpy()[:, 0].tolist() == ROLLOUTS["open end"][1]


def test_lambda_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"lambda_ must be a finite number of at least 0 and of at most 1, got 1\.1"):
        gae(*[tf.zeros([2, 1])] * 5, lambda_=1.1)


@pytest.mark.parametrize(
    ("n_step", "ends", "expected"),
    [
        # 1 + 3/2 + 6/4 + ...: two rewards and a quarter of the value two timesteps later; the last has one reward
        (2, {}, [4, 6, 7, 10]),
        (3, {}, [4, 6.5, 7, 10]),  # 1 + 3/2 + 2/4 + 8/8; 3 + 2/2 + 5/4 + 10/8; then what there is
        (3, {"terminated": [1], "final_value": 99.0}, [2.5, 3, 7, 10]),  # 1 + 3/2
        (3, {"truncated": [1], "final_value": 20.0}, [7.5, 13, 7, 10]),  # 1 + 3/2 + 20/4; 3 + 20/2
        (3, {"terminated": [3]}, [4, 5.25, 4.5, 5]),
    ],
)
def test_n_step_returns_by_hand(n_step: int, ends: Any, expected: list[float]) -> None:
    reward, discount, truncated, _, next_value = (tf.constant(a, tf.float32) for a in rollout(**ends))
    found = n_step_returns(reward, discount, truncated, next_value, n_step)
    assert found.numpy()[:, 0].tolist() == expected


def test_intrinsic_returns_go_on_beyond_episodes() -> None:
    """Those of "open end" above."""
    reward, value = (tf.constant(column, tf.float32)[:, None] for column in (REWARD, VALUE))
    found = returns.endless_gae(reward, 0.5, value, tf.constant([10.0]), 0.5)
    np.testing.assert_allclose(found[:, 0], [1.53125, 2.125, 0.5, 2.0], rtol=1e-6)


def test_discounted_sums() -> None:
    """1 + 4/2 = 3, 3 + 3/2 = 4.5, 2 + 4.5/2 = 4.25, 5 + 4.25/2 = 7.125; and the next environment begins at 0."""
    reward = tf.constant([[one, one] for one in REWARD])
    found = returns.discounted_sums(reward, 0.5, tf.constant([4.0, 0.0]))
    assert found.numpy().tolist() == [[3, 1], [4.5, 3.5], [4.25, 3.75], [7.125, 6.875]]
