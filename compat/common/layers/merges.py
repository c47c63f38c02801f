"""How several tensors become one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np
import tensorflow as tf

from ..refusals import choice, refuse
from ..value_specs import ValueSpec
from .layer import Tensor

Join: TypeAlias = Callable[[Sequence[Tensor]], Tensor]
Shape: TypeAlias = "tuple[int, ...]"

_KINDS: Final = ("concat", "product", "stack", "sum")


def joined(place: str, specs: Sequence[ValueSpec], kind: str, axis: int) -> tuple[Join, ValueSpec]:
    """The function that joins tensors of some specs, and the spec of what it returns.

    Args:
        place: for messages.
        specs: of the tensors. Numbers are concatenated as vectors of one; products and sums repeat axes of size 1.
        kind: ``concat``, ``product``, ``stack`` or ``sum``.
        axis: of ``concat`` and ``stack``, without the batch axis.

    Raises:
        ArgumentError: the specs do not fit.
    """
    choice(f"{place}: aggregation", kind, _KINDS)
    argument = f"{place}: tensors"
    if not specs:
        refuse(argument, "must name at least one tensor")
    if len(specs) == 1:
        return _first, specs[0]
    if len({spec.type == "int" for spec in specs}) > 1:
        refuse(argument, "cannot join ints and others: use a layer embedding, and register what it returns")
    shapes = [spec.shape or ((1,) if kind == "concat" else ()) for spec in specs]
    rank = len(shapes[0]) + (kind == "stack")
    if kind in ("concat", "stack") and not 0 <= axis < rank:
        refuse(f"{place}: axis", f"must lie in 0 .. {rank - 1}, got {axis}", axis)
    shape = _shape(shapes, kind, axis)
    if shape is None:
        refuse(argument, f"have the shapes {', '.join(map(str, shapes))}, which do not fit {kind}", shapes)
    return _join(shapes, kind, axis), ValueSpec("", specs[0].type if specs[0].type == "int" else "float", shape)


def _shape(shapes: Sequence[Shape], kind: str, axis: int) -> Shape | None:
    """Of tensors that are joined; None if they do not fit."""
    first = shapes[0]
    if len({len(shape) for shape in shapes}) > 1:
        return None
    if kind == "concat":
        if len({(shape[:axis], shape[axis + 1 :]) for shape in shapes}) > 1:
            return None
        return (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])
    if kind == "stack":
        return (*first[:axis], len(shapes), *first[axis:]) if len(set(shapes)) == 1 else None
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        return None


def _join(shapes: Sequence[Shape], kind: str, axis: int) -> Join:
    def concat(tensors: Sequence[Tensor]) -> Tensor:
        pairs = zip(tensors, shapes, strict=True)
        return tf.concat([x if x.shape.rank > 1 else tf.reshape(x, [-1, *shape]) for x, shape in pairs], axis=axis + 1)

    def stack(tensors: Sequence[Tensor]) -> Tensor:
        return tf.stack(list(tensors), axis=axis + 1)

    def reduce(tensors: Sequence[Tensor]) -> Tensor:
        return functools.reduce(tf.add if kind == "sum" else tf.multiply, tensors)

    return {"concat": concat, "stack": stack}.get(kind, reduce)


def _first(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0]
