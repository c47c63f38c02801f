"""Advantages and returns of rollouts.

Shapes in comments: T timesteps of N environments. A rollout may end in the middle of episodes, and episodes may end
anywhere in it. ``discount`` is 0 on termination, so nothing later counts. Truncation has its own argument: the value of
the final observation replaces the missing rewards (``discount`` is gamma), but the next row belongs to another episode.
After the last row, too, ``next_value`` replaces the missing rewards.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from ...core.checks import number
from ...core.errors import ArgumentError
from ...core.tensorflow_import import tf

Tensor: TypeAlias = Any


def gae(
    reward: Tensor, discount: Tensor, truncated: Tensor, value: Tensor, next_value: Tensor, lambda_: float
) -> Tensor:
    """Generalized advantage estimates, ``A_t = delta_t + gamma lambda A_{t+1}`` up to the end of the episode.

    ``delta_t = r_t + discount_t V(s_{t+1}) - V(s_t)`` is the TD error. No gradient flows through the result.

    Source: Schulman et al. 2016, https://arxiv.org/abs/1506.02438, equation 16.

    Args:
        reward: float32 [T, N]; T is static.
        discount: float32 [T, N]; gamma, 0 on termination.
        truncated: float32 [T, N]; 1 where the episode was cut, else 0. 1 on termination is harmless.
        value: float32 [T, N]; V of the observation.
        next_value: float32 [T, N]; V of the next observation: the final one where an episode ended.
        lambda_: in 0 .. 1: from one-step TD errors to discounted returns minus the value.

    Returns:
        float32 [T, N].

    Raises:
        ValueError: the shapes differ, T is not static, or lambda_ is out of range.
    """
    _check_shapes(reward=reward, discount=discount, truncated=truncated, value=value, next_value=next_value)
    lambda_ = number("lambda_", lambda_, at_least=0, at_most=1)
    td_error = reward + discount * next_value - value  # [T, N]
    kept = lambda_ * discount * (1.0 - truncated)  # [T, N], the weight of later terms
    return tf.stop_gradient(_summed_backwards(td_error, kept))


def endless_gae(reward: Tensor, discount: float, value: Tensor, last_value: Tensor, lambda_: float) -> Tensor:
    """Advantages as by :func:`gae`, for non-episodic returns, which continue in the next episode.

    Source: Burda et al. 2018, https://arxiv.org/abs/1810.12894, section 2.3.

    Args:
        reward: as for :func:`gae`.
        discount: gamma.
        value: as for :func:`gae`.
        last_value: float32 [N]; V of the observations after the last row.
        lambda_: as for :func:`gae`.

    Returns:
        float32 [T, N].
    """
    next_value = tf.concat([value[1:], last_value[tf.newaxis]], axis=0)
    return gae(reward, discount * tf.ones_like(reward), tf.zeros_like(reward), value, next_value, lambda_)


def discounted_sums(reward: Tensor, discount: float, before: Tensor) -> Tensor:
    """Sums of past rewards, ``R_t = r_t + discount R_{t-1}``.

    Args:
        reward: float32 [T, N]; T is static.
        discount: gamma.
        before: float32 [N]; the sum before the first row.

    Returns:
        float32 [T, N].
    """
    terms = tf.concat([reward[:1] + discount * before, reward[1:]], axis=0)
    backwards = _summed_backwards(tf.reverse(terms, [0]), discount * tf.ones_like(reward))
    return tf.reverse(backwards, [0])


def lambda_returns(reward: Tensor, discount: Tensor, truncated: Tensor, next_value: Tensor, lambda_: float) -> Tensor:
    """The lambda-returns, targets of TD(lambda): ``r_t + discount_t ((1 - lambda) V(s_{t+1}) + lambda G)``.

    G is the next row's lambda-return, or ``V(s_{t+1})`` where the episode or the rollout ends. With lambda 1 they are
    discounted returns. They equal the advantages of :func:`gae` plus the values, if ``next_value`` is the next row's
    ``value`` within episodes. Arguments, shapes and errors are those of :func:`gae`, without ``value``.

    Source: Sutton and Barto 2018, 2nd edition, sections 12.1 and 12.8.
    """
    _check_shapes(reward=reward, discount=discount, truncated=truncated, next_value=next_value)
    lambda_ = number("lambda_", lambda_, at_least=0, at_most=1)
    kept = lambda_ * tf.pad(1.0 - truncated[:-1], [[0, 1], [0, 0]])  # share of the next row's return
    return tf.stop_gradient(_summed_backwards(reward + (1.0 - kept) * discount * next_value, kept * discount))


def n_step_returns(reward: Tensor, discount: Tensor, truncated: Tensor, next_value: Tensor, n_step: int) -> Tensor:
    """Returns over up to n timesteps: ``r_t + gamma r_{t+1} + ... + gamma^m V(s_{t+m})``.

    m is n, or fewer where the episode was truncated, or where the rows end. Nothing follows a termination.

    Source: Sutton and Barto 2018, 2nd edition, section 7.1.

    Args:
        reward: as for :func:`gae`.
        discount: as for :func:`gae`.
        truncated: as for :func:`gae`.
        next_value: as for :func:`gae`.
        n_step: n, at least 1.

    Returns:
        float32 [T, N], through which no gradient flows.

    Raises:
        ValueError: the shapes differ, or T is not static.
    """
    _check_shapes(reward=reward, discount=discount, truncated=truncated, next_value=next_value)
    returns = reward + discount * next_value
    for _ in range(n_step - 1):
        later = tf.concat([returns[1:], next_value[-1:]], axis=0)
        returns = reward + discount * (truncated * next_value + (1.0 - truncated) * later)
    return tf.stop_gradient(returns)


class VTrace(NamedTuple):
    """Result of :func:`vtrace`, float32 [T, N] each; no gradient flows through it."""

    target: Tensor
    """v, the target of the values."""
    advantage: Tensor
    """Advantages of the actions taken, with their clipped ratios."""


def vtrace(
    log_ratio: Tensor,
    reward: Tensor,
    discount: Tensor,
    truncated: Tensor,
    value: Tensor,
    next_value: Tensor,
    *,
    rho_clip: float | None = 1.0,
    c_clip: float | None = 1.0,
    policy_rho_clip: float | None = 1.0,
    lambda_: float = 1.0,
) -> VTrace:
    """V-trace: targets of the value and advantages of a policy, from another policy's actions.

    With ratios of 1 the targets are the lambda-returns of :func:`lambda_returns`.

    Source: Espeholt et al. 2018, https://arxiv.org/abs/1802.01561, equation 1, section 4.2 and remark 2 (lambda).

    Args:
        log_ratio: float32 [T, N]; log-probability of the action by the learning policy, minus that by the acting
            policy.
        reward: as for :func:`gae`.
        discount: as for :func:`gae`.
        truncated: as for :func:`gae`.
        value: as for :func:`gae`.
        next_value: as for :func:`gae`.
        rho_clip: the largest ratio in a TD error. It determines the policy whose value is learned, between the acting
            and the learning one. None does not clip.
        c_clip: the largest ratio that weights later terms; None does not clip.
        policy_rho_clip: the largest ratio in an advantage; None does not clip.
        lambda_: in 0 .. 1: from one-step TD errors to returns.

    Raises:
        ValueError: as :func:`gae`.
    """
    given = {"reward": reward, "discount": discount, "truncated": truncated, "value": value, "next_value": next_value}
    _check_shapes(**given, log_ratio=log_ratio)
    lambda_ = number("lambda_", lambda_, at_least=0, at_most=1)
    ratio = tf.exp(log_ratio)

    def clipped(highest: float | None) -> Tensor:
        return ratio if highest is None else tf.minimum(ratio, highest)

    td_error = clipped(rho_clip) * (reward + discount * next_value - value)  # [T, N]
    goes_on = 1.0 - truncated
    above = _summed_backwards(td_error, lambda_ * clipped(c_clip) * discount * goes_on)  # v - V
    next_target = next_value + goes_on * _later(above, 1)
    advantage = clipped(policy_rho_clip) * (reward + discount * next_target - value)
    return VTrace(tf.stop_gradient(value + above), tf.stop_gradient(advantage))


def _summed_backwards(terms: Tensor, factors: Tensor) -> Tensor:
    """``x_t = terms_t + factors_t x_{t+1}``, 0 beyond the end, in log2(T) operations on whole arrays.

    A loop over T would be a graph of T copies, or an op with a call per timestep. Here each round doubles the number of
    later rows in a row's sum, and multiplies the factors in between. Nothing is divided, so factors may be 0.

    Source: Kogge and Stone 1973, https://doi.org/10.1109/TC.1973.5009159.
    """
    length, rows = terms.shape[0], 1
    while rows < length:
        terms = terms + factors * _later(terms, rows)
        factors = factors * _later(factors, rows)
        rows *= 2
    return terms


def _later(x: Tensor, rows: int) -> Tensor:
    """Shift: every row becomes the one ``rows`` later; zeros at the end."""
    return tf.pad(x[rows:], [[0, rows], [0, 0]])


def _check_shapes(**tensors: Tensor) -> None:
    """Refuse differing shapes: [T, N, 1] and [T, N] would broadcast silently."""
    shapes = {name: tf.TensorShape(tensor.shape) for name, tensor in tensors.items()}
    first = shapes["reward"]
    if first.rank != 2 or first[0] is None or not all(shape.is_compatible_with(first) for shape in shapes.values()):
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ArgumentError(f"returns need tensors of one shape [T, N] with a static T, got {listed}", "reward")
