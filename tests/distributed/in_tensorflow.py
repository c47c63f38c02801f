"""A model that LiteRT does not run; actors import it."""

from typing import Any

import tensorflow as tf

from axonrl.models import impala


def model_fn(features: Any, labels: Any, mode: str, params: Any, config: Any) -> Any:
    """IMPALA's, of observations that are multiplied by a determinant of 1."""
    if mode == "predict":
        features = features * tf.linalg.det(tf.eye(2))
    return impala.model_fn(features, labels, mode, params, config)
