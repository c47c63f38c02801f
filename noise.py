"""Randomness inside a ``model_fn``: one more input of the compiled program, drawn from the run's saved generators.

``normal``, ``uniform`` and ``permutation`` return a tensor with new values at every update. So SAC can sample and PPO
can shuffle in a program that is pure, runs under any executor and resumes exactly, which TensorFlow's stateful random
ops cannot.

In PREDICT (noisy networks) the values are new at every action in training, and zero in ``evaluate``, ``predict`` and
exports. ``predictions["action"]``, the greedy action, must not depend on them: return the noisy one as another
prediction, and let the spec's exploration choose it. The shape is static, so all rows of the batch share the values.

A request is one input: inside the body of a ``tf.while_loop`` or ``tf.scan`` every iteration sees the same value.
Request noise for all iterations before the loop, ``normal([iterations, ...])``, and index it inside.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from .contracts import Array

if TYPE_CHECKING:
    import tensorflow as tf

__all__ = ["Request", "normal", "permutation", "supplying", "uniform"]


@dataclasses.dataclass(frozen=True)
class Request:
    """One noise input: what distribution, what shape."""

    kind: str
    shape: tuple[int, ...]
    low: float = 0.0
    high: float = 1.0

    @property
    def dtype(self) -> type[np.float32] | type[np.int32]:
        """Of the array that ``draw`` returns."""
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


Supplier = Callable[[Request], "tf.Tensor"]
_supplier: ContextVar[Supplier | None] = ContextVar("axonrl.noise", default=None)


@contextlib.contextmanager
def supplying(supplier: Supplier) -> Iterator[None]:
    """Inside, noise is what ``supplier`` returns for each request. For runtimes and for tests of a ``model_fn``."""
    token = _supplier.set(supplier)
    try:
        yield
    finally:
        _supplier.reset(token)


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
        n: how many.

    Raises:
        ValueError: outside a trace, or ``n`` below 1.
    """
    return _request(Request("permutation", _static([n])))


def _request(request: Request) -> tf.Tensor:
    supplier = _supplier.get()
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
