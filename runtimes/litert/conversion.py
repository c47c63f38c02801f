"""Converts traced functions to one LiteRT program that contains their variables."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2
from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.python.convert import convert_saved_model

from ...core.tensorflow_import import stderr_aside, use_tensorflow
from ...policies import reasons
from ..tracing import graphs
from . import op_rewrites
from .loops import with_own_handles

Function = Any
"""A ConcreteFunction."""

_OP = re.compile(r"'tf\.(\w+)' (?:op|that was explicitly marked illegal)")
_LISTS = "Lowering tensor list ops is failed"
_FLEX = re.compile(r"^\s*(?:Flex|TF Select) ops: (.+)$", re.MULTILINE)


class ConversionError(Exception):
    """LiteRT cannot run a program; the message names the ops or quotes the converter.

    Args:
        message: the problem.
        code: from :mod:`axonrl.policies.reasons`: not converted, or converted wrongly.
    """

    def __init__(self, message: str, code: str = reasons.NOT_CONVERTED) -> None:
        super().__init__(message)
        self.code = code


def convert(functions: Mapping[str, Function], variables: Sequence[tf.Variable]) -> bytes:
    """Convert functions that share variables.

    The program has a signature for each function and, if there are variables, two more: ``set``, which must be
    called before all others, and ``get``. Inputs of a signature are named ``x0, x1, ...`` and its outputs
    ``y0, y1, ...``, in the order in which TensorFlow flattens the function's.

    Args:
        functions: concrete functions by name.
        variables: all variables in use, in the order of ``get`` and ``set``.

    Returns:
        The content of a LiteRT file.

    Raises:
        ConversionError: the converter failed, or made a different program.
    """
    use_tensorflow()
    model = _saved_model(functions, variables)
    (graph,) = model.meta_graphs
    op_rewrites.rewrite(graph.graph_def.library)
    with tempfile.TemporaryDirectory() as folder, stderr_aside() as written:
        Path(folder, "saved_model.pb").write_bytes(model.SerializeToString())
        try:
            content = _convert_folder(folder, list(graph.signature_def))
        except Exception as error:  # MLIR errors have several types
            raise ConversionError(_reason(f"{error}\n{written()}")) from error
    content = with_own_handles(content)
    nodes = [node for function in functions.values() for node in graphs.reached_nodes(function.graph)]
    if _has_largest(content) and not graphs.has_largest(nodes):
        raise ConversionError("an infinite constant, which LiteRT makes finite")
    return content


def _saved_model(functions: Mapping[str, Function], variables: Sequence[tf.Variable]) -> Any:
    """Describe functions that share variables as a SavedModel, without values, which the converter does not need.

    ``tf.saved_model.save`` would trace each signature twice, and write a checkpoint.
    """
    model = saved_model_pb2.SavedModel(saved_model_schema_version=1)
    meta = model.meta_graphs.add()
    meta.meta_info_def.tags.append(tf.saved_model.SERVING)
    with tf.Graph().as_default() as graph:
        # The converter looks for a variable's node by the name of the variable.
        handles = {
            id(variable.handle): tf.raw_ops.VarHandleOp(
                dtype=variable.dtype, shape=variable.shape, shared_name=f"v{i}", name=f"v{i}"
            )
            for i, variable in enumerate(variables)
        }
        for name, function in functions.items():
            inputs = _inputs(tf.nest.flatten(function.structured_input_signature))
            captured = [
                handles[id(c)] if id(c) in handles else tf.constant(c.numpy()) for c in function.captured_inputs
            ]
            dtypes = [tensor.dtype for tensor in function.outputs]
            outputs = tf.raw_ops.StatefulPartitionedCall(args=[*inputs, *captured], Tout=dtypes, f=function)
            meta.signature_def[name].CopyFrom(_signature(inputs, outputs))
        if variables:
            pairs, inputs = [*zip(handles.values(), variables, strict=True)], _inputs(variables)
            values = [tf.raw_ops.ReadVariableOp(resource=handle, dtype=v.dtype) for handle, v in pairs]
            assigned = [
                tf.raw_ops.AssignVariableOp(resource=h, value=x) for (h, _), x in zip(pairs, inputs, strict=True)
            ]
            with tf.control_dependencies(assigned):
                meta.signature_def["set"].CopyFrom(_signature(inputs, [tf.constant(len(variables))]))  # it needs one
            meta.signature_def["get"].CopyFrom(_signature([], values))
    meta.graph_def.CopyFrom(graph.as_graph_def(add_shapes=True))
    return model


def _inputs(specs: Sequence[Any]) -> list[Any]:
    return [tf.compat.v1.placeholder(spec.dtype, spec.shape) for spec in specs]


def _signature(inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    """Name the inputs and outputs of a signature."""
    signature = meta_graph_pb2.SignatureDef(method_name="call")
    outputs = [tf.identity(tensor) for tensor in outputs]  # both names of a tensor that is two outputs, or an input
    for letter, tensors, named in (("x", inputs, signature.inputs), ("y", outputs, signature.outputs)):
        for i, tensor in enumerate(tensors):
            named[f"{letter}{i}"].name = tensor.name
            named[f"{letter}{i}"].dtype = tensor.dtype.as_datatype_enum
            named[f"{letter}{i}"].tensor_shape.CopyFrom(tensor.shape.as_proto())
    return signature


def _convert_folder(folder: str, signatures: list[str]) -> bytes:
    """Convert a SavedModel like TFLiteConverter, without its metadata on the conversion.

    TFLiteConverter loads the folder three times, collects garbage and parses the result three times: half of its time.
    """
    content: bytes = convert_saved_model(
        saved_model_dir=folder,
        saved_model_version=1,
        saved_model_tags={tf.saved_model.SERVING},
        saved_model_exported_names=signatures,
        target_ops={tf.lite.OpsSet.TFLITE_BUILTINS},
        enable_tflite_resource_variables=True,
        enable_composite_direct_lowering=True,
    )
    return content


def _has_largest(content: bytes) -> bool:
    """Is the largest finite float32 among a file's constants? The converter replaces infinity by it."""
    model = schema.Model.GetRootAs(content)
    graphs_of_file = [model.Subgraphs(i) for i in range(model.SubgraphsLength())]
    tensors = [graph.Tensors(i) for graph in graphs_of_file for i in range(graph.TensorsLength())]
    buffers = {tensor.Buffer() for tensor in tensors if tensor.Type() == schema.TensorType.FLOAT32}
    found = [model.Buffers(i).DataAsNumpy() for i in buffers if model.Buffers(i).DataLength()]
    return any(bool((np.abs(data.view(np.float32)) == np.finfo(np.float32).max).any()) for data in found)


def _reason(message: str) -> str:
    """Extract the ops named in the converter's long message, or else its first line."""
    if _LISTS in message:
        return "LiteRT lacks tensor lists, which the gradient of a loop needs (unroll the loop)"
    ops = {name for listed in _FLEX.findall(message) for name in re.findall(r"\w+", listed)} or set(
        _OP.findall(message)
    )
    if ops:
        return f"LiteRT has no kernel for {', '.join(sorted(ops))}"
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return f"converter: {lines[0] if lines else 'nothing'}"[:300]
