"""What a traced graph does when it is run: which ops it reaches, whether it assigns, how much it computes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
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

_BRANCHING = ("Case", "If", "Merge", "StatelessCase", "StatelessIf", "StatelessWhile", "Switch", "While")
_ASSIGNING = ("Assign", "ResourceApply", "ResourceScatter", "ResourceSparseApply", "ResourceStridedSliceAssign")
_DIFFERENT = {
    "FakeQuantWithMinMaxArgs": "rounds to other numbers in LiteRT",
    "FakeQuantWithMinMaxVars": "rounds to other numbers in LiteRT",
    "FakeQuantWithMinMaxVarsPerChannel": "rounds to other numbers in LiteRT",
    "SegmentSum": "takes no ids with gaps in LiteRT (tf.math.unsorted_segment_sum does)",
    "TensorScatterUpdate": "would add up in LiteRT what has the same index",
}
_LEFT_OUT = ("Assert", "CheckNumerics", "CheckNumericsV2")
_QUANTIZED = ("Equal", "Mean")
"""LiteRT takes uint8 for quantized numbers: the mean of uint8 is wrong, and a comparison ends the process."""
_DIES_OF_TWINS = ("Maximum", "Minimum", "RealDiv", "SquaredDifference", "Sub")
"""With a variable and itself as operands these end the process; others of this kind are rewritten."""

_MATMUL = {"MatMul": "transpose_a", "BatchMatMulV2": "adj_x", "BatchMatMulV3": "adj_x"}
_CONVOLUTIONS = ("Conv", "DepthwiseConv")


def assigns(ops: Iterable[str]) -> bool:
    """Does one of these types of op change a variable?"""
    return any(op.startswith(_ASSIGNING) for op in ops)


def branches(ops: Iterable[str]) -> bool:
    """Is one of these types of op a loop or a conditional?"""
    return not frozenset(ops).isdisjoint(_BRANCHING)


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
    called = walk(graph_def.node, outputs, found)
    visited: set[str] = set()
    while called:
        name = called.pop()
        if name in library and name not in visited:
            visited.add(name)
            body = library[name]
            called |= walk(body.node_def, [*body.ret.values(), *body.control_ret.values()], found)
    return found


def read_inputs(graph: Any) -> set[int]:
    """Which inputs of a function's graph a run of it reads, by their place."""
    read = {name.lstrip("^").partition(":")[0] for node in reached_nodes(graph) for name in node.input}
    read |= {tensor.op.name for tensor in graph.outputs}
    return {i for i, tensor in enumerate(graph.inputs) if tensor.op.name in read}


def reached_ops(nodes: Iterable[Any]) -> frozenset[str]:
    """The types of op that nodes have."""
    return frozenset(node.op for node in nodes)


def has_infinity(nodes: Iterable[Any]) -> bool:
    """Is there an infinite number among the constants? LiteRT's converter makes it the largest finite one."""
    return any(bool(np.isinf(constant).any()) for constant in _float_constants(nodes))


def has_largest(nodes: Iterable[Any]) -> bool:
    """Is the largest finite float32 among the constants, or the smallest?"""
    largest = np.finfo(np.float32).max
    return any(bool((np.abs(constant) == largest).any()) for constant in _float_constants(nodes))


def _float_constants(nodes: Iterable[Any]) -> Iterator[Any]:
    for node in nodes:
        if node.op == "Const" and tf.dtypes.as_dtype(node.attr["value"].tensor.dtype).is_floating:
            yield tf.make_ndarray(node.attr["value"].tensor)


def why_unfit(nodes: Iterable[Any]) -> str | None:
    """Why LiteRT would compute something else, though it might run; None if it would not."""
    nodes = list(nodes)
    random = stateful_random_ops(reached_ops(nodes))
    if random:
        return f"it draws from TensorFlow's stateful random op {', '.join(random)}"
    if has_infinity(nodes):
        return "it has an infinite constant, which LiteRT would make a finite one"
    by_name = {node.name: node for node in nodes}
    return next(filter(None, (_why_misread(node, by_name) for node in nodes)), None)


def _why_misread(node: Any, by_name: Mapping[str, Any]) -> str | None:
    if node.op in _LEFT_OUT:
        return f"its op {node.op} would be left out by LiteRT"
    if node.op in _QUANTIZED and node.attr["T"].type == tf.uint8.as_datatype_enum:
        return f"its op {node.op} works on uint8, which LiteRT takes for quantized numbers"
    if node.op in _DIFFERENT:
        return f"its op {node.op} {_DIFFERENT[node.op]}"
    if node.op in _DIES_OF_TWINS and _takes_twins(node, by_name):
        return f"its op {node.op} takes the same variable twice, of which LiteRT dies"
    return None


def _takes_twins(node: Any, by_name: Mapping[str, Any]) -> bool:
    """Are both inputs of a node read from the same variable?"""
    sources = [by_name.get(name.split(":")[0]) for name in node.input if not name.startswith("^")]
    read = [source.input[0] for source in sources if source is not None and source.op == "ReadVariableOp"]
    return len(read) == 2 and read[0] == read[1]


def walk(nodes: Iterable[Any], outputs: list[str], found: list[Any]) -> set[str]:
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

    By ops and shapes alone: convolutions count as large, and so do matrix products of more than ``limit_mflop``
    million operations together (axes of unknown size as 1; of a loop, in one round of it: what counts is how long the
    single ops take).

    Args:
        graph: a function's graph.
        ops: those that it reaches.
        limit_mflop: how much is small.
    """
    convolutions = sorted(op for op in ops if op.startswith(_CONVOLUTIONS))
    if convolutions:
        return f"it has the op {convolutions[0]}"
    total = 0
    for op in _operations(graph):
        if op.type in _MATMUL:
            left, result = op.inputs[0].shape, op.outputs[0].shape
            if result.rank is None or left.rank is None:
                return f"it has a {op.type} of unknown shape"
            inner = left[-2 if op.get_attr(_MATMUL[op.type]) else -1]
            total += 2 * math.prod(size or 1 for size in (*result, inner))
    mflop = total / 1e6
    return f"its matrix products take {mflop:.0f} MFLOP, more than {limit_mflop:.0f}" if mflop > limit_mflop else None


def _operations(graph: Any) -> Iterator[Any]:
    """The operations of a graph, and of the functions that these call: the bodies of loops, branches."""
    for op in graph.get_operations():
        yield op
        for attribute in op.node_def.attr.values():
            for function in (attribute.func, *attribute.list.func):
                if function.name:
                    yield from _operations(graph._get_function(function.name).graph)
