"""Losses: tensors in, one error per element out. Weights and reduction are applied once, after them.

Shapes in comments: B is the batch, A the number of discrete actions. ``td_error`` is target - prediction everywhere,
and no gradient flows into a target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ...core.checks import choice
from ...core.tensorflow_import import tf
from . import masks

Tensor: TypeAlias = Any


def squared(error: Tensor) -> Tensor:
    """Half the square, ``error ** 2 / 2``; its gradient is the error itself.

    Args:
        error: float, any shape.

    Returns:
        the same shape.
    """
    return 0.5 * tf.square(error)


def huber(error: Tensor, delta: float = 1.0) -> Tensor:
    """Quadratic near zero, linear further out; its gradient is the error clipped to ``-delta .. delta``.

    Source: Huber 1964, "Robust estimation of a location parameter". With delta 1 this is the error clipping of
    Mnih et al. 2015 (https://doi.org/10.1038/nature14236), Methods, "Training algorithm".

    Args:
        error: float, any shape.
        delta: absolute error at which it becomes linear.

    Returns:
        the same shape: ``error ** 2 / 2`` up to delta, ``delta * (|error| - delta / 2)`` beyond.
    """
    absolute = tf.abs(error)
    quadratic = tf.minimum(absolute, delta)
    return 0.5 * tf.square(quadratic) + delta * (absolute - quadratic)


def expectile(error: Tensor, share: float) -> Tensor:
    """``|share - 1[error < 0]| error ** 2``: minimal at the targets' expectile, which for share 0.5 is their mean.

    Source: Kostrikov, Nair and Levine 2021, https://arxiv.org/abs/2110.06169, section 4.1.

    Args:
        error: float, any shape; target - prediction.
        share: weight of errors above 0, in 0 .. 1; errors below have the weight 1 - share.

    Returns:
        the same shape.
    """
    return tf.where(error < 0, 1.0 - share, share) * tf.square(error)


LOSSES: dict[str, Callable[[Tensor], Tensor]] = {"huber": huber, "squared": squared}
"""Losses of one error, by name."""


def action_values(q_values: Tensor, action: Tensor) -> Tensor:
    """The value of each taken action. A product with one-hot vectors, whose gradient every runtime supports.

    Args:
        q_values: float [B, A].
        action: int [B], 0 .. A - 1.

    Returns:
        float [B].
    """
    return tf.reduce_sum(q_values * tf.one_hot(action, q_values.shape[-1], dtype=q_values.dtype), axis=-1)


def td_error(prediction: Tensor, reward: Tensor, discount: Tensor, next_value: Tensor) -> Tensor:
    """``r + discount * V(s') - prediction``; no gradient flows into the target.

    Source: Sutton and Barto 2018, http://incompleteideas.net/book/the-book-2nd.html, section 6.1. With
    :func:`.masks.highest` of a target network as V it is the error of Mnih et al. 2015, equation 2 of the Methods.

    Args:
        prediction: float [B].
        reward: float [B]; the discounted sum of n rewards for an n-step transition.
        discount: float [B]; gamma to the n, 0 on termination.
        next_value: float [B], of the next observation.

    Returns:
        float [B].
    """
    return tf.stop_gradient(reward + discount * next_value) - prediction


def next_value(next_q_values: Tensor, selector: Tensor | None, mask: Tensor | None) -> Tensor:
    """The value of the next observation, float [B]: the highest, or :func:`double_value` if there is a selector."""
    return masks.highest(next_q_values, mask) if selector is None else double_value(next_q_values, selector, mask)


def double_value(q_values: Tensor, selector: Tensor, mask: Tensor | None = None) -> Tensor:
    """One network's value of the action that another network prefers.

    Source: van Hasselt, Guez and Silver 2016, https://arxiv.org/abs/1509.06461, equation 4.

    Args:
        q_values: float [B, A], from the target network, which values the action.
        selector: float [B, A], from the online network, which selects it.
        mask: bool [B, A], the legal actions; None if all are. A terminal observation may have none.

    Returns:
        float [B].
    """
    return action_values(q_values, masks.best(selector, mask))


def soft_value(q_values: Tensor, selector: Tensor, temperature: float, mask: Tensor | None = None) -> Tensor:
    """``sum_a pi(a|s) (q(s, a) - t log pi(a|s))`` with pi = softmax(selector / t): the value of a soft policy.

    Source: Vieillard, Pietquin and Geist 2020, https://arxiv.org/abs/2007.14430, the target of Munchausen-DQN.

    Args:
        q_values: float [B, A], the values of actions.
        selector: float [B, A], values that define the policy; in the paper ``q_values`` itself.
        temperature: t, above 0, in units of values.
        mask: bool [B, A], the legal actions; None if all are.

    Returns:
        float [B].
    """
    log_policy = _log_policy(selector, temperature, mask)
    return tf.reduce_sum(tf.exp(log_policy) * (q_values - temperature * log_policy), axis=-1)


def munchausen_bonus(
    selector: Tensor, action: Tensor, temperature: float, lowest: float, mask: Tensor | None = None
) -> Tensor:
    """``max(t log pi(a|s), lowest)``: the scaled log-probability of the action taken, pi as in :func:`soft_value`.

    Source: Vieillard, Pietquin and Geist 2020, https://arxiv.org/abs/2007.14430, the target of Munchausen-DQN.

    Args:
        selector: float [B, A], values that define the policy.
        action: int [B], 0 .. A - 1.
        temperature: t, above 0, in units of values.
        lowest: l_0, at most 0.
        mask: bool [B, A], the legal actions; None if all are.

    Returns:
        float [B], in ``lowest`` .. 0.
    """
    log_policy = _log_policy(selector, temperature, mask)
    return tf.maximum(temperature * action_values(log_policy, action), lowest)


def _log_policy(selector: Tensor, temperature: float, mask: Tensor | None) -> Tensor:
    """``log softmax(selector / t)`` over the legal actions, float [B, A]; very low, but finite, for the others.

    Values are in any units and t may be small, so a fixed logit might not be below those of all legal actions.
    """
    logits = selector / temperature
    if mask is not None:
        logits = tf.where(mask, logits, tf.reduce_min(logits, axis=-1, keepdims=True) + masks.ILLEGAL_LOGIT)
    return tf.nn.log_softmax(logits)


def rescaled(value: Tensor, epsilon: float) -> Tensor:
    """Values compressed by a square root, ``h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x``.

    Computed as ``x / (sqrt(|x| + 1) + 1) + epsilon x``, which is equal but accurate near 0.

    Source: Pohlen et al. 2018, https://arxiv.org/abs/1805.11593, proposition A.2; as in Kapturowski et al. 2019,
    https://openreview.net/forum?id=r1lyTjAqYX, section 2.3.

    Args:
        value: float, any shape.
        epsilon: above 0; the slope for very large values.

    Returns:
        the same shape.
    """
    return value / (tf.sqrt(tf.abs(value) + 1.0) + 1.0) + epsilon * value


def unrescaled(value: Tensor, epsilon: float) -> Tensor:
    """The inverse of :func:`rescaled`, ``sign(x) (((sqrt(1 + 4 epsilon s) - 1) / (2 epsilon))^2 - 1)``.

    Here ``s = |x| + 1 + epsilon``. The quotient is computed as ``2 s / (sqrt(1 + 4 epsilon s) + 1)``, which is equal
    but has no difference of almost equal numbers.

    Args:
        value: float, any shape.
        epsilon: as for :func:`rescaled`.

    Returns:
        the same shape.
    """
    shifted = tf.abs(value) + 1.0 + epsilon
    root = 2.0 * shifted / (tf.sqrt(1.0 + 4.0 * epsilon * shifted) + 1.0)
    return tf.sign(value) * (tf.square(root) - 1.0)


DUELING = ("mean", "max", "naive")
"""Baselines that dueling networks subtract from the advantages; naive subtracts nothing."""


def dueling(value: Tensor, advantage: Tensor, baseline: str, axis: int = -1) -> Tensor:
    """Values of actions from a state's value and advantages: ``V + A - mean(A)``, ``V + A - max(A)``, or ``V + A``.

    Source: Wang et al. 2016, https://arxiv.org/abs/1511.06581, equations 9 (mean), 8 (max) and 7 (naive).

    Args:
        value: float [..., 1].
        advantage: float [..., A].
        baseline: "mean", "max" or "naive".
        axis: axis of the actions.

    Returns:
        float [..., A].

    Raises:
        ArgumentError: the baseline is unknown.
    """
    choice("baseline", baseline, DUELING)
    if baseline == "naive":
        return value + advantage
    reduce = tf.reduce_mean if baseline == "mean" else tf.reduce_max
    return value + advantage - reduce(advantage, axis=axis, keepdims=True)


def large_margin(q_values: Tensor, action: Tensor, margin: float, mask: Tensor | None = None) -> Tensor:
    """Amount by which an expert's action falls short of exceeding all others by a margin.

    ``max_a (Q(s, a) + l(a)) - Q(s, a_E)``, where l is 0 for the expert's action a_E and ``margin`` for all others.

    Source: Hester et al. 2018, https://arxiv.org/abs/1704.03732, the large margin classification loss J_E.

    Args:
        q_values: float [B, A].
        action: int [B], the expert's, 0 .. A - 1.
        margin: 0.8 in the paper.
        mask: bool [B, A], the legal actions; None if all are.

    Returns:
        float [B], at least 0 where the expert's action is legal.
    """
    others = 1.0 - tf.one_hot(action, q_values.shape[-1], dtype=q_values.dtype)
    return masks.highest(q_values + margin * others, mask) - action_values(q_values, action)


def conservative(q_values: Tensor, action: Tensor, mask: Tensor | None = None) -> Tensor:
    """Soft maximum of all actions' values minus the value of the action taken: ``log sum_b exp Q(b) - Q(a)``.

    It is the negative log-probability of that action under the softmax of the values, and at least 0.

    Source: Kumar et al. 2020, https://arxiv.org/abs/2006.04779, equation 4: CQL(H).

    Args:
        q_values: float [B, A].
        action: int [B], 0 .. A - 1.
        mask: bool [B, A], the legal actions; None if all are.

    Returns:
        float [B].
    """
    return -action_values(_log_policy(q_values, 1.0, mask), action)


def half_square_sum(weights: Sequence[Tensor]) -> Tensor:
    """Half the sum of all squared weights, float scalar; its gradient is the weights themselves.

    Args:
        weights: tensors or variables of any shapes.
    """
    return tf.add_n([tf.reduce_sum(squared(tf.convert_to_tensor(weight))) for weight in weights])


def clipped_surrogate(log_ratio: Tensor, advantage: Tensor, clip: Tensor) -> Tensor:
    """PPO's objective, negated for minimisation: ``-min(r A, clip(r, 1 - c, 1 + c) A)``.

    Source: Schulman et al. 2017, https://arxiv.org/abs/1707.06347, equation 7.

    Args:
        log_ratio: log r, float [B]: the ratio of the action's probability now to that when it was taken.
        advantage: A, float [B].
        clip: c, float scalar.

    Returns:
        float [B].
    """
    ratio = tf.exp(log_ratio)
    bounded = tf.minimum(tf.maximum(ratio, 1 - clip), 1 + clip)
    return -tf.minimum(ratio * advantage, bounded * advantage)


def clipped_squared(value: Tensor, recorded: Tensor, returns: Tensor, clip: float | None) -> Tensor:
    """The squared error of values; with a clip, the larger of it and the error of values clipped around recorded ones.

    Source: Engstrom et al. 2020, https://arxiv.org/abs/2005.12729, section 3, optimisation 1.

    Args:
        value: float [B], the prediction.
        recorded: float [B], the prediction when the action was taken.
        returns: float [B], the targets.
        clip: the largest distance from the recorded value; ``None`` does not clip.

    Returns:
        float [B].
    """
    error = tf.square(value - returns)
    if clip is None:
        return error
    near = recorded + tf.minimum(tf.maximum(value - recorded, -clip), clip)
    return tf.maximum(error, tf.square(near - returns))


def approximate_kl(log_ratio: Tensor) -> Tensor:
    """Unbiased estimate of the KL divergence from the policy that acted, in nats: ``mean(r - 1 - log r)``, at least 0.

    Source: Schulman 2020, http://joschu.net/blog/kl-approx.html, k3.

    Args:
        log_ratio: log r, float [B]: the ratio of the action's probability now to that when it was taken.

    Returns:
        float scalar.
    """
    return tf.reduce_mean(tf.exp(log_ratio) - 1 - log_ratio)
