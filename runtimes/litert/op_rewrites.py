"""Rewrites ops that LiteRT lacks or computes wrongly as arithmetic it computes correctly.

The saved graph is rewritten, not the user's code, so it does not matter whether a gradient was written with
``tf.gradients`` or a ``GradientTape``. Each op in the table becomes a call of a function traced from plain
TensorFlow, which the converter inlines.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from ...core.protocols import Array
from . import arithmetic

Tensor: TypeAlias = Any
Node: TypeAlias = Any
"""A NodeDef."""
Nodes: TypeAlias = Mapping[str, Node]
"""Nodes of a function, by name."""

_LEAKY_RELU_ALPHA = 0.2
"""TensorFlow's default; saved graphs omit defaults."""
_LARGEST_EXPONENT = 64
"""Limit of exponents: for larger ones, repeated products would lose digits."""
_PRODUCTS = ("MatMul", "BatchMatMulV2", "BatchMatMulV3")
_CALLS = ("PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "While", "StatelessWhile")


class Replacement(NamedTuple):
    """Replaces a node by ``function`` of its inputs ``kept``; the first ``handles`` of them are of variables."""

    function: Callable[..., Tensor]
    kept: Sequence[str]
    handles: int = 0


def _pointwise(function: Callable[..., Tensor]) -> Callable[[Node, Nodes], Replacement]:
    return lambda node, nodes: Replacement(function, _inputs(node))


def _leaky_relu(node: Node, nodes: Nodes) -> Replacement:
    alpha = node.attr["alpha"].f if "alpha" in node.attr else _LEAKY_RELU_ALPHA
    return Replacement(functools.partial(arithmetic.leaky_relu_grad, alpha=alpha), _inputs(node))


def _adam(node: Node, nodes: Nodes) -> Replacement | None:
    has_nesterov = "use_nesterov" in node.attr and node.attr["use_nesterov"].b
    return None if has_nesterov else Replacement(arithmetic.apply_adam, _inputs(node), handles=3)


def _quotient(node: Node, nodes: Nodes) -> Replacement | None:
    x, y = _inputs(node)
    source = _source(nodes, y)
    return Replacement(arithmetic.divided_by_root, [x, y]) if source is not None and source.op == "Sqrt" else None


def _power(node: Node, nodes: Nodes) -> Replacement | None:
    x, y = _inputs(node)
    exponent = _constant(nodes, y)
    if exponent is None or exponent.shape:  # not a scalar: the result's shape may differ from that of x
        return None
    if exponent == -0.5:
        return Replacement(arithmetic.rsqrt, [x])
    if 0 < abs(exponent) <= _LARGEST_EXPONENT and float(exponent).is_integer():
        return Replacement(functools.partial(arithmetic.integer_power, exponent=int(exponent)), [x])
    return None


def _difference(node: Node, nodes: Nodes) -> Replacement | None:
    x, y = _inputs(node)
    return Replacement(arithmetic.difference_to_itself, [x]) if x == y else None


def _of_reads(function: Callable[..., Tensor]) -> Callable[[Node, Nodes], Replacement | None]:
    def make(node: Node, nodes: Nodes) -> Replacement | None:
        sources = [_source(nodes, name, ("Identity", "Reshape")) for name in _inputs(node)]
        reads = [source.input[0] for source in sources if source is not None and source.op == "ReadVariableOp"]
        return Replacement(function, _inputs(node)) if len(reads) == 2 and len(set(reads)) == 1 else None

    return make


def _of_product(function: Callable[..., Tensor]) -> Callable[[Node, Nodes], Replacement | None]:
    return lambda node, nodes: Replacement(function, _inputs(node)) if _may_be_product(node.input[0], nodes) else None


def _may_be_product(name: str, nodes: Nodes) -> bool:
    """May this be a product with a non-constant matrix, once neutral ops (such as + 0) are removed?"""
    while True:
        node = nodes.get(_node_of(name))
        if node is None or node.op in _CALLS:
            return True
        varying = [name for name in _inputs(node) if _constant(nodes, name) is None]
        if node.op in _PRODUCTS:
            return _inputs(node)[1] in varying
        if len(varying) != 1:
            return False
        name = varying[0]


def _product(node: Node, nodes: Nodes) -> Replacement | None:
    x, y = _inputs(node)
    # Reading an omitted attribute would insert an empty one.
    transposed = [name for name in ("transpose_a", "transpose_b") if name in node.attr and node.attr[name].b]
    if transposed != ["transpose_b"] or _constant(nodes, y) is not None:
        return None
    return Replacement(arithmetic.product_with_transposed, [x, y])


def _strided_slice(node: Node, nodes: Nodes) -> Replacement | None:
    *where, gradient = _inputs(node)
    values = [_constant(nodes, name) for name in where]
    if any(value is None for value in values):
        return None
    shape, begin, end, strides = (np.asarray(value).tolist() for value in values)
    names = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    masks = {name: node.attr[f"{name}_mask"].i if f"{name}_mask" in node.attr else 0 for name in names}
    kept = _axis_slices(shape, begin, end, strides, masks)
    if kept is None:
        return None
    return Replacement(functools.partial(arithmetic.strided_slice_grad, shape=shape, kept=kept), [gradient])


def _axis_slices(
    shape: list[int], begin: list[int], end: list[int], strides: list[int], masks: dict[str, int]
) -> list[slice] | None:
    """Slices along each axis of a strided slice; None unless all strides are 1.

    The masks have a bit for each item of the specification, as written in NumPy: ``x[..., 0, 1:, None]``.
    """
    has = {name: lambda i, mask=mask: bool(mask >> i & 1) for name, mask in masks.items()}
    items = range(len(begin))
    taking = sum(not has["new_axis"](i) and not has["ellipsis"](i) for i in items)
    kept: list[slice] = []
    for i in items:
        if has["ellipsis"](i):
            kept += [slice(0, size) for size in shape[len(kept) : len(shape) - (taking - len(kept))]]
        elif not has["new_axis"](i):
            size = shape[len(kept)]
            if has["shrink_axis"](i):
                first = begin[i] % size
                kept.append(slice(first, first + 1))
                continue
            if strides[i] != 1:
                return None
            start = None if has["begin"](i) else begin[i]
            stop = None if has["end"](i) else end[i]
            first, last, _ = slice(start, stop).indices(size)
            kept.append(slice(first, max(first, last)))
    return kept + [slice(0, size) for size in shape[len(kept) :]]


REWRITES: dict[str, Callable[[Node, Nodes], Replacement | None]] = {
    "AddV2": _of_reads(arithmetic.sum_of_reads),
    "Atanh": _pointwise(arithmetic.atanh),
    "EluGrad": _pointwise(arithmetic.elu_grad),
    "Erf": _pointwise(arithmetic.erf),
    "Erfc": _pointwise(arithmetic.erfc),
    "Exp": _pointwise(arithmetic.exp),
    "Expm1": _pointwise(arithmetic.expm1),
    "FloorDiv": _pointwise(arithmetic.floor_div),
    "IsInf": _pointwise(arithmetic.is_inf),
    "L2Loss": _pointwise(arithmetic.l2_loss),
    "LeakyReluGrad": _leaky_relu,
    "Log": _pointwise(arithmetic.log),
    "Log1p": _pointwise(arithmetic.log1p),
    "MatMul": _product,
    "Maximum": _pointwise(arithmetic.maximum),
    "Minimum": _pointwise(arithmetic.minimum),
    "Mul": _of_reads(arithmetic.product_of_reads),
    "Pow": _power,
    "RealDiv": _quotient,
    "ReciprocalGrad": _pointwise(arithmetic.reciprocal_grad),
    "Relu": _of_product(arithmetic.relu),
    "Relu6": _of_product(arithmetic.relu6),
    "Relu6Grad": _pointwise(arithmetic.relu6_grad),
    "ReluGrad": _pointwise(arithmetic.relu_grad),
    "ResourceApplyAdam": _adam,
    "Rsqrt": _pointwise(arithmetic.rsqrt),
    "RsqrtGrad": _pointwise(arithmetic.rsqrt_grad),
    "Selu": _pointwise(arithmetic.selu),
    "SeluGrad": _pointwise(arithmetic.selu_grad),
    "Softplus": _pointwise(arithmetic.softplus),
    "SoftsignGrad": _pointwise(arithmetic.softsign_grad),
    "SqrtGrad": _pointwise(arithmetic.sqrt_grad),
    "StridedSliceGrad": _strided_slice,
    "Sub": _difference,
    "Xlog1py": _pointwise(arithmetic.xlog1py),
    "Xlogy": _pointwise(arithmetic.xlogy),
}
"""Replacements by op; all have one output or none. float64 is not rewritten, as LiteRT lacks not only gradients for
it."""


def replacement(node: Node, nodes: Nodes) -> Replacement | None:
    """Find the replacement of a node; None to keep it."""
    make = REWRITES.get(node.op)
    return make(node, nodes) if make is not None and _is_float32(node) else None


def rewrite(library: Any) -> None:
    """Replace nodes according to the table in every function of a FunctionDefLibrary, in place."""
    traced: dict[str, Any] = {}
    for function in list(library.function):
        nodes = {node.name: node for node in function.node_def}
        renamed: set[str] = set()
        for node in function.node_def:
            found = replacement(node, nodes)
            if found is not None:
                key = repr(found.function)  # the key of a partial names its arguments
                if key not in traced:
                    traced[key] = _trace(found, f"__axonrl_{node.op}_{len(traced)}")
                _call(node, traced[key], found)
                renamed.add(node.name)
        for node in function.node_def:
            node.input[:] = [_output_of(name, renamed) for name in node.input]
        for key, name in function.ret.items():
            function.ret[key] = _output_of(name, renamed)
    library.function.extend(traced.values())


def _trace(made: Replacement, name: str) -> Any:
    """Trace a replacement to a FunctionDef."""
    specs = [tf.TensorSpec(None, dtype) for dtype in _dtypes(made)]
    # For a partial, TensorFlow would also inspect the arguments that it has bound.
    function = tf.function(lambda *inputs: made.function(*inputs), autograph=False)  # noqa: PLW0108
    definition = function.get_concrete_function(*specs).function_def
    definition.signature.name = name
    return definition


def _call(node: Node, definition: Any, made: Replacement) -> None:
    """Turn a node into a call of a function."""
    control = [source for source in node.input if source.startswith("^")]
    node.op = "StatefulPartitionedCall" if made.handles else "PartitionedCall"
    node.input[:] = [*made.kept, *control]
    node.attr.clear()
    node.attr["f"].func.name = definition.signature.name
    node.attr["Tin"].list.type.extend(dtype.as_datatype_enum for dtype in _dtypes(made))
    node.attr["Tout"].list.type.extend(output.type for output in definition.signature.output_arg)


def _dtypes(made: Replacement) -> list[tf.DType]:
    return [tf.resource] * made.handles + [tf.float32] * (len(made.kept) - made.handles)


def _is_float32(node: Node) -> bool:
    if "T" in node.attr:
        return bool(node.attr["T"].type == tf.float32.as_datatype_enum)
    return bool(node.op == "LeakyReluGrad")  # the only op with a default type, which saved graphs omit


def _inputs(node: Node) -> list[str]:
    return [name for name in node.input if not name.startswith("^")]


def _output_of(name: str, renamed: set[str]) -> str:
    """Name of a node's first output (``node:backprops:0``) after it became a call."""
    node = _node_of(name)
    return f"{node}:output:0" if node in renamed and ":" in name else name


def _node_of(tensor: str) -> str:
    return tensor.partition(":")[0]


def _source(nodes: Nodes, name: str, past: Sequence[str] = ("Identity",)) -> Node | None:
    """The node that an input comes from, skipping ops that pass it on."""
    node = nodes.get(_node_of(name))
    while node is not None and node.op in past:
        node = nodes.get(_node_of(node.input[0]))
    return node


def _constant(nodes: Nodes, name: str) -> Array | None:
    """The value of an input that is a constant, or the difference of two, as in the gradient of a power."""
    node = _source(nodes, name)
    if node is None or node.op not in ("Const", "Sub"):
        return None
    if node.op == "Const":
        value: Array = tf.make_ndarray(node.attr["value"].tensor)
        return value
    x, y = (_constant(nodes, operand) for operand in _inputs(node))
    return None if x is None or y is None else np.asarray(x - y)
