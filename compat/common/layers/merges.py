"""How several tensors become one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import keras
import tensorflow as tf

from ..refusals import choice, refuse
from ..value_specs import ValueSpec
from .layer import Tensor

Join: TypeAlias = Callable[[Sequence[Tensor]], Tensor]

_JOINS: Final[dict[str, Callable[[list[Tensor], int], Tensor]]] = {
    "concat": lambda tensors, axis: keras.ops.concatenate(tensors, axis + 1),
    "product": lambda tensors, axis: functools.reduce(keras.ops.multiply, tensors),
    "stack": lambda tensors, axis: keras.ops.stack(tensors, axis + 1),
    "sum": lambda tensors, axis: functools.reduce(keras.ops.add, tensors),
}


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
    join = _JOINS[choice(f"{place}: aggregation", kind, _JOINS)]
    argument = f"{place}: tensors"
    if not specs:
        refuse(argument, "must name at least one tensor")
    if len(specs) == 1:
        return lambda tensors: tensors[0], specs[0]
    if len({spec.type == "int" for spec in specs}) > 1:
        refuse(argument, "cannot join ints and others: use a layer embedding, and register what it returns")
    shapes = [spec.shape or ((1,) if kind == "concat" else ()) for spec in specs]
    rank = len(shapes[0]) + (kind == "stack")
    if kind in ("concat", "stack") and not 0 <= axis < rank:
        refuse(f"{place}: axis", f"must lie in 0 .. {rank - 1}, got {axis}", axis)
    try:
        if len({len(shape) for shape in shapes}) > 1:
            raise ValueError
        _, *shape = join([keras.KerasTensor((None, *shape)) for shape in shapes], axis).shape
    except ValueError:
        refuse(argument, f"have the shapes {', '.join(map(str, shapes))}, which do not fit {kind}", shapes)

    def join_all(tensors: Sequence[Tensor]) -> Tensor:
        pairs = zip(tensors, shapes, strict=True)
        return join([x if x.shape.rank > len(own) else tf.reshape(x, [-1, *own]) for x, own in pairs], axis)

    return join_all, ValueSpec("", specs[0].type if specs[0].type == "int" else "float", tuple(shape))
