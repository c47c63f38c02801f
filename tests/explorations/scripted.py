"""A generator whose numbers are known."""

from typing import Any

import numpy as np


class Scripted:
    """Stands in for a NumPy generator: hands out the given numbers in order, and notes what was asked for."""

    def __init__(self, *drawn: Any) -> None:
        self._drawn = list(drawn)
        self.asked: list[tuple[Any, ...]] = []

    def random(self, shape: Any = None) -> Any:
        self.asked.append(("random", shape))
        return self._drawn.pop(0) if shape is None else np.broadcast_to(np.array(self._drawn.pop(0), float), shape)

    def integers(self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64) -> Any:
        self.asked.append(("integers", low, high, size))
        return np.asarray(self._drawn.pop(0), dtype)

    def standard_normal(self, shape: Any, dtype: Any) -> Any:
        self.asked.append(("standard_normal", shape))
        return np.broadcast_to(np.asarray(self._drawn.pop(0), dtype), shape)
