"""Agents over HTTP: `axonrl serve`, and what it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..service import rows


def serving(row: str, sizes: Mapping[str, Any]) -> dict[str, float]:
    """Run the function of a row."""
    found: dict[str, float] = getattr(rows, row)(**sizes)
    return found


serving_costs = serving
"""Rows of both topics are functions of one module."""
