"""Ops that LiteRT may run: a sweep over difficult numbers has shown that they agree with TensorFlow.

Everything else runs in TensorFlow. ``tests/runtimes/test_listing.py`` runs the sweep, forward and gradients, and fails
if this list has an op or a type for which the sweep does not prove agreement. Ops of ``op_rewrites.REWRITES`` are
listed in their rewritten form. To add an op, first add its row to the sweep.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import tensorflow as tf

from ..tracing import graphs
from . import op_rewrites

_F, _I, _L, _B, _U = "float32", "int32", "int64", "bool", "uint8"

LISTED: Final[Mapping[str, tuple[str, ...]]] = {
    "Abs": (_F, _I),
    "AddN": (_F,),
    "AddV2": (_F, _I, _L),
    "All": (_B,),
    "Any": (_B,),
    "ArgMax": (_F, _I),
    "ArgMin": (_F,),
    "Atan2": (_F,),
    "Atanh": (_F,),
    "AvgPool": (_F,),
    "BatchMatMulV2": (_F,),
    "BiasAdd": (_F,),
    "BiasAddGrad": (_F,),
    "BitwiseXor": (_I,),
    "BroadcastArgs": (_I,),
    "BroadcastGradientArgs": (_I,),
    "BroadcastTo": (_F, _I),
    "Cast": (
        "bool to float32",
        "bool to int32",
        "bool to int64",
        "float32 to bool",
        "float32 to int32",
        "float32 to int64",
        "float64 to float32",
        "int32 to bool",
        "int32 to float32",
        "int32 to int32",
        "int32 to int64",
        "int64 to bool",
        "int64 to float32",
        "int64 to int32",
        "int8 to float32",
        "int8 to int32",
        "uint8 to float32",
        "uint8 to int32",
        "uint8 to int64",
    ),
    "Ceil": (_F,),
    "ConcatOffset": ("",),
    "ConcatV2": (_F, _I, _L, _B, _U),
    "Conv2D": (_F,),
    "Cos": (_F,),
    "Cumsum": (_F, _I),
    "DepthwiseConv2dNative": (_F,),
    "DivNoNan": (_F,),
    "DynamicStitch": (_I,),
    "Einsum": (_F,),
    "Elu": (_F,),
    "EluGrad": (_F,),
    "Equal": (_F, _I, _L, _B),
    "Erf": (_F,),
    "Erfc": (_F,),
    "Exp": (_F,),
    "ExpandDims": (_F, _I, _L, _B, _U),
    "Expm1": (_F,),
    "Fill": (_F, _I, _B),
    "Floor": (_F,),
    "FloorDiv": (_F, _I),
    "FloorMod": (_F, _I, _L),
    "GatherNd": (_F,),
    "GatherV2": (_F, _I, _L, _B, _U),
    "Greater": (_F, _I, _L),
    "GreaterEqual": (_F, _I, _L),
    "InvertPermutation": (_I,),
    "IsFinite": (_F,),
    "IsInf": (_F,),
    "IsNan": (_F,),
    "L2Loss": (_F,),
    "LeakyRelu": (_F,),
    "LeakyReluGrad": (_F,),
    "Less": (_F, _I, _L),
    "LessEqual": (_F, _I, _L),
    "Log": (_F,),
    "Log1p": (_F,),
    "LogSoftmax": (_F,),
    "LogicalAnd": ("",),
    "LogicalNot": ("",),
    "LogicalOr": ("",),
    "MatMul": (_F,),
    "MatrixBandPart": (_F,),
    "MatrixDiagV3": (_F,),
    "Max": (_F, _I),
    "MaxPool": (_F,),
    "Maximum": (_F, _I, _L),
    "Mean": (_F,),
    "Min": (_F, _I),
    "Minimum": (_F, _I, _L),
    "MirrorPad": (_F,),
    "Mul": (_F, _I, _L),
    "MulNoNan": (_F,),
    "Neg": (_F, _I, _L),
    "NotEqual": (_F, _I, _L, _B),
    "OneHot": (_F,),
    "OnesLike": (_F, _I),
    "Pack": (_F, _I, _L, _B),
    "Pad": (_F, _I),
    "PadV2": (_F,),
    "Pow": (_F, _I),
    "Prod": (_F, _I),
    "Range": (_F, _I, _L),
    "RealDiv": (_F,),
    "Reciprocal": (_F,),
    "ReciprocalGrad": (_F,),
    "Relu": (_F,),
    "Relu6": (_F,),
    "Relu6Grad": (_F,),
    "ReluGrad": (_F,),
    "Reshape": (_F, _I, _L, _B, _U),
    "ResourceApplyAdam": (_F,),
    "ReverseV2": (_F, _I),
    "Rint": (_F,),
    "Round": (_F,),
    "Rsqrt": (_F,),
    "RsqrtGrad": (_F,),
    "ScatterNd": (_F,),
    "Select": (_F,),
    "SelectV2": (_F, _I, _L, _B),
    "Selu": (_F,),
    "SeluGrad": (_F,),
    "Shape": (_F,),
    "Sigmoid": (_F,),
    "SigmoidGrad": (_F,),
    "Sign": (_F, _I),
    "Sin": (_F,),
    "Size": (_F, _L),
    "Slice": (_F, _I),
    "Softmax": (_F,),
    "SoftmaxCrossEntropyWithLogits": (_F,),
    "Softplus": (_F,),
    "Softsign": (_F,),
    "SoftsignGrad": (_F,),
    "SparseSoftmaxCrossEntropyWithLogits": (_F,),
    "Split": (_F,),
    "SplitV": (_F, _I),
    "Sqrt": (_F,),
    "SqrtGrad": (_F,),
    "Square": (_F, _I),
    "SquaredDifference": (_F,),
    "Squeeze": (_F, _I, _L),
    "StridedSlice": (_F, _I, _L, _B, _U),
    "StridedSliceGrad": (_F,),
    "Sub": (_F, _I, _L),
    "Sum": (_F, _I),
    "Tanh": (_F,),
    "TanhGrad": (_F,),
    "TensorScatterAdd": (_F,),
    "Tile": (_F, _I),
    "TopKV2": (_F, _I),
    "Transpose": (_F, _I, _U),
    "Unpack": (_F, _I),
    "UnsortedSegmentSum": (_F,),
    "Where": (_B,),
    "Xdivy": (_F,),
    "Xlog1py": (_F,),
    "Xlogy": (_F,),
    "ZerosLike": (_F, _I),
}
"""Op to the types for which it is proven; "" for an op without a type."""

DOMAINS: Final[Mapping[str, tuple[float, float]]] = {
    "Exp": (-float("inf"), 88.0),
    "Expm1": (-float("inf"), 88.0),
    "Log": (-float("inf"), 8e37),
    "Log1p": (-float("inf"), 8e37),
    "Rsqrt": (-float("inf"), 8e37),
    "Sqrt": (-float("inf"), 8e37),
    "Xlog1py": (-float("inf"), 8e37),
    "Xlogy": (-float("inf"), 8e37),
    "Cos": (-1e4, 1e4),
    "Sin": (-1e4, 1e4),
    "Sigmoid": (-float("inf"), 1e20),
    "Softplus": (-float("inf"), 1e20),
}
"""Op to the range of finite numbers for which it is proven, if not all; NaN and infinities are always included."""

STRUCTURE: Final = frozenset(
    {
        *("AssignAddVariableOp", "AssignSubVariableOp", "AssignVariableOp", "ReadVariableOp"),
        *("Const", "Identity", "IdentityN", "NoOp", "Placeholder", "PreventGradient", "StopGradient"),
        *("If", "PartitionedCall", "StatefulPartitionedCall", "StatelessIf", "StatelessWhile", "While"),
    }
)
"""Ops that do not compute: proven for every type for which the ops around them are."""

_ONLY_REWRITTEN: Final = frozenset({"ResourceApplyAdam", "StridedSliceGrad"})
"""Proven if ``op_rewrites`` supports the case: for other cases LiteRT has no kernel, or a different one."""
_ASSIGNS: Final = frozenset({"AssignAddVariableOp", "AssignSubVariableOp"})
_DIES_OF_TWINS: Final = frozenset({"Maximum", "Minimum", "RealDiv", "SquaredDifference", "Sub", *_ASSIGNS})
"""Ops that crash the process if both operands are the same variable; similar ops are rewritten."""


def find_unproven(graph: Any) -> str | None:
    """Find something in a function's graph that is not proven to agree in LiteRT; None if all of it is."""
    bodies = graphs.reached_bodies(graph)
    if graphs.has_infinity(node for body in bodies for node in body):
        return "an infinite constant"
    for body in bodies:
        nodes = {node.name: node for node in body}
        for node in body:
            found = _unproven_op(node, nodes)
            if found is not None:
                return found
    return None


def type_of(node: Any) -> str:
    """Type under which an op of a graph is listed: its operands' type; for a cast, both types."""
    if node.op == "Cast":
        return f"{_type(node, 'SrcT')} to {_type(node, 'DstT')}"
    if node.op in ("All", "Any"):
        return _B
    return next((_type(node, key) for key in ("T", "dtype", "Tparams", "Tidx") if _has_type(node, key)), "")


def as_markdown() -> str:
    """The list as a table for ``docs/executors.md``."""
    by_types: dict[tuple[str, ...], list[str]] = {}
    for op, types in LISTED.items():
        by_types.setdefault(tuple(types), []).append(op)
    lines = ["| types | ops |", "|---|---|"]
    lines += [
        f"| {', '.join(filter(None, types)) or '-'} | {', '.join(sorted(ops))} |" for types, ops in by_types.items()
    ]
    lines += ["", "| op | proven for finite numbers |", "|---|---|"]
    for op, (low, high) in sorted(DOMAINS.items()):
        lines.append(f"| {op} | {f'up to {high:g}' if low == -float('inf') else f'{low:g} to {high:g}'} |")
    return "\n".join(lines)


def _unproven_op(node: Any, nodes: Mapping[str, Any]) -> str | None:
    if node.op in _DIES_OF_TWINS and _takes_twins(node, nodes):
        return f"op {node.op} of a variable and itself"
    if node.op in STRUCTURE or op_rewrites.replacement(node, nodes) is not None:
        return None
    of = type_of(node)
    if of in LISTED.get(node.op, ()) and node.op not in _ONLY_REWRITTEN:
        return None
    return f"op {node.op}" + (f" of {of}" if of and node.op in LISTED else "")


def _takes_twins(node: Any, nodes: Mapping[str, Any]) -> bool:
    """Are both inputs of a node read from the same variable, or does it add a variable's own value to it?"""
    names = [name.split(":")[0] for name in node.input if not name.startswith("^")]
    sources = [nodes.get(name) for name in names]
    read = [source.input[0] for source in sources if source is not None and source.op == "ReadVariableOp"]
    if node.op in _ASSIGNS:
        return [name.split(":")[0] for name in read] == names[:1]
    return len(read) == 2 and read[0] == read[1]


def _has_type(node: Any, key: str) -> bool:
    return key in node.attr and bool(node.attr[key].type)


def _type(node: Any, key: str) -> str:
    name: str = tf.dtypes.as_dtype(node.attr[key].type).name
    return name
