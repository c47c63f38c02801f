"""Draws from what a model predicts, on the host."""

from __future__ import annotations

import numpy as np

from ...core.protocols import Array


def drawn_from(values: Array, rng: np.random.Generator) -> Array:
    """Indices [...] drawn from the softmax of values [..., K]; -inf is never drawn."""
    sums = np.exp(values - values.max(-1, keepdims=True)).cumsum(-1)
    drawn = rng.random(sums.shape[:-1]) * sums[..., -1]
    found: Array = (sums > drawn[..., None]).argmax(-1)
    return found


def random_choice(mask: Array, rng: np.random.Generator) -> Array:
    """One of the values that a mask [..., K] allows, all alike likely."""
    sums = mask.cumsum(-1)
    drawn = rng.random(sums.shape[:-1]) * sums[..., -1]
    found: Array = (sums > drawn[..., None]).argmax(-1)
    return found
