"""Names that a model and what calls it share."""

from __future__ import annotations


def prediction_of(what: str, action: str) -> str:
    """Key of a prediction for an action's flat name: ``logits``, or ``logits/<name>`` where it has one."""
    return f"{what}/{action}" if action else what
