"""TD3+BC: TD3 on recorded episodes, whose actor also imitates them.

Source: Fujimoto and Gu 2021 (https://arxiv.org/abs/2106.06860), equations 3 and 5. Differences from the paper:
docs/algorithms/td3_bc.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..core.protocols import EstimatorSpec, RunConfig
from ..core.tensorflow_import import tf
from .blocks.deterministic import Batch
from .blocks.params import from_params, param, real
from .td3 import TD3Params, twin_delayed


@dataclasses.dataclass(frozen=True, kw_only=True)
class TD3BCParams(TD3Params):
    """The parameters of TD3+BC. Defaults are those of the paper, table 3."""

    value_weight: float = param(
        2.5, "alpha, weight of the critic's value relative to imitation; 0 only imitates", real(at_least=0)
    )


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | TD3BCParams | None, config: RunConfig
) -> EstimatorSpec:
    """TD3+BC, for a ReplayMemory filled in advance.

    Predictions, ``loss``, ``td_error`` and metrics are those of TD3.

    Raises:
        ArgumentError: the action space is not a bounded Box of floats, the observations do not fit, the memory does not
            yield single transitions or its batches cannot be split, or a parameter is invalid.
    """
    params = from_params(TD3BCParams, params)
    alpha = params.value_weight

    def imitation(batch: Batch, action: Any, value: Any) -> Any:
        weight = alpha / tf.stop_gradient(tf.reduce_mean(tf.abs(value)))  # equation 5, with the policy's actions
        return tf.reduce_mean(tf.square(action - batch["action"])) - weight * tf.reduce_mean(value)  # equation 3

    return twin_delayed(features, labels, mode, params, config, "TD3+BC", imitation)
