"""LiteRT programs that only act, with constant weights if that is faster, otherwise with variables."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from typing import Any, Final

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import (  # TensorFlow's own converter uses it, too
    convert_variables_to_constants_v2,
)

from ..core.protocols import Array
from ..policies import weight_patches
from ..policies.weight_patches import FrozenProgram, Placement
from .executor_choice import Cache, convert_actor
from .litert import op_allowlist
from .litert.conversion import ConversionError, convert
from .litert.fingerprint import fingerprint
from .tracing.graphs import reached_nodes
from .tracing.program import Predict, Program
from .trial import Trial

logger = logging.getLogger("axonrl")

_FORMAT: Final = "frozen 3"
"""Version of the cached content. Increase it when the same function freezes to another program."""
_LENGTH: Final = 8
"""Bytes of the length field at the start of the cached content."""


def pays(predict: Predict) -> bool:
    """Do constant weights save more time than a new interpreter costs?

    They do for large programs, especially convolutions, whose fast LiteRT kernels require constants.
    """
    return predict.large is not None and op_allowlist.find_unproven(predict.function.graph) is None


def acting_program(program: Program, cache: Cache, *, noise: bool = False) -> FrozenProgram | bytes:
    """PREDICT only, as a LiteRT program.

    Args:
        program: the traced ``model_fn``.
        cache: for converted programs.
        noise: does the program take the noise used in training? If so, weights are variables.

    Returns:
        A frozen program if that is faster and possible; otherwise the content of a file whose weights are set by the
        signature ``set``.

    Raises:
        ValueError: LiteRT cannot run it (names the op).
    """
    if not (noise and program.predict.noise):
        program = program.without_noise()
    if not program.predict.noise and pays(program.predict):
        try:
            return freeze(program, cache)
        except ConversionError as error:
            logger.warning("%s is exported with its weights as variables, which is slower: %s", program.name, error)
    return convert_actor(program, cache)


def freeze(program: Program, cache: Cache) -> FrozenProgram:
    """Convert PREDICT to a LiteRT program with arbitrary constant weights.

    PREDICT is converted twice, each time with other random weights. The first weights are located in the first file;
    after they are overwritten with the second ones, it must equal the second file byte for byte.

    Args:
        program: the traced ``model_fn``.
        cache: for converted programs.

    Raises:
        ConversionError: it does not convert, or its weights cannot be overwritten.
    """
    program = program.without_noise()
    variables = program.store.predict_variables()
    strange = [f"{name} {v.dtype.name}" for name, v in variables.items() if not v.dtype.is_floating]
    if strange:
        raise ConversionError(f"weights that are not floats cannot be frozen: {', '.join(strange)}")
    functions = {"act": program.predict.function}
    key = fingerprint(functions, list(variables.values()), _FORMAT, tf.__version__, version("ai-edge-litert"))
    return _unpack(cache("frozen-actor", key, lambda: _pack(_freeze(program))))


def _freeze(program: Program) -> FrozenProgram:
    variables = program.store.predict_variables()
    first, second = (_random_weights(variables, seed) for seed in (0, 1))
    content = _convert_with_weights(program.predict.function, variables, first)
    frozen = FrozenProgram(content, tuple(_places(content, first, _factors(program.predict.function))))
    if frozen.with_weights(second) != _convert_with_weights(program.predict.function, variables, second):
        found = {place.name for place in frozen.placements}
        lost = [name for name in variables if name not in found]
        raise ConversionError(
            f"the converter computed with the weights, so they cannot be overwritten ({', '.join(lost)})"
            if lost
            else "the converter makes another program for other weights"
        )
    now = {name: variable.numpy() for name, variable in variables.items()}
    trial = Trial(program, None)
    trial.compare(frozen.with_weights(now), trial.expected())
    return frozen


def _random_weights(variables: Mapping[str, tf.Variable], seed: int) -> dict[str, Array]:
    """Random positive weights (a weight may be a variance), all different, as equal ones would share a place."""
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(0.5, 1.5, v.shape).astype(v.dtype.as_numpy_dtype) for name, v in variables.items()}


def with_weights(
    function: Any, variables: Mapping[str, tf.Variable], weights: Mapping[str, Array]
) -> Callable[..., list[tf.Tensor]]:
    """Wrap a traced function so that a new trace uses other weights; its variables are unchanged.

    Args:
        function: the traced function.
        variables: those to replace, by name.
        weights: their replacements.

    Returns:
        A function of the inputs, as arguments or in any structure, that returns the outputs in order.
    """
    others = {id(variable.handle): tf.Variable(weights[name]) for name, variable in variables.items()}
    captured = [others[id(c)].handle if id(c) in others else c for c in function.captured_inputs]
    dtypes = [tensor.dtype for tensor in function.outputs]

    def with_others(*arguments: Any) -> list[tf.Tensor]:
        for variable in others.values():
            tf.compat.v1.get_default_graph().watch_variable(variable)
        inputs = tf.nest.flatten(arguments)
        outputs: list[tf.Tensor] = tf.raw_ops.StatefulPartitionedCall(
            args=[*inputs, *captured], Tout=dtypes, f=function
        )
        for output, tensor in zip(outputs, function.outputs, strict=True):
            output.set_shape(tensor.shape)
        return list(outputs)

    return with_others


def _convert_with_weights(function: Any, variables: Mapping[str, tf.Variable], weights: Mapping[str, Array]) -> bytes:
    """Convert a function with these weights as constants."""
    (arguments, _) = function.structured_input_signature
    with_others = with_weights(function, variables, weights)
    traced = tf.function(with_others, autograph=False).get_concrete_function(*arguments)
    constant = convert_variables_to_constants_v2(traced)
    flat = tf.function(lambda *arguments: constant(*tf.nest.flatten(arguments)), autograph=False)
    return convert({"act": flat.get_concrete_function(*arguments)}, [])


def _factors(function: Any) -> list[float]:
    """Possible multipliers of weights: the numbers in the graph, and their reciprocals."""
    constants = (tf.make_ndarray(n.attr["value"].tensor) for n in reached_nodes(function.graph) if n.op == "Const")
    numbers = {float(array) for array in constants if array.dtype.kind == "f" and array.size == 1}
    return [1.0, *sorted({factor for x in numbers if x for factor in (x, 1 / x)} - {1.0})]


def _places(content: bytes, weights: Mapping[str, Array], factors: list[float]) -> Iterator[Placement]:
    """Find the weights in a file; a weight that it does not depend on has no place."""
    for name, weight in weights.items():
        for factor in factors if weight.size else ():
            places: dict[int, Placement] = {}  # equivalent orders of axes share a place
            for permutation in itertools.permutations(range(weight.ndim)):
                sought = Placement(name, 0, permutation, factor).encode(weight)
                offset = content.find(sought)
                while offset >= 0:
                    places.setdefault(offset, Placement(name, offset, permutation, factor))
                    offset = content.find(sought, offset + 1)
            yield from places.values()
            if places:
                break


def _pack(frozen: FrozenProgram) -> bytes:
    header = json.dumps(weight_patches.to_json(frozen.placements)).encode()
    return len(header).to_bytes(_LENGTH, "little") + header + frozen.content


def _unpack(packed: bytes) -> FrozenProgram:
    end = _LENGTH + int.from_bytes(packed[:_LENGTH], "little")
    return FrozenProgram(packed[end:], weight_patches.from_json(json.loads(packed[_LENGTH:end])))
