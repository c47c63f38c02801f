"""Numbers of a run's ``params`` as inputs of its training program, so that one program serves all their values.

If a learning rate is a constant of the program, each value needs its own program, traced and converted again. In a
``model_fn``::

    Adam(lambda: inputs.number("learning_rate", params["learning_rate"]))

The built-in algorithms do this for every parameter that may follow a schedule. A number that determines shapes, or that
Python code reads, cannot be an input.
"""

from .core.trace_inputs import number
from .core.trace_inputs import supply_numbers as supplying

__all__ = ["number", "supplying"]
