"""Differences and sums of normalisation statistics, for several processes that learn them together.

Moments combine by Chan, Golub and LeVeque 1983, equation 1.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.protocols import State
from .statistics import STATISTICS


def learnt(before: State, after: State) -> State:
    """Moments of the rows added between two states of the same wrappers."""
    return {key: _of_each(_without, after[key], before[key]) for key in after}


def merged(total: State, part: State) -> State:
    """A state with the rows of :func:`learnt` added."""
    return {key: {**state, **_of_each(_with, state, part[key])} for key, state in total.items()}


def _of_each(combine: Any, one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return {name: combine(one[name], other[name]) for name in STATISTICS if name in one}


def _without(all_rows: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    """Moments of the rows that are not in ``first``."""
    count = all_rows["count"] - first["count"]
    if not count:
        return {"mean": np.zeros_like(all_rows["mean"]), "var": np.zeros_like(all_rows["var"]), "count": 0}
    share = first["count"] / count
    mean = all_rows["mean"] + share * (all_rows["mean"] - first["mean"])
    delta = mean - first["mean"]
    squares = all_rows["var"] * all_rows["count"] - first["var"] * first["count"]
    squares = squares - delta * delta * (first["count"] * count / all_rows["count"])
    return {"mean": mean, "var": np.maximum(squares / count, 0.0), "count": count}


def _with(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Moments of the rows of both."""
    count = one["count"] + other["count"]
    if not other["count"]:
        return dict(one)
    delta = other["mean"] - one["mean"]
    squares = one["var"] * one["count"] + other["var"] * other["count"]
    squares = squares + delta * delta * (one["count"] * other["count"] / count)
    return {"mean": one["mean"] + delta * (other["count"] / count), "var": squares / count, "count": count}
