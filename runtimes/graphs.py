"""What a traced graph does when it is run: which ops it reaches, whether it assigns, how much it computes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

_STATEFUL_RANDOM = frozenset(
    {
        "AllCandidateSampler",
        "FixedUnigramCandidateSampler",
        "LearnedUnigramCandidateSampler",
        "LogUniformCandidateSampler",
        "Multinomial",
        "ParameterizedTruncatedNormal",
        "RandomGamma",
        "RandomPoisson",
        "RandomPoissonV2",
        "RandomShuffle",
        "RandomStandardNormal",
        "RandomUniform",
        "RandomUniformInt",
        "ThreadUnsafeUnigramCandidateSampler",
        "TruncatedNormal",
        "UniformCandidateSampler",
    }
)
"""They hide a generator of their own, which no checkpoint can hold; tf.random.Generator keeps its in a variable."""

_ASSIGNING = ("Assign", "ResourceApply", "ResourceScatter", "ResourceSparseApply", "ResourceStridedSliceAssign")
_MATMUL = {"MatMul": "transpose_a", "BatchMatMulV2": "adj_x", "BatchMatMulV3": "adj_x"}
_PARALLEL = ("Conv", "DepthwiseConv", "While", "StatelessWhile")


def assigns(ops: Iterable[str]) -> bool:
    """Does one of these types of op change a variable?"""
    return any(op.startswith(_ASSIGNING) for op in ops)


def stateful_random_ops(ops: Iterable[str]) -> tuple[str, ...]:
    """Those types of op that draw from a generator which no checkpoint can hold."""
    return tuple(sorted(_STATEFUL_RANDOM.intersection(ops)))


def reached_nodes(graph: Any) -> list[Any]:
    """The nodes (NodeDef) that a run of a function's graph reaches, in loops, branches and inner functions too.

    What is in the graph and not reached does not count: the initial value of a variable that was handed over, say.
    """
    graph_def = graph.as_graph_def()
    library = {function.signature.name: function for function in graph_def.library.function}
    found: list[Any] = []
    outputs = [tensor.op.name for tensor in graph.outputs] + [op.name for op in graph.control_outputs]
    called = _walk(graph_def.node, outputs, found)
    visited: set[str] = set()
    while called:
        name = called.pop()
        if name in library and name not in visited:
            visited.add(name)
            body = library[name]
            called |= _walk(body.node_def, [*body.ret.values(), *body.control_ret.values()], found)
    return found


def reached_ops(nodes: Iterable[Any]) -> frozenset[str]:
    """The types of op that nodes have."""
    return frozenset(node.op for node in nodes)


def has_infinity(nodes: Iterable[Any]) -> bool:
    """Is there an infinite number among the constants? LiteRT's converter makes it the largest finite one."""
    constants = (node.attr["value"].tensor for node in nodes if node.op == "Const")
    return any(bool(np.isinf(tf.make_ndarray(t)).any()) for t in constants if tf.dtypes.as_dtype(t.dtype).is_floating)


def _walk(nodes: Iterable[Any], outputs: list[str], found: list[Any]) -> set[str]:
    """Add the nodes that lead to ``outputs`` to ``found``; returns the names of the functions that these call."""
    by_name = {node.name: node for node in nodes}
    todo, called = list(outputs), set[str]()
    while todo:
        node = by_name.pop(todo.pop().lstrip("^").split(":")[0], None)
        if node is None:  # visited, or an argument of the function
            continue
        found.append(node)
        todo.extend(node.input)
        for attribute in node.attr.values():
            called.update(function.name for function in (attribute.func, *attribute.list.func))
    return called


def why_large(graph: Any, ops: Iterable[str], limit_mflop: float = 100.0) -> str | None:
    """Why the arithmetic is what a run costs, rather than the overhead of its call; None if it is the call.

    By ops and shapes alone: convolutions and loops count as large, and so do matrix products of more than
    ``limit_mflop`` million operations together (axes of unknown size as 1).

    Args:
        graph: a function's graph.
        ops: those that it reaches.
        limit_mflop: how much is small.
    """
    parallel = sorted(op for op in ops if op.startswith(_PARALLEL))
    if parallel:
        return f"it has the op {parallel[0]}"
    total = 0
    for op in graph.get_operations():
        if op.type in _MATMUL:
            left, result = op.inputs[0].shape, op.outputs[0].shape
            if result.rank is None or left.rank is None:
                return f"it has a {op.type} of unknown shape"
            inner = left[-2 if op.get_attr(_MATMUL[op.type]) else -1]
            total += 2 * math.prod(size or 1 for size in (*result, inner))
    mflop = total / 1e6
    return f"its matrix products take {mflop:.0f} MFLOP, more than {limit_mflop:.0f}" if mflop > limit_mflop else None
