"""Analysis of traced graphs: reached ops, assignments to variables, cost."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.ops import gradient_registry  # the public interface cannot remove entries

from ...core.errors import Frame, place_in

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
"""Ops with hidden generators, which no checkpoint can hold; tf.random.Generator keeps its state in a variable."""

_BRANCHING = ("Case", "If", "Merge", "StatelessCase", "StatelessIf", "StatelessWhile", "Switch", "While")
_ASSIGNING = ("Assign", "ResourceApply", "ResourceScatter", "ResourceSparseApply", "ResourceStridedSliceAssign")
_MATMUL = {"MatMul": "transpose_a", "BatchMatMulV2": "adj_x", "BatchMatMulV3": "adj_x"}
_CONVOLUTIONS = ("Conv", "DepthwiseConv")


def assigns(ops: Iterable[str]) -> bool:
    """Does one of these op types change a variable?"""
    return any(op.startswith(_ASSIGNING) for op in ops)


def branches(ops: Iterable[str]) -> bool:
    """Is one of these op types a loop or a conditional?"""
    return not frozenset(ops).isdisjoint(_BRANCHING)


def stateful_random_ops(ops: Iterable[str]) -> tuple[str, ...]:
    """Op types that draw from a generator which no checkpoint can hold."""
    return tuple(sorted(_STATEFUL_RANDOM.intersection(ops)))


def reached_nodes(graph: Any) -> list[Any]:
    """The nodes (NodeDef) that a run of a function's graph reaches, including loops, branches and inner functions.

    Unreached nodes do not count, such as the initial value of an existing variable.
    """
    return [node for body in reached_bodies(graph) for node in body]


def reached_bodies(graph: Any) -> list[list[Any]]:
    """The nodes of :func:`reached_nodes`, one list per function, as names repeat between functions."""
    graph_def = graph.as_graph_def()
    library = {function.signature.name: function for function in graph_def.library.function}
    bodies: list[list[Any]] = [[]]
    outputs = [tensor.op.name for tensor in graph.outputs] + [op.name for op in graph.control_outputs]
    called = walk(graph_def.node, outputs, bodies[-1])
    visited: set[str] = set()
    while called:
        name = called.pop()
        if name in library and name not in visited:
            visited.add(name)
            body = library[name]
            bodies.append([])
            called |= walk(body.node_def, [*body.ret.values(), *body.control_ret.values()], bodies[-1])
    return bodies


def read_names(graph: Any) -> set[str]:
    """Names of the nodes that a run of a function's graph reads."""
    read = {name.lstrip("^").partition(":")[0] for node in reached_nodes(graph) for name in node.input}
    return read | {tensor.op.name for tensor in graph.outputs}


def read_inputs(graph: Any) -> set[int]:
    """Indices of the inputs that a run of a function's graph reads."""
    read = read_names(graph)
    return {i for i, tensor in enumerate(graph.inputs) if tensor.op.name in read}


def forget_custom_gradients(graph: Any) -> None:
    """Drop the custom gradients of a graph that will not be differentiated any more.

    TensorFlow keeps them, and thereby the graph, for the life of the process: two graphs for every traced Keras
    optimizer. Gradients of inner functions are kept, as other graphs may use them.
    """
    for op in graph.get_operations():
        name = op.node_def.attr["_gradient_op_type"].s.decode() if "_gradient_op_type" in op.node_def.attr else ""
        gradient_registry._registry.pop(name, None)


def inputs_of(graph: Any, tensor: Any) -> set[int]:
    """Indices of the inputs that a tensor of a function's graph depends on."""
    places = {id(tensor): place for place, tensor in enumerate(graph.inputs)}
    found: set[int] = set()
    todo, seen = [tensor], set[int]()
    while todo:
        tensor = todo.pop()
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        if id(tensor) in places:
            found.add(places[id(tensor)])
        else:
            todo += _sources(tensor)
    return found


def constants_assigned(function: Any) -> dict[int, Any]:
    """Ops of a concrete function that assign constants, by ``id()`` of the captured handles of variables."""
    handles = {inside.op.name: id(handle) for handle, inside in function.graph.captures}
    return {
        handles[op.inputs[0].op.name]: op
        for op in function.graph.get_operations()
        if op.type == "AssignVariableOp"
        and op.inputs[0].op.name in handles
        and tf.get_static_value(op.inputs[1]) is not None
    }


def place_of_op(op: Any) -> str | None:
    """Place in the user's code where an op was made; see :func:`axonrl.core.errors.place_of`."""
    return place_in(Frame(one.filename, one.lineno, one.name) for one in reversed(op.traceback))


def place_of_failure(graph: Any, message: str) -> str | None:
    """Place of the op in which a graph failed, from TensorFlow's message; for ops in a branch, its place."""
    operations = {op.name: op for op in _operations(graph)}
    for name in reversed(re.findall(r"{{node ([^}]+)}}", message)):
        parts = name.split("/")
        for length in range(len(parts), 0, -1):
            if (op := operations.get("/".join(parts[:length]))) is not None:
                return place_of_op(op)
    return None


def _sources(tensor: Any) -> list[Any]:
    """Inputs of an op that one of its outputs depends on; all of them if unknown."""
    op = tensor.op
    if op.type == "IdentityN":
        return [op.inputs[tensor.value_index]]
    if op.type in ("PartitionedCall", "StatefulPartitionedCall"):
        inner = op.graph._get_function(op.get_attr("f").name).graph
        return [op.inputs[place] for place in inputs_of(inner, inner.outputs[tensor.value_index])]
    return list(op.inputs)


def reached_ops(nodes: Iterable[Any]) -> frozenset[str]:
    """Types of the nodes' ops."""
    return frozenset(node.op for node in nodes)


def has_infinity(nodes: Iterable[Any]) -> bool:
    """Is infinity among the constants? LiteRT's converter replaces it by the largest finite number."""
    return any(bool(np.isinf(constant).any()) for constant in _float_constants(nodes))


def has_largest(nodes: Iterable[Any]) -> bool:
    """Is the largest or smallest finite float32 among the constants?"""
    largest = np.finfo(np.float32).max
    return any(bool((np.abs(constant) == largest).any()) for constant in _float_constants(nodes))


def _float_constants(nodes: Iterable[Any]) -> Iterator[Any]:
    for node in nodes:
        if node.op == "Const" and tf.dtypes.as_dtype(node.attr["value"].tensor.dtype).is_floating:
            yield tf.make_ndarray(node.attr["value"].tensor)


def walk(nodes: Iterable[Any], outputs: list[str], found: list[Any]) -> set[str]:
    """Add the nodes that lead to ``outputs`` to ``found``; returns the names of the functions they call."""
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


def computing(tensors: Iterable[tf.Tensor], whole: Any) -> Any:
    """The part of a graph that computes these tensors; both are GraphDefs."""
    nodes = list[Any]()
    calls = walk(whole.node, [tensor.op.name for tensor in tensors], nodes) - {""}
    part = tf.compat.v1.GraphDef(node=nodes, library=whole.library if calls else None, versions=whole.versions)
    for node in part.node:
        node.attr.pop("_class", None)  # colocation with another op, which may be missing here
    return part


def why_large(graph: Any, ops: Iterable[str], limit_mflop: float = 100.0, limit_adam: int = 250_000) -> str | None:
    """Say why the arithmetic dominates the cost of a run; None if the overhead of its call does.

    Decided by ops and shapes only. Large are convolutions, matrix products of more than ``limit_mflop`` million
    operations in total (axes of unknown size count as 1, loops as one iteration, as the duration of single ops
    matters), and an Adam op on a variable of more than ``limit_adam`` elements, over which LiteRT passes twelve times.

    Args:
        graph: a function's graph.
        ops: the reached ops.
        limit_mflop: limit for small programs, in million operations.
        limit_adam: limit for small programs, in elements.
    """
    convolutions = sorted(op for op in ops if op.startswith(_CONVOLUTIONS))
    if convolutions:
        return f"op {convolutions[0]}"
    total = 0
    for op in _operations(graph):
        if op.type in _MATMUL:
            left, result = op.inputs[0].shape, op.outputs[0].shape
            if result.rank is None or left.rank is None:
                return f"op {op.type} of unknown shape"
            inner = left[-2 if op.get_attr(_MATMUL[op.type]) else -1]
            total += 2 * math.prod(size or 1 for size in (*result, inner))
        elif op.type == "ResourceApplyAdam" and (size := op.inputs[-1].shape.num_elements() or 0) > limit_adam:
            return f"Adam on a variable of {size:,} elements, limit {limit_adam:,}"
    mflop = total / 1e6
    return f"matrix products of {mflop:.0f} MFLOP, limit {limit_mflop:.0f}" if mflop > limit_mflop else None


def _operations(graph: Any) -> Iterator[Any]:
    """Operations of a graph, and of the functions they call: bodies of loops, branches."""
    for op in graph.get_operations():
        yield op
        for attribute in op.node_def.attr.values():
            for function in (attribute.func, *attribute.list.func):
                if function.name:
                    yield from _operations(graph._get_function(function.name).graph)
