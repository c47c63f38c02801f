"""Features and labels for a ``model_fn``, converted from the arrays of environments and memories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import tensorflow as tf

from ...core.protocols import ArraySpec, SpecTree

Tree: TypeAlias = Any
"""A tensor, or a dictionary of tensors."""
_FLOAT_LABELS = ("reward", "terminated", "truncated", "discount", "weight")


def tensor_specs(spec: SpecTree, batch_axes: tuple[int | None, ...] = ()) -> Tree:
    """Convert a spec for TensorFlow, with ``batch_axes`` in front."""
    if isinstance(spec, ArraySpec):
        return tf.TensorSpec((*batch_axes, *spec.shape), spec.dtype)
    return {k: tensor_specs(v, batch_axes) for k, v in spec.items()}


def as_features(tree: Tree) -> Tree:
    """Convert features for a model: bits (bool, MultiBinary's int8) to float32; others are unchanged."""
    if isinstance(tree, Mapping):
        return {k: as_features(v) for k, v in tree.items()}
    return tf.cast(tree, tf.float32) if tree.dtype in (tf.bool, tf.int8) else tree


def as_labels(batch: Mapping[str, Tree]) -> tuple[Tree, dict[str, Tree]]:
    """Split a batch into features and labels, with their dtypes, and the recurrent state among the features."""
    labels = dict(batch)
    features = as_features(labels.pop("observation"))
    if isinstance(labels.get("state"), Mapping):  # a recorded value of this name would be a single tensor
        features = {"observation": features, "state": labels.pop("state")}
    for key, value in labels.items():
        if key == "next_observation":
            labels[key] = as_features(value)
        elif key in _FLOAT_LABELS or getattr(value, "dtype", None) == tf.bool:
            labels[key] = tf.cast(value, tf.float32)
    return features, labels
