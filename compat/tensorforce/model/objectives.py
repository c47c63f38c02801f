"""Objectives: losses of rows from a policy's outputs.

Shapes in comments: B is the batch, C the components of all actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import tensorflow as tf

from ....models.blocks import losses
from ..spaces.errors import refuse
from ..specs.modules import kinds, terms
from ..specs.normal_form import at
from .policies import Policy, View, frozen

Tensor: TypeAlias = Any
Rows: TypeAlias = Mapping[str, Any]
"""``inputs``, ``action`` by name [B, *shape], ``return``, ``target`` and ``valid`` [B], optionally ``old`` [B, C]."""
Objective: TypeAlias = Mapping[str, Any]


class Hyper:
    """The numbers of a normal form, either constant or fed at each update.

    Args:
        form: the normal form.
        fed: fed float32 scalars by path: ``optimizer/learning_rate``.
    """

    def __init__(self, form: Mapping[str, Any], fed: Mapping[str, Tensor]) -> None:
        self._form, self._fed = form, fed

    def __call__(self, path: str) -> Tensor:
        """The number at a path, float32 scalar."""
        if path in self._fed:
            return self._fed[path]
        value = at(self._form, path)
        if not isinstance(value, int | float):
            refuse(path, f"is {value!r}, which is evaluated for each update, but was not fed", value)
        return tf.constant(float(value))

    def is_zero(self, path: str) -> bool:
        """Is it always 0?"""
        value = at(self._form, path)
        return isinstance(value, int | float) and value == 0


class Objectives:
    """Losses of rows by objectives.

    Args:
        hyper: numbers of the normal form.
        estimator: policy whose critic trains deterministic policies.
    """

    def __init__(self, hyper: Hyper, estimator: Policy) -> None:
        self._hyper, self._estimator = hyper, estimator

    def __call__(self, objective: Objective, path: str, view: View, rows: Rows, target: Tensor) -> Tensor:
        """Loss of each row, float32 [B].

        Args:
            objective: objective in normal form.
            path: path of the objective in the normal form.
            view: outputs of the trained policy.
            rows: the rows.
            target: float32 [B]: returns or advantages; values learnt besides likelihoods always use returns.
        """
        values = rows["return"] if "policy_gradient" in kinds(objective) else target
        each = []
        for place, term in terms(objective, path):
            if term["type"] == "policy_gradient":
                each.append(self._likelihood(term, place, view, rows, target[:, tf.newaxis]))
            elif term["type"] == "value":
                each.append(self._value(term, place, view, rows, values[:, tf.newaxis]))
            elif self._estimator.critic is None:  # the likelihood has no gradient at the mean
                each.append(tf.zeros(tf.shape(view.features)[:1]))
            else:  # the critic's value of the policy's actions; gradients flow only through these actions
                action = view.greedy()
                with frozen(self._estimator.variables):
                    criticised = self._estimator(rows["inputs"], training=False).action_values(action)
                each.append(-tf.reshape(criticised, [-1]))
        return each[0] if len(each) == 1 else tf.add_n(each)

    def _likelihood(self, term: Objective, path: str, view: View, rows: Rows, gain: Tensor) -> Tensor:
        def reduced(log_probs: Tensor) -> Tensor:
            return tf.reduce_sum(log_probs, axis=-1, keepdims=True) if term["early_reduce"] else log_probs

        log_probs = reduced(view.log_probs(rows["action"]))  # [B, C]
        if not term["ratio_based"]:
            return -tf.reduce_sum(log_probs * gain, axis=-1)
        ratio = tf.exp(log_probs - reduced(rows["old"]))
        clipping = f"{path}/clipping_value"
        if self._hyper.is_zero(clipping):
            return -tf.reduce_sum(ratio * gain, axis=-1)
        return tf.reduce_sum(clipped_ratio(ratio, gain, self._hyper(clipping)), axis=-1)

    def _value(self, term: Objective, path: str, view: View, rows: Rows, target: Tensor) -> Tensor:
        if term["value"] == "state":
            values = view.state_value()[:, tf.newaxis]
        else:
            values = view.action_values(rows["action"])  # [B, C]
            if term["early_reduce"]:
                values = tf.reduce_mean(values, axis=-1, keepdims=True)
        error, threshold = target - values, f"{path}/huber_loss"
        if self._hyper.is_zero(threshold):
            return tf.reduce_mean(losses.squared(error), axis=-1)
        limit = self._hyper(threshold)
        errors = tf.where(limit > 0, losses.huber(error, limit), losses.squared(error))
        return tf.reduce_mean(errors, axis=-1)


def clipped_ratio(ratio: Tensor, gain: Tensor, clip: Tensor) -> Tensor:
    """``-min(r A, clip(r, 1 / (1 + c), 1 + c) A)``, as ``losses.clipped_surrogate`` except for the lower bound.

    Args:
        ratio: r, float32 [B, C].
        gain: A, float32 [B, 1].
        clip: c, float32 scalar; 0: no clipping.
    """
    bounded = tf.minimum(tf.maximum(ratio, 1.0 / (1.0 + clip)), 1.0 + clip)
    return -tf.where(clip > 0, tf.minimum(ratio * gain, bounded * gain), ratio * gain)


def valid_mean(values: Tensor, valid: Tensor) -> Tensor:
    """The mean over valid rows, float32 scalar; 0 if there are none."""
    return tf.reduce_sum(values * valid) / tf.maximum(tf.reduce_sum(valid), 1.0)
