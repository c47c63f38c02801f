"""What is done to observations before a policy sees them, by those who know it: resolved by name when it is used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..core.checks import did_you_mean

MAKERS: Final = {"rlgraph": "axonrl.compat.rlgraph.processing.exported:make"}
"""By the kind that ``policy.json`` names: a function from what it says besides to one of observations."""


def make_preprocessing(described: Mapping[str, Any] | None) -> Callable[[Any], Any] | None:
    """From what ``policy.json`` says to a function of one observation or a batch; None if nothing is done.

    Raises:
        ValueError: nobody here knows this kind.
    """
    if described is None:
        return None
    kind = described["kind"]
    if kind not in MAKERS:
        raise ValueError(f"its preprocessing is of the unknown kind {kind!r}{did_you_mean(kind, MAKERS)}")
    module, _, name = MAKERS[kind].partition(":")
    made: Callable[[Any], Any] = getattr(importlib.import_module(module), name)(described)
    return made
