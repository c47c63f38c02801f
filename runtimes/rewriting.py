"""Gradients that LiteRT has no kernel for, as arithmetic that it has one for.

The saved graph is rewritten, not the user's code: so it does not matter whether a gradient was written with
``tf.gradients`` or with a ``GradientTape``. Each op in the table becomes a call of a function traced from plain
TensorFlow, which the converter inlines.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from ..contracts import Array

Tensor: TypeAlias = Any
Node: TypeAlias = Any
"""A NodeDef."""
Constants: TypeAlias = "Callable[[str], Array | None]"
"""The value of a node's input, if it is a constant."""

_LEAKY_RELU_ALPHA = 0.2
"""TensorFlow's default; a saved graph leaves defaults out."""


class Replacement(NamedTuple):
    """``function`` of those of a node's inputs that are ``kept``, in place of the node."""

    function: Callable[..., Tensor]
    kept: Sequence[str]


def relu_grad(gradient: Tensor, feature: Tensor) -> Tensor:
    """The gradient of relu; ``feature`` is its input or its output."""
    return tf.where(feature > 0, gradient, tf.zeros_like(gradient))


def relu6_grad(gradient: Tensor, feature: Tensor) -> Tensor:
    """The gradient of relu6; ``feature`` is its input or its output."""
    return tf.where((feature > 0) & (feature < 6), gradient, tf.zeros_like(gradient))


def elu_grad(gradient: Tensor, output: Tensor) -> Tensor:
    """The gradient of elu, from its output."""
    return tf.where(output < 0, gradient * (output + 1), gradient)


def leaky_relu_grad(gradient: Tensor, feature: Tensor, alpha: float) -> Tensor:
    """The gradient of leaky relu, from its input."""
    return tf.where(feature > 0, gradient, gradient * alpha)


def softsign_grad(gradient: Tensor, feature: Tensor) -> Tensor:
    """The gradient of softsign, from its input."""
    return gradient / tf.square(1 + tf.abs(feature))


def strided_slice_grad(gradient: Tensor, shape: Sequence[int], kept: Sequence[slice]) -> Tensor:
    """The gradient of a slice with unit strides: ``gradient`` in its place, zeros around it.

    Args:
        gradient: of the slice, in any shape with its number of elements.
        shape: of what was sliced.
        kept: what the slice took, for each axis of ``shape``.
    """
    gradient = tf.reshape(gradient, [part.stop - part.start for part in kept])
    return tf.pad(gradient, [(part.start, size - part.stop) for part, size in zip(kept, shape, strict=True)])


def erf(x: Tensor) -> Tensor:
    """The error function, as x P(x^2) / Q(x^2) on -4 .. 4; to 5e-7.

    Source of the coefficients: the rational approximation that Eigen and XLA use for float32.
    """
    x = tf.clip_by_value(x, -4.0, 4.0)
    p = (2.77068142e-08, -2.10102402e-06, -5.69250639e-05, -7.34990630e-04, -2.95459980e-03, -1.60960333e-02)
    q = (-1.45660718e-05, -2.13374055e-04, -1.68282697e-03, -7.37332916e-03, -1.42647390e-02)
    square = tf.square(x)
    return x * _horner((-2.72614225e-10, *p), square) / _horner(q, square)


def erfc(x: Tensor) -> Tensor:
    """1 - erf(x); to 5e-7, which is what gelu needs."""
    return 1 - erf(x)


def atanh(x: Tensor) -> Tensor:
    """The inverse hyperbolic tangent."""
    return 0.5 * (tf.math.log1p(x) - tf.math.log1p(-x))


def _horner(coefficients: Sequence[float], x: Tensor) -> Tensor:
    return functools.reduce(lambda total, coefficient: total * x + coefficient, coefficients, tf.zeros_like(x))


# -- which op becomes what --------------------------------------------------------------------------------------------


def _pointwise(function: Callable[..., Tensor]) -> Callable[[Node, Constants], Replacement]:
    return lambda node, constants: Replacement(function, [name for name in node.input if not name.startswith("^")])


def _leaky_relu(node: Node, constants: Constants) -> Replacement:
    alpha = node.attr["alpha"].f if "alpha" in node.attr else _LEAKY_RELU_ALPHA
    return _pointwise(functools.partial(leaky_relu_grad, alpha=alpha))(node, constants)


def _strided_slice(node: Node, constants: Constants) -> Replacement | None:
    *where, gradient = [name for name in node.input if not name.startswith("^")]
    values = [constants(name) for name in where]
    if any(value is None for value in values):
        return None
    shape, begin, end, strides = (np.asarray(value).tolist() for value in values)
    masks = {name: node.attr[f"{name}_mask"].i for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    kept = _kept(shape, begin, end, strides, masks)
    if kept is None:
        return None
    return Replacement(functools.partial(strided_slice_grad, shape=shape, kept=kept), [gradient])


def _kept(
    shape: list[int], begin: list[int], end: list[int], strides: list[int], masks: dict[str, int]
) -> list[slice] | None:
    """What a strided slice takes of each axis; None where its strides are not 1.

    The masks have a bit for each item of the slice's specification, as NumPy writes it: ``x[..., 0, 1:, None]``.
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


REWRITES: dict[str, Callable[[Node, Constants], Replacement | None]] = {
    "Atanh": _pointwise(atanh),
    "EluGrad": _pointwise(elu_grad),
    "Erf": _pointwise(erf),
    "Erfc": _pointwise(erfc),
    "LeakyReluGrad": _leaky_relu,
    "Relu6Grad": _pointwise(relu6_grad),
    "ReluGrad": _pointwise(relu_grad),
    "SoftsignGrad": _pointwise(softsign_grad),
    "StridedSliceGrad": _strided_slice,
}
"""All have one output. A float64 one is left alone: what LiteRT lacks there is more than gradients."""


def rewrite(library: Any) -> None:
    """Replace what is in the table in every function of a FunctionDefLibrary, in place."""
    for function in list(library.function):
        nodes = {node.name: node for node in function.node_def}
        renamed: set[str] = set()
        for node in function.node_def:
            make = REWRITES.get(node.op)
            if make is None or node.attr["T"].type != tf.float32.as_datatype_enum:
                continue
            replacement = make(node, functools.partial(_constant, nodes))
            if replacement is not None:
                name = f"__axonrl_{node.op}_{len(library.function)}"
                library.function.append(_traced(replacement, name))
                _call(node, name, replacement.kept)
                renamed.add(node.name)
        for node in function.node_def:
            node.input[:] = [_output_of(name, renamed) for name in node.input]
        for key, name in function.ret.items():
            function.ret[key] = _output_of(name, renamed)


def _traced(replacement: Replacement, name: str) -> Any:
    """The FunctionDef of a replacement."""
    specs = [tf.TensorSpec(None, tf.float32)] * len(replacement.kept)
    # Of a partial, TensorFlow would look at its own arguments too.
    function = tf.function(lambda *inputs: replacement.function(*inputs), autograph=False)  # noqa: PLW0108
    definition = function.get_concrete_function(*specs).function_def
    definition.signature.name = name
    return definition


def _call(node: Node, name: str, kept: Sequence[str]) -> None:
    """Turn a node into a call of the function ``name``."""
    control = [source for source in node.input if source.startswith("^")]
    node.op = "PartitionedCall"
    node.input[:] = [*kept, *control]
    node.attr.clear()
    node.attr["f"].func.name = name
    node.attr["Tin"].list.type.extend([tf.float32.as_datatype_enum] * len(kept))
    node.attr["Tout"].list.type.append(tf.float32.as_datatype_enum)


def _output_of(name: str, renamed: set[str]) -> str:
    """What the first output of a node is called (``node:backprops:0``) once it is a call."""
    node = _node_of(name)
    return f"{node}:output:0" if node in renamed and ":" in name else name


def _node_of(tensor: str) -> str:
    return tensor.partition(":")[0]


def _constant(nodes: dict[str, Node], name: str) -> Array | None:
    node = nodes.get(_node_of(name))
    while node is not None and node.op == "Identity":
        node = nodes.get(_node_of(node.input[0]))
    return tf.make_ndarray(node.attr["value"].tensor) if node is not None and node.op == "Const" else None
