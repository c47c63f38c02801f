"""The model of ApexExecutor: ApexAgent's, with the inputs of axonrl's own Agent."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from ....core.protocols import EstimatorSpec, Modes, RunConfig
from ....explorations import EpsilonGreedy
from ...common.value_specs import ValueSpec
from ..processing.decays import Decay
from . import q_learning

Tensor: TypeAlias = Any


def model_fn(features: Any, labels: Any, mode: str, params: Mapping[str, Any], config: RunConfig) -> EstimatorSpec:
    """Q-learning from the batches of a ReplayMemory.

    Predictions: as ``q_learning.model_fn``. The target network is an exact copy at the first update, and is copied
    before every ``sync_period``-th update.

    Args:
        features: states, a Tensor or by flat name.
        labels: the batch, and ``global_step``.
        mode: PREDICT or TRAIN.
        params: JSON: ``form``, the normal form; ``states``, specs of the states in JSON by flat name; ``shape``,
            ``categories`` and ``low`` of the action; ``sync_period`` in updates; ``epsilon``, a number or the spec of
            a decay over timesteps.
        config: with the action space.
    """
    states = {
        name: ValueSpec(name, **{**spec, "shape": tuple(spec["shape"])}) for name, spec in params["states"].items()
    }
    low = np.asarray(params["low"], np.int32)
    inner = {**{name: params[name] for name in ("form", "shape", "categories")}, "states": states, "low": low}
    spec = q_learning.model_fn(_by_name(features), _labels(labels, params), mode, inner, config)
    if mode != Modes.PREDICT:
        return spec
    given = params["epsilon"]
    epsilon: Any = Decay(given) if isinstance(given, Mapping) else float(given)
    return dataclasses.replace(spec, exploration=EpsilonGreedy(epsilon, config.action_space))


def _labels(labels: Any, params: Mapping[str, Any]) -> Any:
    """The model's labels beside a batch."""
    if labels is None:
        return None
    step, period = labels["global_step"], params["sync_period"]
    copies = tf.logical_or(tf.equal(step, 0), tf.equal(step % period, period - 1))
    return {
        **labels,
        "next_observation": _by_name(labels["next_observation"]),
        "valid": tf.ones_like(labels["reward"]),
        "numbers": {"sync": tf.where(copies, 1.0, 0.0)},
    }


def _by_name(observation: Any) -> Mapping[str, Tensor]:
    return observation if isinstance(observation, Mapping) else {"": observation}
