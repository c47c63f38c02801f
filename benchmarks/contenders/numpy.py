"""The machine's sgemm, as NumPy's OpenBLAS has it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..products import matrices_of
from ..timing import microseconds


def products(hidden: Sequence[int], batch: int, seconds: float) -> dict[str, float]:
    """Microseconds of all matrix products of one update of SAC, one after the other, and nothing else."""
    ready = list(matrices_of(hidden, batch))

    def multiply() -> None:
        for a, b, out in ready:
            np.matmul(a, b, out=out)

    return {"one update": microseconds(multiply, seconds)}
