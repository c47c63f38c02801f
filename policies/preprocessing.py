"""Preprocessing of observations for a policy, resolved by name on use."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..core.checks import did_you_mean

MAKERS: Final = {"rlgraph": "axonrl.compat.rlgraph.processing.preprocessors:make"}
"""Kind in ``policy.json`` to a function that makes the preprocessing from the other entries."""


def make_preprocessing(described: Mapping[str, Any] | None) -> Callable[[Any], Any] | None:
    """Make the function of an observation or a batch described in ``policy.json``; None without preprocessing.

    Raises:
        ValueError: the kind is unknown.
    """
    if described is None:
        return None
    kind = described["kind"]
    if kind not in MAKERS:
        raise ValueError(f"its preprocessing has the unknown kind {kind!r}{did_you_mean(kind, MAKERS)}")
    module, _, name = MAKERS[kind].partition(":")
    made: Callable[[Any], Any] = getattr(importlib.import_module(module), name)(described)
    return made
