"""Numbers of a run's ``params`` as inputs of its training program, so that one program serves all their values.

A learning rate that is a constant of the program makes another program of each value, to be traced and converted anew.
In a ``model_fn``::

    Adam(lambda: inputs.number("learning_rate", params["learning_rate"]))

The built-in algorithms do so with every parameter that may follow a schedule. What decides about shapes, or is looked
at in Python, cannot be an input.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeAlias

__all__ = ["number", "supplying"]

Supplier: TypeAlias = "Callable[[str, float], Any]"
_supplier: ContextVar[Supplier | None] = ContextVar("axonrl.inputs", default=None)


@contextlib.contextmanager
def supplying(supplier: Supplier) -> Iterator[None]:
    """Inside, :func:`number` returns what ``supplier`` does. For runtimes."""
    token = _supplier.set(supplier)
    try:
        yield
    finally:
        _supplier.reset(token)


def number(name: str, value: float) -> Any:
    """A number of ``params``, for arithmetic in the graph.

    Args:
        name: its name among the ``params`` that the run was given.
        value: as it stands there.

    Returns:
        In TRAIN, where ``params`` has this value under this name, an input of the program: a float32 scalar tensor.
        Everywhere else the value, which becomes a constant: in other modes, where the value is the default of a
        parameter that was not given, or where it was computed.
    """
    supplier = _supplier.get()
    return value if supplier is None else supplier(name, value)
