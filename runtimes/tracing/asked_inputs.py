"""Inputs of a trace that a ``model_fn`` asks for while it is traced: noise, and numbers of its params."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.core.function.polymorphism.function_type import from_structured_signature
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction

from ...core.trace_inputs import Request, supply_noise, supply_numbers
from . import graphs


class AskedInputs:
    """Supplies placeholders in a trace, and turns them into arguments afterwards, so that nothing is traced twice.

    Args:
        offered: numbers of the params, which may be inputs, by name.
    """

    def __init__(self, offered: Mapping[str, float]) -> None:
        self._offered = offered
        self._draws: list[Any] = []
        self._placeholders: dict[str, Any] = {}
        self.noise: list[Request] = []
        self.numbers: dict[str, float] = {}
        """Numbers among the arguments, in TensorFlow's order."""

    @contextlib.contextmanager
    def supplied(self) -> Iterator[None]:
        """Supply inputs of the function that is traced in this context."""
        graph = tf.compat.v1.get_default_graph()

        def placeholder(dtype: Any, shape: Any) -> Any:
            with graph.as_default(), tf.control_dependencies(None):  # also for a loop's body
                return tf.compat.v1.placeholder(dtype, shape)

        def noise(request: Request) -> Any:
            self.noise.append(request)
            self._draws.append(placeholder(request.dtype, request.shape))
            return self._draws[-1]

        def number(name: str, value: float) -> Any:
            if self._offered.get(name) != value:
                return value
            if name not in self._placeholders:
                self._placeholders[name] = placeholder(tf.float32, ())
            return self._placeholders[name]

        with supply_noise(noise), supply_numbers(number):
            yield

    def append_draws(self, function: Any) -> Any:
        """Append to a traced function's arguments a list of the draws, and a dictionary of the numbers if it reads any.

        Numbers that it does not read are left out of its conversion and its fingerprint.
        """
        graph, read = function.graph, graphs.read_names(function.graph)
        numbers = {name: p for name, p in sorted(self._placeholders.items()) if p.op.name in read}
        self.numbers = {name: self._offered[name] for name in numbers}
        more = [self._draws, numbers] if numbers else [self._draws]
        first = len(graph.inputs) - len(function.captured_inputs)
        graph.inputs[first:first] = tf.nest.flatten(more)
        specs = tf.nest.map_structure(lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype), more)
        graph.structured_input_signature = ((*function.structured_input_signature[0], *specs), {})
        kind = from_structured_signature(
            graph.structured_input_signature, function.structured_outputs, graph.function_captures.capture_types
        )
        return ConcreteFunction.from_func_graph(graph, kind, {})
