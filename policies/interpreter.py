"""A LiteRT program in memory, with a fast way to call its signatures. Loads no TensorFlow."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from ..core.protocols import Array
from ..core.tensorflow_import import stderr_aside
from ..core.trees import leaves
from .executors import Acted, Features, with_parts

_drain: Callable[[Iterable[Any]], None] = deque[Any](maxlen=0).extend
"""Consumes an iterator."""


class LiteProgram:
    """A program that contains its variables.

    Args:
        content: a LiteRT file made by ``conversion.convert``.
        num_threads: number of LiteRT's threads; does not change results. More than one pays only for convolutions.

    Raises:
        ValueError: LiteRT cannot load it.
    """

    def __init__(self, content: bytes, num_threads: int = 1) -> None:
        with stderr_aside():  # LiteRT prints a greeting
            try:
                interpreter = Interpreter(model_content=content, num_threads=num_threads)
                names = interpreter.get_signature_list()
                self.signatures = {name: Signature(interpreter, name) for name in names}
            except (RuntimeError, ValueError) as error:
                raise ValueError(f"LiteRT cannot load this program: {error}") from error


class Signature:
    """One function of a program: arrays in, arrays out, in the order of the function's inputs and outputs.

    LiteRT's own runner resizes and allocates at every call, which takes longer than a small network. This class calls
    the underlying functions directly.

    Args:
        interpreter: interpreter of the program.
        name: name of the signature.
    """

    def __init__(self, interpreter: Interpreter, name: str) -> None:
        runner = interpreter.get_signature_runner(name)
        self._interpreter = interpreter  # kept alive
        inputs, outputs = runner.get_input_details(), runner.get_output_details()
        wrapper = interpreter._interpreter
        self._set, self._invoke, self._get = wrapper.SetTensor, wrapper.Invoke, wrapper.GetTensor
        self._resize, self._allocate = wrapper.ResizeInputTensor, wrapper.AllocateTensors
        self._subgraph = wrapper.GetSubgraphIndexFromSignature(name)
        self._inputs = [inputs[f"x{i}"]["index"] for i in range(len(inputs))]
        self._outputs = [outputs[f"y{i}"]["index"] for i in range(len(outputs))]
        self._subgraphs = itertools.repeat(self._subgraph)
        self.inputs = [_spec(inputs[f"x{i}"]) for i in range(len(inputs))]
        """Shape, with -1 for free axes, and dtype of each."""
        self.outputs = [_spec(outputs[f"y{i}"]) for i in range(len(outputs))]
        self._allocate(self._subgraph)

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """Run the function.

        Args:
            arrays: with the shapes and dtypes of the inputs.

        Returns:
            Copies of the outputs.

        Raises:
            ValueError: wrong number of arrays, shape or dtype.
        """
        self.run(arrays)
        return list(map(self._get, self._outputs, self._subgraphs))

    def run(self, arrays: Sequence[Array]) -> None:
        """Run the function; read the outputs with :meth:`output`."""
        if len(arrays) != len(self._inputs):  # inputs that are not set keep old or undefined values
            raise ValueError(f"the program takes {len(self._inputs)} arrays, got {len(arrays)}")
        # map runs no Python code itself, which is twice as slow right after a training step has filled the caches
        _drain(map(self._set, self._inputs, arrays, self._subgraphs))
        self._invoke(self._subgraph)

    def output(self, i: int) -> Array:
        """Copy output ``i`` of the last run."""
        array: Array = self._get(self._outputs[i], self._subgraph)
        return array

    def leave_out(self, inputs: Collection[int]) -> None:
        """Skip these inputs from now on, as the function does not read them."""
        self._inputs = [index for i, index in enumerate(self._inputs) if i not in inputs]
        self.inputs = [spec for i, spec in enumerate(self.inputs) if i not in inputs]

    def resize(self, shapes: Sequence[Array]) -> None:
        """Set the shapes of the inputs (int32 arrays)."""
        for index, shape in zip(self._inputs, shapes, strict=True):
            self._resize(index, shape, False, self._subgraph)
        self._allocate(self._subgraph)


def _spec(details: Mapping[str, Any]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    shape = details["shape_signature"] if len(details["shape_signature"]) else details["shape"]
    return tuple(int(size) for size in shape), np.dtype(details["dtype"])


class ActSignature:
    """The acting signature, for any number of environments.

    Args:
        signature: takes the arrays of the features, then noise; returns predictions, then the next recurrent state.
        predictions: their names.
        state: names of recurrent state arrays, or None.
        zeros: the noise if none is drawn, an array for each request.
    """

    def __init__(
        self,
        signature: Signature,
        predictions: Sequence[str],
        state: Sequence[str] | None,
        zeros: Sequence[Array] = (),
    ) -> None:
        self._signature = signature
        self._predictions = predictions
        self._composite = "action" not in predictions
        self._state = state
        self._zeros = list(zeros)
        self._size = 1

    def __call__(self, features: Features, draws: Sequence[Array] = ()) -> Acted:
        """Predictions [N, ...] for a batch of observations, and the next recurrent state, if the model has one.

        Raises:
            ValueError: wrong number of arrays, shape or dtype.
        """
        arrays: list[Any] = [features] if type(features) is np.ndarray else leaves(features)
        if self._zeros:
            arrays.extend(draws or self._zeros)
        try:
            size = len(arrays[0])
        except (IndexError, TypeError):
            raise ValueError("features must be an array [N, ...], or a dictionary of such arrays") from None
        if size != self._size:
            self._resize(arrays, size)
        outputs = self._signature(arrays)
        predictions = dict(zip(self._predictions, outputs))  # noqa: B905 (the state follows)
        if self._composite:
            predictions = with_parts(predictions)
        if self._state is None:
            return predictions, None
        return predictions, dict(zip(self._state, outputs[len(self._predictions) :], strict=True))

    def _resize(self, arrays: Sequence[Array], size: int) -> None:
        """Change the number of rows; invalid shapes raise before they reach LiteRT, which would keep them."""
        given, expected = [array.shape for array in arrays], [shape for shape, _ in self._signature.inputs]
        if not size or given != [(size, *shape[1:]) if shape[:1] == (-1,) else shape for shape in expected]:
            raise ValueError(
                f"the program takes arrays {_shapes(expected)}, with one N of at least 1; got {_shapes(given)}"
            )
        self._size = 0  # invalid if the following fails
        self._signature.resize([np.array(shape, np.int32) for shape in given])
        self._size = size


def _shapes(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join(f"[{', '.join('N' if size < 0 else str(size) for size in shape)}]" for shape in shapes)
