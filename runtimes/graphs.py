"""What a traced graph does when it is run: which ops it reaches, whether it assigns, how much it computes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

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


def reached_ops(graph: Any) -> frozenset[str]:
    """The types of op that a run of a function's graph reaches, in loops, branches and inner functions too.

    What is in the graph and not reached does not count: the initial value of a variable that was handed over, say.
    """
    graph_def = graph.as_graph_def()
    library = {function.signature.name: function for function in graph_def.library.function}
    found: set[str] = set()
    outputs = [tensor.op.name for tensor in graph.outputs] + [op.name for op in graph.control_outputs]
    called = _walk(graph_def.node, outputs, found)
    visited: set[str] = set()
    while called:
        name = called.pop()
        if name in library and name not in visited:
            visited.add(name)
            body = library[name]
            called |= _walk(body.node_def, [*body.ret.values(), *body.control_ret.values()], found)
    return frozenset(found)


def _walk(nodes: Iterable[Any], outputs: list[str], found: set[str]) -> set[str]:
    """Add the ops that lead to ``outputs`` to ``found``; returns the names of the functions that these call."""
    by_name = {node.name: node for node in nodes}
    todo, called = list(outputs), set[str]()
    while todo:
        node = by_name.pop(todo.pop().lstrip("^").split(":")[0], None)
        if node is None:  # visited, or an argument of the function
            continue
        found.add(node.op)
        todo.extend(node.input)
        for attribute in node.attr.values():
            called.update(function.name for function in (attribute.func, *attribute.list.func))
    return called


def is_small(graph: Any, ops: Iterable[str], limit_mflop: float = 100.0) -> bool:
    """Is the call's overhead what a run costs, rather than its arithmetic? By ops and shapes alone.

    Convolutions and loops count as large, and so do matrix products of more than ``limit_mflop`` million operations
    together (axes of unknown size as 1).
    """
    if any(op.startswith(_PARALLEL) for op in ops):
        return False
    total = 0
    for op in graph.get_operations():
        if op.type in _MATMUL:
            left, result = op.inputs[0].shape, op.outputs[0].shape
            if result.rank is None or left.rank is None:
                return False
            inner = left[-2 if op.get_attr(_MATMUL[op.type]) else -1]
            total += 2 * math.prod(size or 1 for size in (*result, inner))
    return total <= limit_mflop * 1e6
