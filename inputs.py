"""Numbers of a run's ``params`` as inputs of its training program, so that one program serves all their values.

A learning rate that is a constant of the program needs a program of its own for each value, traced and converted anew.
In a ``model_fn``::

    Adam(lambda: inputs.number("learning_rate", params["learning_rate"]))

The built-in algorithms do so with every parameter that may follow a schedule. A number that decides about shapes, or
that Python code reads, cannot be an input.
"""

from .core.trace_inputs import number
from .core.trace_inputs import supply_numbers as supplying

__all__ = ["number", "supplying"]
