"""Specs of values: type, shape and bounds."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import numpy as np

from ...core.protocols import ArraySpec

TYPES: Final = {"bool": np.bool_, "int": np.int32, "float": np.float32}
"""Types of values, and the dtype of each."""


@dataclasses.dataclass(frozen=True)
class ValueSpec:
    """One state or action.

    Args:
        name: its keys in nested dictionaries, joined by ``/``.
        type: ``bool``, ``int`` or ``float``.
        shape: shape without a batch axis.
        num_values: number of values of an int, 0 .. ``num_values - 1``.
        min_value: lower bound of a float; None: unbounded.
        max_value: upper bound of a float; None: unbounded.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    num_values: int | None = None
    min_value: float | None = None
    max_value: float | None = None

    @property
    def dtype(self) -> Any:
        """``np.bool_``, ``np.int32`` or ``np.float32``."""
        return TYPES[self.type]

    @property
    def array(self) -> ArraySpec:
        """Shape and dtype, for memories and programs."""
        return ArraySpec(self.shape, self.dtype)

    @property
    def mask(self) -> ArraySpec:
        """Spec of an int action's mask: bool, one per value."""
        return ArraySpec((*self.shape, self.num_values or 0), np.bool_)

    @property
    def bounded(self) -> bool:
        """Is it a float with bounds?"""
        return self.min_value is not None

    def to_json(self) -> dict[str, Any]:
        """Its specification, as users write it, in JSON types."""
        values: dict[str, Any] = {"type": self.type, "shape": list(self.shape), "num_values": self.num_values}
        values |= {"min_value": self.min_value, "max_value": self.max_value}
        return {key: value for key, value in values.items() if value is not None}
