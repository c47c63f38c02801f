"""The process's random generators, from which a ``model_fn`` draws initial values."""

from __future__ import annotations

import contextlib
import random
import sys
import threading
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from ...core.initializers import supply_draws

_GENERATORS = threading.RLock()
"""Held while a trace uses the process's random generators, as two threads may trace Agents."""


def make_generator_of_keras() -> None:
    """Make the process-wide generator of ``keras.random`` now, so that no trace creates it as its own."""
    keras = sys.modules.get("keras")  # importing Keras dominates TensorFlow's load time: skip it if no model uses it
    if keras is not None:
        with _GENERATORS:
            python = random.getstate()
            keras.random.uniform(())
            random.setstate(python)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Within the trace, derive initial values from ``seed``; restores the caller's random generators.

    Keras draws the seeds of initialisers from Python's generator. TensorFlow's ops use the seed of the traced graph,
    which is all that ``tf.random.set_seed`` sets here. Built-in models draw from NumPy (``core/initializers.py``).
    """
    with _GENERATORS:
        python, legacy_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 (saved for the caller)
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002 (a user's model_fn may draw from it)
        tf.random.set_seed(seed)
        try:
            with supply_draws(seed):
                yield
        finally:
            random.setstate(python)
            np.random.set_state(legacy_numpy)  # noqa: NPY002
