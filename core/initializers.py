"""Initial weights of built-in models: laws of Keras' initialisers, drawn by NumPy from the seed of a trace.

A traced program holds the values, and its description the draws, so that a process without TensorFlow can compute the
same initial weights for any seed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final

import numpy as np

from .protocols import Array

_SCALED: Final = {
    "glorot_normal": (1.0, "average", "normal"),
    "glorot_uniform": (1.0, "average", "uniform"),
    "he_normal": (2.0, "inputs", "normal"),
    "he_uniform": (2.0, "inputs", "uniform"),
    "lecun_normal": (1.0, "inputs", "normal"),
    "lecun_uniform": (1.0, "inputs", "uniform"),
    "variance_scaling": (1.0, "inputs", "normal"),
}
"""Variance times the number of inputs, or the average of inputs and outputs; and the distribution."""
_SIZE: Final = 0.05
"""Standard deviation or bound of the laws that do not depend on the shape."""
_STD_OF_TRUNCATED: Final = 0.87962566103423978
"""Standard deviation of a standard normal variable, truncated to [-2, 2]."""
LAWS: Final = (*sorted({*_SCALED, "orthogonal", "random_normal", "random_uniform", "truncated_normal"}), "zeros")
"""Names of the laws, those of Keras' initialisers with their default arguments."""
UNIFORM: Final = "uniform"
"""A law for layers other than Keras': uniform in [-1, 1)."""


def model_seed(run_seed: int) -> int:
    """Seed of the variables' initial values."""
    return int(np.random.SeedSequence(run_seed, spawn_key=(3,)).generate_state(1)[0]) >> 1


@dataclasses.dataclass(frozen=True)
class Draw:
    """The initial value of one variable, as a function of the seed.

    Args:
        law: one of :data:`LAWS`, or :data:`UNIFORM`.
        factor: multiplies the values.
        shape: of the variable.
        number: which draw of the seed it is, from 0.
        each: whether rows of the first axis are layers, drawn independently.
    """

    law: str
    factor: float
    shape: tuple[int, ...]
    number: int
    each: bool = False

    def __call__(self, seed: int) -> Array:
        """The value, float32."""
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(self.number,))))
        parts = [self.shape[1:]] * self.shape[0] if self.each else [self.shape]
        drawn = [(self.factor * _draw(self.law, shape, rng)).astype(np.float32) for shape in parts]
        return np.stack(drawn) if self.each else drawn[0]

    def to_json(self) -> dict[str, Any]:
        """Encode the draw."""
        return {**dataclasses.asdict(self), "shape": list(self.shape)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Draw:
        """Decode the draw."""
        return cls(**{**value, "shape": tuple(value["shape"])})


class Draws:
    """The draws of one call of a ``model_fn``, in order.

    Args:
        seed: of the values.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.made: list[Draw] = []
        self.wanted: Callable[[tuple[int, ...]], bool] = lambda shape: True
        """Is the value of a draw of this shape needed, or only the shape?"""


_current: Final[ContextVar[Draws | None]] = ContextVar("axonrl.initializers", default=None)


@contextlib.contextmanager
def supply_draws(seed: int) -> Iterator[Draws]:
    """Within the context, initial values follow from this seed, and are recorded."""
    token = _current.set(draws := Draws(seed))
    try:
        yield draws
    finally:
        _current.reset(token)


def current_draws() -> Draws | None:
    """The draws of the trace in progress; None outside of one."""
    return _current.get()


@dataclasses.dataclass(frozen=True)
class Initializer:
    """An initialiser for Keras' layers and variables: see :class:`Draw`.

    Outside a trace, the seed is drawn from Python's generator, as Keras does.
    """

    law: str
    factor: float = 1.0
    each: bool = False

    def __call__(self, shape: Sequence[int], dtype: Any = None) -> Array:
        """Draw a new value, float32 or of a dtype by its name."""
        draws = _current.get()
        seed, number = (random.getrandbits(62), 0) if draws is None else (draws.seed, len(draws.made))
        draw = Draw(self.law, float(self.factor), tuple(int(size) for size in shape), number, self.each)
        if draws is not None:
            draws.made.append(draw)
        value = draw(seed) if draws is None or draws.wanted(draw.shape) else np.zeros(draw.shape, np.float32)
        return value if dtype is None else value.astype(getattr(dtype, "as_numpy_dtype", dtype))


def _draw(law: str, shape: Sequence[int], rng: np.random.Generator) -> Array:
    """Values of a law, float64."""
    if law in _PLAIN:
        return _PLAIN[law](rng, shape)
    scale, per, distribution = _SCALED[law]
    inputs, outputs = _fans(shape)
    variance = scale / max(1.0, inputs if per == "inputs" else (inputs + outputs) / 2)
    if distribution == "uniform":
        bound = math.sqrt(3 * variance)
        return rng.uniform(-bound, bound, shape)
    return math.sqrt(variance) / _STD_OF_TRUNCATED * _truncated_normal(rng, shape)


def _fans(shape: Sequence[int]) -> tuple[int, int]:
    """Inputs and outputs of one unit of a kernel [..., inputs, outputs]; the other axes are a convolution's window."""
    if len(shape) < 2:
        size = math.prod(shape)
        return size, size
    window = math.prod(shape[:-2])
    return window * shape[-2], window * shape[-1]


def _truncated_normal(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    """Standard normal values within [-2, 2]; others are drawn again."""
    values = rng.standard_normal(math.prod(shape))
    while (beyond := np.flatnonzero(np.abs(values) > 2)).size:
        values[beyond] = rng.standard_normal(beyond.size)
    return values.reshape(shape)


def _orthogonal(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    """An orthogonal matrix [product of the other sizes, last size], uniformly distributed (Saxe et al. 2014).

    Source: https://arxiv.org/abs/1312.6120.
    """
    if len(shape) < 2:
        raise ValueError(f"an orthogonal initial value needs at least two axes, got shape {tuple(shape)}")
    rows, columns = math.prod(shape[:-1]), shape[-1]
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.where(np.diag(r) < 0, -1.0, 1.0)
    return np.reshape(q.T if rows < columns else q, shape)


_PLAIN: Final[Mapping[str, Callable[[np.random.Generator, Sequence[int]], Array]]] = {
    "zeros": lambda rng, shape: np.zeros(shape),
    UNIFORM: lambda rng, shape: rng.uniform(-1, 1, shape),
    "orthogonal": _orthogonal,
    "random_uniform": lambda rng, shape: rng.uniform(-_SIZE, _SIZE, shape),
    "random_normal": lambda rng, shape: _SIZE * rng.standard_normal(shape),
    "truncated_normal": lambda rng, shape: _SIZE * _truncated_normal(rng, shape),
}
"""Laws that are not scaled by the shape."""
