"""PREDICT as an ONNX model, from raw observations to actions of the environment."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from ..core.protocols import Array, ArraySpec
from ..core.tensorflow_import import stderr_aside
from ..explorations.description import space_of
from ..explorations.policies import parts_of
from ..policies.description import Normalization, Part
from ..policies.executors import action_name, action_names
from .frozen import with_weights
from .tracing.program import Predict, Program

OPSET: Final = 18
"""Opset of 2022: tf2onnx writes no newer ops, and all runtimes since then support it."""
INPUT: Final = "observation"
BATCH: Final = "batch"
"""Name of the free axis."""
_OWN: Final = ("", "ai.onnx.ml")


def input_name(part: str) -> str:
    """Name of the model's input for a part of the observation; a single array is the part ``""``."""
    return f"{INPUT}/{part}" if part else INPUT


def input_specs(parts: Sequence[Part]) -> dict[str, ArraySpec]:
    """Specs of one row of each model input, by the name of the part, in order.

    If the policy normalises, inputs are the observations before normalisation, as float32.
    """
    return {part.name: part.spec for part in sorted(parts, key=lambda part: part.name)}


def onnx_model(
    program: Program,
    weights: Mapping[str, Array],
    observation: tuple[Sequence[Part], Mapping[str, Normalization]],
    action_space: Mapping[str, Any],
) -> bytes:
    """Convert PREDICT with these weights, preceded by normalisation and followed by the conversion of actions.

    Args:
        program: the traced ``model_fn``; noise is zero.
        weights: PREDICT's variables.
        observation: the arrays of an observation, and their preprocessing.
        action_space: attributes of the action space.

    Returns:
        The content of the file. Its inputs are ``observation`` (or ``observation/<part>``) and ``state/<name>``; its
        outputs are the predictions by name, with ``action`` in the dtype and the bounds of the space, and
        ``next_state/<name>``.

    Raises:
        ValueError: ONNX lacks an op; names it.
        ImportError: tf2onnx is not installed.
    """
    program = program.without_noise()
    predict, (parts, normalization) = program.predict, observation
    specs = {input_name(name): spec for name, spec in input_specs(parts).items()}
    specs |= {f"state/{name}": spec for name, spec in sorted((predict.state or {}).items())}
    call = with_weights(predict.function, program.store.predict_variables(), weights)
    finish = [_finishing(name, action_space) for name in sorted(predict.outputs)]

    def act(*raw: tf.Tensor) -> dict[str, tf.Tensor]:
        count, names = len(parts), sorted(part.name for part in parts)
        arrays = [_normalize(tensor, normalization.get(name)) for name, tensor in zip(names, raw[:count], strict=True)]
        results = call(*arrays, *raw[count:])
        named = dict(zip(_output_names(predict), results, strict=True))
        return {
            name: tf.identity(end(named[name])) for name, end in zip(sorted(predict.outputs), finish, strict=True)
        } | {name: tf.identity(named[name]) for name in named if name not in predict.outputs}

    signature = [
        tf.TensorSpec((None, *spec.shape), spec.dtype, name=f"input_{place}")
        for place, spec in enumerate(specs.values())
    ]
    return _convert(act, signature, list(specs))


def _output_names(predict: Predict) -> list[str]:
    """Names of the outputs, in the order of the traced function."""
    return [*sorted(predict.outputs), *(f"next_state/{name}" for name in sorted(predict.state or {}))]


def _normalize(tensor: tf.Tensor, normalization: Normalization | None) -> tf.Tensor:
    """Apply a :class:`Normalization` with the same dtypes and order of operations as NumPy."""
    if normalization is None:
        return tensor
    mean, scale = normalization.mean, normalization.divisor
    dtype = np.result_type(np.float32, mean, scale)
    normalized = (tf.cast(tensor, dtype) - mean.astype(dtype)) / scale.astype(dtype)
    if normalization.clip is not None:
        limit = dtype.type(normalization.clip)
        normalized = tf.minimum(tf.maximum(normalized, -limit), limit)
    return tf.cast(normalized, tf.float32)


def _finishing(name: str, action_space: Mapping[str, Any]) -> Callable[[tf.Tensor], tf.Tensor]:
    """Postprocessing of a prediction: the action gets the dtype and the bounds of its space."""
    if not action_names([name]):
        return lambda tensor: tensor
    parts = parts_of(space_of(action_space))
    space = next(vars(part) for leaf, part in parts if name == action_name(leaf))
    dtype = np.dtype(space.get("dtype", np.int8))
    if space["type"] != "Box":
        return lambda tensor: tf.cast(tensor, dtype)
    return lambda tensor: tf.minimum(tf.maximum(tf.cast(tensor, dtype), space["low"]), space["high"])


def _convert(act: Callable[..., Any], signature: Sequence[tf.TensorSpec], names: Sequence[str]) -> bytes:
    onnx, tf2onnx = importlib.import_module("onnx"), importlib.import_module("tf2onnx")
    before = logging.getLogger("tf2onnx").level
    logging.getLogger("tf2onnx").setLevel(logging.CRITICAL)  # unsupported ops are reported below
    try:
        with stderr_aside():
            function = tf.function(act, autograph=False)
            model, _ = tf2onnx.convert.from_function(function, input_signature=signature, opset=OPSET)
    finally:
        logging.getLogger("tf2onnx").setLevel(before)
    unknown = sorted(
        {
            node.op_type
            for node in _nodes(model.graph)
            if node.domain not in _OWN or not onnx.defs.has(node.op_type, OPSET, node.domain)
        }
    )
    if unknown:
        raise ValueError(f"ONNX lacks the ops: {', '.join(unknown)}")
    _rename(model.graph, {f"input_{place}": name for place, name in enumerate(names)})
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = BATCH
    model.producer_name, model.doc_string, model.graph.name = "axonrl", "", "policy"
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _graphs(graph: Any) -> Iterator[Any]:
    """A graph, and those inside its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node:
                    yield from _graphs(inner)


def _nodes(graph: Any) -> Iterator[Any]:
    for one in _graphs(graph):
        yield from one.node


def _rename(graph: Any, names: Mapping[str, str]) -> None:
    for value in graph.input:
        value.name = names[value.name]
    for node in _nodes(graph):
        for place, name in enumerate(node.input):
            node.input[place] = names.get(name, name)
