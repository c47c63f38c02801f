"""TRAIN's function without numbers of params that it does not read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import tensorflow as tf


class OnlyRead:
    """A concrete function with fewer inputs, for calls, conversion or comparison.

    Makes the converted program and its fingerprint independent of ignored numbers.

    Args:
        function: a concrete function whose last argument is a dictionary of float32 scalars.
        numbers: their names.
        read: names of those it reads; if none, the last argument is omitted.
    """

    def __init__(self, function: Any, numbers: Sequence[str], read: Collection[str]) -> None:
        self._function, self._unread = function, [name for name in numbers if name not in read]
        self._has_read = bool(read)
        self.graph, self.captured_inputs = function.graph, function.captured_inputs
        *arguments, given = function.structured_input_signature[0]
        last = [{name: given[name] for name in numbers if name in read}] if read else []
        self.structured_input_signature: tuple[tuple[Any, ...], dict[str, Any]] = ((*arguments, *last), {})
        first = len(function.inputs) - len(function.captured_inputs) - len(numbers)
        unread = {first + place for place, name in enumerate(numbers) if name not in read}
        self.inputs = [tensor for place, tensor in enumerate(function.inputs) if place not in unread]
        """Its tensors in the graph, followed by captured ones."""

    def __call__(self, *inputs: Any) -> Any:
        """Call the function."""
        *arguments, given = inputs if self._has_read else (*inputs, {})
        return self._function(*arguments, {**dict.fromkeys(self._unread, tf.zeros(())), **given})
