"""The matrix products of one update of SAC."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from .settings import Array

OBSERVATION, ACTION = 3, 1
"""Pendulum's numbers."""

Product = tuple[tuple[int, int], tuple[int, int], str]
"""Two matrices and which of them is transposed: the first, ``"t "``, the second, ``" t"``, or none."""


def forward(batch: int, sizes: Sequence[int]) -> list[Product]:
    """[B, in] times [in, out], for each layer."""
    return [((batch, rows), (rows, columns), "  ") for rows, columns in itertools.pairwise(sizes)]


def of_kernels(batch: int, sizes: Sequence[int]) -> list[Product]:
    """Gradients of the kernels: [in, B] times [B, out]."""
    return [((batch, rows), (batch, columns), "t ") for rows, columns in itertools.pairwise(sizes)]


def of_inputs(batch: int, sizes: Sequence[int], first: int = 1) -> list[Product]:
    """Gradients of the inputs of all layers from ``first`` on: [B, out] times [out, in]."""
    layers = list(itertools.pairwise(sizes))[first:]
    return [((batch, columns), (rows, columns), " t") for rows, columns in layers]


def sac_products(hidden: Sequence[int], batch: int) -> list[Product]:
    """The matrix products of one update of SAC: twin critics, then the actor through the critics."""
    actor = [OBSERVATION, *hidden, 2 * ACTION]
    critic = [OBSERVATION + ACTION, *hidden, 1]
    target = forward(batch, actor) + 2 * forward(batch, critic)
    critics = 2 * (forward(batch, critic) + of_kernels(batch, critic) + of_inputs(batch, critic))
    through = forward(batch, actor) + 2 * (forward(batch, critic) + of_inputs(batch, critic, first=0))
    return target + critics + through + of_kernels(batch, actor) + of_inputs(batch, actor)


def matrices_of(hidden: Sequence[int], batch: int) -> Iterator[tuple[Array, Array, Array]]:
    """Both matrices, as the product takes them, and a place for what comes out; float32."""
    rng = np.random.default_rng(0)
    for first, second, transposed in sac_products(hidden, batch):
        a, b = (rng.normal(size=shape).astype(np.float32) for shape in (first, second))
        a, b = (a.T if transposed == "t " else a), (b.T if transposed == " t" else b)
        yield a, b, np.empty((a.shape[0], b.shape[1]), np.float32)
