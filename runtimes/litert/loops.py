"""Variables in loops and branches of a LiteRT file: creates their handles inside rather than passing them in.

The converter passes the handle of every variable used in a loop from one iteration to the next, and that of every
variable used in a branch to the branch. LiteRT assumes that the size of a handle is unknown: so it plans the memory of
the loop's body again in every iteration, which took as long as PPO's arithmetic, and the memory of a branch whenever it
is taken. A handle is only a name, so the body can create its own.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import flatbuffers  # TensorFlow's dependency, for the schema imported from it
import numpy as np
from tensorflow.lite.python import schema_py_generated as schema

Model: TypeAlias = Any
"""A ModelT: a LiteRT file as objects."""
Graph: TypeAlias = Any
"""A SubGraphT."""
Operator: TypeAlias = Any
"""An OperatorT."""

_IDENTIFIER: Final = b"TFL3"
_KINDS: Final = ("WHILE", "IF")
_ALIGNMENT: Final = 16
"""Alignment of constants in a file, in bytes: required by the schema, but not supported by Python's builder."""


def with_own_handles(content: bytes) -> bytes:
    """Make loops and branches create the handles of their variables.

    Args:
        content: a LiteRT file.

    Returns:
        The content; unchanged if no loop and no branch uses variables.
    """
    if not _has_any(content):
        return content
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    outer = [one for graph in model.subgraphs for kind in _KINDS for one in _operators(model, graph, kind)]
    uses = collections.Counter(index for one in outer for index in _inner_graphs(one))
    changed = False
    pending = [graph for index, graph in enumerate(model.subgraphs) if index not in uses]
    while pending:  # from the outside in: a body passes the handles that it creates to inner loops
        graph = pending.pop()
        makers = {operator.outputs[0]: operator for operator in _operators(model, graph, "VAR_HANDLE")}
        for loop in _operators(model, graph, "WHILE"):
            if any(uses[index] > 1 for index in _inner_graphs(loop)):
                continue  # a shared body may get handles of different variables from different loops
            inner = [model.subgraphs[index] for index in _inner_graphs(loop)]
            changed |= _make_inside(graph, loop, inner, makers)
            pending += inner
        for branching in _operators(model, graph, "IF"):
            if any(uses[index] > 1 for index in _inner_graphs(branching)):
                continue
            inner = [model.subgraphs[index] for index in _inner_graphs(branching)]
            changed |= _make_in_branches(branching, inner, makers)
            pending += inner
    if not changed:
        return content
    builder = _Builder(len(content))
    builder.Finish(model.Pack(builder), _IDENTIFIER)
    return bytes(builder.Output())


def _make_inside(graph: Graph, loop: Operator, inner: list[Graph], makers: Mapping[int, Operator]) -> bool:
    """Change a loop of ``graph``, given its condition and body; False if no handle is passed to it."""
    _, body = inner
    stays = body.inputs == body.outputs
    handed_in = [k for k, tensor in enumerate(loop.inputs) if tensor in makers and stays[k]]
    for part in inner:
        _make_own(part, {k: makers[loop.inputs[k]] for k in handed_in})
    body.outputs = np.delete(body.outputs, handed_in)
    same = {loop.outputs[k]: loop.inputs[k] for k in handed_in}
    for operator in graph.operators:
        operator.inputs = np.array([same.get(tensor, tensor) for tensor in operator.inputs], np.int32)
    loop.inputs, loop.outputs = np.delete(loop.inputs, handed_in), np.delete(loop.outputs, handed_in)
    return bool(handed_in)


def _make_in_branches(branching: Operator, inner: list[Graph], makers: Mapping[int, Operator]) -> bool:
    """Change the branches of a conditional, whose first input selects one."""
    handed_in = [k for k, tensor in enumerate(branching.inputs[1:]) if tensor in makers]
    for part in inner:
        _make_own(part, {k: makers[branching.inputs[1 + k]] for k in handed_in})
    branching.inputs = np.delete(branching.inputs, [1 + k for k in handed_in])
    return bool(handed_in)


def _make_own(part: Graph, makers: Mapping[int, Operator]) -> None:
    """Make a graph create the inputs at these places itself, and drop them from its inputs."""
    used = {tensor for operator in part.operators for tensor in operator.inputs}
    made = {part.inputs[k]: maker for k, maker in makers.items() if part.inputs[k] in used}
    part.operators = [*(_copy(maker, tensor) for tensor, maker in made.items()), *part.operators]
    part.inputs = np.delete(part.inputs, list(makers))


def _copy(maker: Operator, output: int) -> Operator:
    """Copy an operator, to make the same handle in another tensor."""
    made = schema.OperatorT()
    made.opcodeIndex, made.inputs, made.outputs = maker.opcodeIndex, maker.inputs, np.array([output], np.int32)
    made.builtinOptionsType, made.builtinOptions = maker.builtinOptionsType, maker.builtinOptions
    return made


def _inner_graphs(operator: Operator) -> tuple[int, int]:
    """Graphs of a loop's condition and body, or of a conditional's two branches."""
    options = operator.builtinOptions
    if isinstance(options, schema.IfOptionsT):
        return options.thenSubgraphIndex, options.elseSubgraphIndex
    return options.condSubgraphIndex, options.bodySubgraphIndex


def _operators(model: Model, graph: Graph, kind: str) -> Iterator[Operator]:
    code = getattr(schema.BuiltinOperator, kind)
    return (one for one in graph.operators if model.operatorCodes[one.opcodeIndex].builtinCode == code)


def _has_any(content: bytes) -> bool:
    model = schema.Model.GetRootAs(content)
    codes = (model.OperatorCodes(i).BuiltinCode() for i in range(model.OperatorCodesLength()))
    return not {getattr(schema.BuiltinOperator, kind) for kind in _KINDS}.isdisjoint(codes)


class _Builder(flatbuffers.Builder):  # type: ignore[misc] # it ships no types
    """Aligns vectors of bytes, which hold constants here."""

    def StartVector(self, elemSize: int, numElems: int, alignment: int) -> Any:  # noqa: N802, N803 - the base's names
        return super().StartVector(elemSize, numElems, _ALIGNMENT if elemSize == 1 else alignment)
