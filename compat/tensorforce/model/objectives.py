"""Objectives: from what a policy says about rows to one error for each, which is minimised.

Shapes in comments: B is the batch, C the components of all actions.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, TypeAlias

import tensorflow as tf

from ....models.blocks import losses
from ..spaces.errors import refuse
from ..specs.modules import kinds, terms
from .policies import Inputs, Policy, View, frozen

Tensor: TypeAlias = Any
Rows: TypeAlias = Mapping[str, Any]
"""``inputs``, ``action`` by name [B, *shape], ``return`` and ``target`` [B], ``valid`` [B], perhaps ``old`` [B, C]."""
Objective: TypeAlias = Mapping[str, Any]


class Hyper:
    """The numbers of a normal form, fed at each update or constant.

    Args:
        form: the normal form.
        fed: float32 scalars by path: ``optimizer/learning_rate``.
    """

    def __init__(self, form: Mapping[str, Any], fed: Mapping[str, Tensor]) -> None:
        self._form, self._fed = form, fed

    def __call__(self, path: str) -> Tensor:
        """The number under a path, float32 scalar."""
        if path in self._fed:
            return self._fed[path]
        value = self._at(path)
        if not isinstance(value, int | float):
            refuse(path, f"is {value!r}, which is evaluated for each update, but was not fed", value)
        return tf.constant(float(value))

    def is_zero(self, path: str) -> bool:
        """Is it always 0?"""
        value = self._at(path)
        return isinstance(value, int | float) and value == 0

    def _at(self, path: str) -> Any:
        return functools.reduce(lambda part, key: part[key], path.split("/"), self._form)


@dataclasses.dataclass(frozen=True)
class Setting:
    """Inputs of objectives besides rows.

    Args:
        hyper: numbers.
        estimator: whose critic teaches deterministic policies.
    """

    hyper: Hyper
    estimator: Policy

    def errors(self, objective: Objective, path: str, view: View, rows: Rows, target: Tensor) -> Tensor:
        """Loss of each row, float32 [B].

        Args:
            objective: in normal form.
            path: of the objective in the normal form.
            view: what the policy says that is trained.
            rows: the rows.
            target: float32 [B]: returns, or advantages; values that are learnt beside likelihoods are of returns.
        """
        each, values = [], rows["return"] if "policy_gradient" in kinds(objective) else target
        for place, term in terms(objective, path):
            if term["type"] == "policy_gradient":
                each.append(self._likelihood(term, place, view, rows, target))
            elif term["type"] == "value":
                each.append(self._value(term, place, view, rows, values))
            else:
                each.append(-self._criticised(view, rows["inputs"]))
        return each[0] if len(each) == 1 else tf.add_n(each)

    def _likelihood(self, term: Objective, path: str, view: View, rows: Rows, target: Tensor) -> Tensor:
        log_probs = view.log_probs(rows["action"])  # [B, C]
        old = rows["old"] if term["ratio_based"] else None
        if term["early_reduce"]:
            log_probs = tf.reduce_sum(log_probs, axis=-1, keepdims=True)
            old = None if old is None else tf.reduce_sum(old, axis=-1, keepdims=True)
        gain = target[:, tf.newaxis]
        if old is None:
            return -tf.reduce_sum(log_probs * gain, axis=-1)
        ratio = tf.exp(log_probs - old)
        clipping = f"{path}/clipping_value"
        if self.hyper.is_zero(clipping):
            return -tf.reduce_sum(ratio * gain, axis=-1)
        return tf.reduce_sum(clipped_ratio(ratio, gain, self.hyper(clipping)), axis=-1)

    def _value(self, term: Objective, path: str, view: View, rows: Rows, target: Tensor) -> Tensor:
        if term["value"] == "state":
            values = view.state_value()[:, tf.newaxis]
        else:
            values = view.action_values(rows["action"])  # [B, C]
            if term["early_reduce"]:
                values = tf.reduce_mean(values, axis=-1, keepdims=True)
        error = target[:, tf.newaxis] - values
        threshold = f"{path}/huber_loss"
        if self.hyper.is_zero(threshold):
            return tf.reduce_mean(losses.squared(error), axis=-1)
        return tf.reduce_mean(squared_or_huber(error, self.hyper(threshold)), axis=-1)

    def _criticised(self, view: View, inputs: Inputs) -> Tensor:
        """The critic's value of the policy's own actions, float32 [B]; gradients flow through these only.

        Without a critic it is 0, as the likelihood of a mean has no slope.
        """
        action = view.greedy()
        if self.estimator.critic is None:
            return tf.zeros(tf.shape(view.features)[:1])
        with frozen(self.estimator.variables):
            return tf.reshape(self.estimator(inputs, training=False).action_values(action), [-1])


def clipped_ratio(ratio: Tensor, gain: Tensor, clip: Tensor) -> Tensor:
    """``-min(r A, clip(r, 1 / (1 + c), 1 + c) A)``, as ``losses.clipped_surrogate`` but for the lower bound.

    Args:
        ratio: r, float32 [B, C].
        gain: A, float32 [B, 1].
        clip: c, float32 scalar; 0 does not clip.
    """
    bounded = tf.minimum(tf.maximum(ratio, 1.0 / (1.0 + clip)), 1.0 + clip)
    return -tf.where(clip > 0, tf.minimum(ratio * gain, bounded * gain), ratio * gain)


def squared_or_huber(error: Tensor, threshold: Tensor) -> Tensor:
    """Half the square of errors; beyond a threshold above 0, linear."""
    return tf.where(threshold > 0, losses.huber(error, threshold), losses.squared(error))


def valid_mean(values: Tensor, valid: Tensor) -> Tensor:
    """The mean over the rows that count, float32 scalar; 0 if there are none."""
    return tf.reduce_sum(values * valid) / tf.maximum(tf.reduce_sum(valid), 1.0)
