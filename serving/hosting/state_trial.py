"""Trial of a client's state: acts and updates with its largest numbers."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from ...core.errors import NonFiniteError
from ...core.protocols import Array, ArraySpec
from ...core.trees import leaves, map_tree
from ...estimators.stepper import Stepper
from ...memories.columns import FLAGS
from ..refusals import RefusedError, invalid
from .transitions import Columns, column_of, select

_ADDED: Final = ("discount", "weight")
"""Keys that memories add to the rows."""

Limits: TypeAlias = Mapping[str, tuple[Any, Any]]
"""Lowest and highest values of integer columns."""


def try_updates(stepper: Stepper, sources: Sequence[Columns], limits: Limits) -> None:
    """Act and update with the current weights and counters, and restore the weights.

    Args:
        stepper: stepper that is not in use yet.
        sources: the state's rows: the memory's, and waiting ones.
        limits: limits of their columns.

    Raises:
        RefusedError: an action, a loss or a weight is not finite.
    """
    executor: Any = stepper.executor  # a Learner: hosted agents have compiled programs
    memory: Any = stepper.memory
    train, weights, rng = executor.program.train, stepper.weights(), np.random.default_rng(0)
    counters = {"global_step": stepper.counters.global_step, "global_timestep": stepper.counters.global_timestep}
    batches = [*_batches(train.batch, sources, limits, float(memory.discount))]
    try:
        for batch in [*batches, batches[-1]]:  # an update's effect on the variables shows in the next
            stepper.act(map_tree(functools.partial(_first_row, axes=batch["terminated"].ndim), batch["observation"]))
            draws = [request.draw(rng) for request in train.noise]
            loss = executor.train(batch, {**counters, "progress": 0.0}, draws).scalars[0]
            if not np.isfinite(loss):
                raise _refusal(f"a loss of {loss}")
            for name, array in stepper.weights().items():
                if array.dtype.kind == "f" and not np.isfinite(array).all():
                    raise _refusal(f"numbers in {name} that are not finite")
    except NonFiniteError as error:
        raise _refusal(str(error)) from None
    stepper.set_weights(weights)


def _batches(
    specs: Mapping[str, Any], sources: Sequence[Columns], limits: Limits, discount: float
) -> Iterator[dict[str, Any]]:
    """A possible batch of each row that holds a largest number; of a made-up row if there are none."""
    stored = {key: spec for key, spec in specs.items() if key not in _ADDED}

    def filled(spec: Any, name: str, row: Columns | None) -> Any:
        if isinstance(spec, Mapping):
            return {part: filled(leaf, f"{name}:{part}", row) for part, leaf in spec.items()}
        value = _made_up(spec, name, limits) if row is None else column_of(row, name)
        return np.resize(value, spec.shape).astype(spec.dtype)

    for row in _largest(sources) or [None]:
        batch = {key: filled(spec, key, row) for key, spec in stored.items()}
        discounts = discount * (1 - batch["terminated"].astype(np.float32))
        added = {"discount": discounts, "weight": np.ones_like(discounts)}
        yield batch | {key: added[key].astype(specs[key].dtype) for key in _ADDED if key in specs}


def _first_row(array: Array, axes: int) -> Array:
    """First row of a batch, of the only lane: [1, ...]."""
    row: Array = array.reshape(-1, *array.shape[axes:])[:1]
    return row


def _largest(sources: Sequence[Columns]) -> Sequence[Columns | None]:
    """The row with the largest number of each column."""
    found: list[Columns] = []
    for columns in sources:
        if len(columns["reward"]):
            floats = (array for array in leaves(columns) if array.dtype.kind == "f")
            chosen = {int(_sizes(array).argmax()) for array in floats}
            found += [select(columns, row) for row in sorted(chosen)]
    return found


def _made_up(spec: ArraySpec, name: str, limits: Limits) -> Array:
    """A valid value of a column: a mask that allows all, the first action."""
    key = name.partition(":")[0]
    low, high = limits.get(name, (0, spec.dtype.kind == "b" and key not in FLAGS))
    return np.asarray(low if key == "action" else high, spec.dtype)


def _sizes(array: Array) -> Array:
    """The largest absolute value of each row."""
    rows = array.reshape(len(array), -1)
    sizes: Array = np.maximum(rows.max(1, initial=0), -rows.min(1, initial=0))
    return sizes


def _refusal(what: str) -> RefusedError:
    return invalid("encoded_network", f"and encoded_buffer lead to {what}")
