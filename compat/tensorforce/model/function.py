"""The one ``model_fn`` of all agents: it builds what the normal form describes.

Shapes in comments: B is the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ....core.protocols import EstimatorSpec, Modes, RunConfig
from .model import Model
from .update import Training

Tensor: TypeAlias = Any
Form: TypeAlias = Mapping[str, Any]


def model_fn(features: Any, labels: Any, mode: str, params: Mapping[str, Any], config: RunConfig) -> EstimatorSpec:
    """The model of an agent.

    Predictions: ``action``, greedy: a tensor, or a dictionary of such for several; and by action ``a`` ``logits/a``
    float32 [B, ..., K] of an int (values, where these are learnt), ``logit/a`` of a bool, ``mean/a`` and ``stddev/a``,
    or ``alpha/a`` and ``beta/a``, of a float. Metrics, means over the steps of the optimizer: ``policy_loss``,
    ``baseline_loss``, ``entropy``, ``regularization_loss``; and ``update_norm`` (of the change of all weights that the
    policy's optimizer trains) and ``kl`` (of the policy after the update from the one before; 0 without likelihoods).

    Args:
        features: states and masks by name, or ``observation`` and ``state``, which are internals.
        labels: the batch; its means are over rows that are ``valid``.
        mode: PREDICT or TRAIN.
        params: ``form``, the normal form; ``states`` and ``actions``, ValueSpecs by flat name.
        config: not used.

    Raises:
        TensorforceError: networks, objectives and actions do not fit one another.
    """
    del config
    predicts = mode == Modes.PREDICT
    model = Model(params["form"], params["states"], params["actions"], trains=not predicts)
    inputs = inputs_of(features, None if predicts else labels)
    return model.predict(inputs) if predicts else Training(model, labels).run(inputs)


def inputs_of(features: Mapping[str, Any], labels: Mapping[str, Any] | None) -> dict[str, Any]:
    """Features, and what windows of a batch have, as a policy takes them."""
    if not isinstance(features.get("observation"), Mapping):
        return {"observation": dict(features)}
    windows = {} if labels is None else {"window_valid": labels["window_valid"]}
    return {"observation": dict(features["observation"]), "internals": dict(features["state"]), **windows}
