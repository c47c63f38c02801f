"""Inputs of a traced program that a ``model_fn`` asks for: noise, and numbers of the run's ``params``.

The runtime that traces the function supplies them. See :mod:`axonrl.noise` and :mod:`axonrl.inputs`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import numpy as np

from .protocols import Array

if TYPE_CHECKING:
    import tensorflow as tf

_Supplier = TypeVar("_Supplier")


class Supply(Generic[_Supplier]):
    """A kind of input: inside ``with supply(supplier)``, ``current`` is the supplier; outside, None."""

    def __init__(self, name: str) -> None:
        self._current: ContextVar[_Supplier | None] = ContextVar(name, default=None)

    @property
    def current(self) -> _Supplier | None:
        """The function that returns the tensor of an input."""
        return self._current.get()

    @contextlib.contextmanager
    def __call__(self, supplier: _Supplier) -> Iterator[None]:
        """Trace with this supplier. For runtimes, and for tests of a ``model_fn``."""
        token = self._current.set(supplier)
        try:
            yield
        finally:
            self._current.reset(token)


@dataclasses.dataclass(frozen=True)
class Request:
    """One noise input: its distribution and shape."""

    kind: str
    shape: tuple[int, ...]
    low: float = 0.0
    high: float = 1.0

    @property
    def dtype(self) -> type[np.float32] | type[np.int32]:
        """Dtype of the array that ``draw`` returns."""
        return np.int32 if self.kind == "permutation" else np.float32

    def draw(self, rng: np.random.Generator) -> Array:
        """The next value of this input."""
        if self.kind == "normal":
            return rng.standard_normal(self.shape, dtype=np.float32)
        if self.kind == "uniform":
            unit = rng.random(self.shape, dtype=np.float32)
            low, high = np.float32(self.low), np.float32(self.high)
            # Rounding may reach high, which is not part of the interval.
            return np.asarray(np.minimum(low + (high - low) * unit, np.nextafter(high, low)))
        return rng.permutation(self.shape[0]).astype(np.int32)


supply_noise: Final[Supply[Callable[[Request], Any]]] = Supply("axonrl.noise")
supply_numbers: Final[Supply[Callable[[str, float], Any]]] = Supply("axonrl.inputs")


def normal(shape: Sequence[int] | Any) -> tf.Tensor:
    """Standard normal noise, float32.

    Args:
        shape: static, for instance ``features.shape``.

    Raises:
        ValueError: outside a trace, or a shape that is not static.
    """
    return _request(Request("normal", _static(shape)))


def uniform(shape: Sequence[int] | Any, low: float = 0.0, high: float = 1.0) -> tf.Tensor:
    """Uniform noise in [low, high), float32.

    Args:
        shape: static.
        low: lower bound.
        high: upper bound.

    Raises:
        ValueError: outside a trace, a shape that is not static, or bounds that are not finite numbers in
            float32 with ``low < high``.
    """
    if not all(isinstance(bound, (int, float, np.number)) for bound in (low, high)) or not (
        np.float32(low) < np.float32(high) and np.isfinite(np.float32(high) - np.float32(low))
    ):
        raise ValueError(f"axonrl.noise.uniform needs numbers low < high, finite in float32; got {low!r} and {high!r}")
    return _request(Request("uniform", _static(shape), float(low), float(high)))


def permutation(n: int) -> tf.Tensor:
    """A random permutation of 0 .. n - 1, int32 [n].

    Args:
        n: number of elements.

    Raises:
        ValueError: outside a trace, or ``n`` below 1.
    """
    return _request(Request("permutation", _static([n])))


def number(name: str, value: float) -> Any:
    """A number of ``params``, for arithmetic in the graph.

    The program serves all its values of one sign: Python code must not decide anything else by it.

    Args:
        name: its name in the ``params`` given to the run.
        value: its value in ``params``.

    Returns:
        In TRAIN, if ``params`` has this value under this name, an input of the program: a float32 scalar tensor.
        Otherwise the value itself, which becomes a constant: in other modes, for the default of a parameter that was
        not given, or for a computed value.
    """
    supplier = supply_numbers.current
    return value if supplier is None else supplier(name, value)


def _request(request: Request) -> tf.Tensor:
    supplier = supply_noise.current
    if supplier is None:
        raise ValueError(f"axonrl.noise.{request.kind} works only while a model_fn is traced: call it inside model_fn")
    return supplier(request)


def _static(shape: Sequence[int] | Any) -> tuple[int, ...]:
    try:
        dims = tuple(shape)
    except (TypeError, ValueError):  # a number, or a TensorShape of unknown rank
        dims = (None,)
    if not all(isinstance(dim, (int, np.integer)) and not isinstance(dim, bool) and dim >= 1 for dim in dims):
        raise ValueError(f"axonrl.noise needs a static shape of positive integers, got {shape}")
    return tuple(int(dim) for dim in dims)
