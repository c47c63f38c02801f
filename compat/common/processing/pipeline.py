"""Stateful steps, and pipelines of steps for the arrays of several lanes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ....core.protocols import Array
from ..refusals import refuse
from .steps import FLOAT, Numbers, Step, fitted_axes, fitted_axis, standardize

Memory: TypeAlias = "Mapping[str, Array]"
Arrays: TypeAlias = "dict[str, Array]"
"""Arrays by name, [B, ...]."""
Stage: TypeAlias = "Mapping[str, Step] | Callable[[Arrays], Arrays]"
"""Steps by array name, or one function of all arrays."""


def sequence(where: str, value: Numbers, length: int, axis: int = -1, concatenate: bool = True) -> Step:
    """The last ``length`` values, oldest first, concatenated along an axis or stacked; at first all the first value."""
    shape, place, history = list(value.shape), f"{where}['axis']", (length, *value.shape)
    join: Any = np.concatenate if concatenate else np.stack
    if concatenate:
        if not shape:
            refuse(where, "cannot concatenate numbers: use concatenate=False", value)
        along = fitted_axis(place, axis, len(shape))
        shape[along] *= length
    else:
        along = fitted_axis(place, axis, len(shape) + 1)
        shape.insert(along, length)

    def function(x: Array, memory: Memory | None) -> tuple[Array, Memory]:
        latest = np.empty(history, x.dtype)
        latest[:-1] = x if memory is None else memory["latest"][1:]
        latest[-1] = x
        return join(list(latest), along), {"latest": latest}

    return Step(value.of_shape(*shape), function, {"latest": history})


def deltafier(where: str, value: Numbers, concatenate: int | bool = False) -> Step:
    """The difference from the previous timestep, at first 0; or the value and it, joined along axis ``concatenate``."""
    shape = list(value.shape)
    along = None if concatenate is False else fitted_axis(f"{where}['concatenate']", concatenate, len(shape))
    if along is not None:
        shape[along] *= 2

    def function(x: Array, memory: Memory | None) -> tuple[Array, Memory]:
        delta = np.zeros_like(x) if memory is None else x - memory["previous"]
        return delta if along is None else np.concatenate((x, delta), along), {"previous": x.copy()}

    return Step(Numbers(tuple(shape)), function, {"previous": value.shape})


def exponential_normalization(
    where: str, value: Numbers, decay: float = 0.999, axes: Sequence[int] | None = None
) -> Step:
    """Normalise by mean and standard deviation over ``axes`` and over time.

    A timestep's weight is ``decay`` times that of the next one, and weights are divided by their sum, so that early
    statistics are not biased towards zero (West 1979, Updating Mean and Variance Estimates). By default ``axes`` is all
    but the last. All lanes share the statistics, which include the present timestep.
    """
    rank = len(value.shape)
    over = fitted_axes(f"{where}['axes']", axes, rank, max(rank - 1, 0))
    shape = tuple(1 if axis in over else size for axis, size in enumerate(value.shape))

    def function(x: Array, memory: Memory | None) -> tuple[Array, Memory]:
        x = x.astype(np.float64)
        mean, variance = (x.mean(over, keepdims=True), x.var(over, keepdims=True)) if over else (x, np.zeros_like(x))
        weight = np.ones(())
        if memory is not None:
            before = decay * memory["weight"]
            weight = before + 1
            delta = mean - memory["mean"]
            mean = memory["mean"] + delta / weight
            variance = before / weight * (memory["variance"] + delta**2 / weight) + variance / weight
        statistics = {"mean": mean, "variance": variance, "weight": weight}
        return standardize(x, mean, variance), {name: np.asarray(one) for name, one in statistics.items()}

    return Step(Numbers(value.shape), function, {"mean": shape, "variance": shape, "weight": ()}, is_shared=True)


def concat(where: str, values: Mapping[str, Numbers]) -> tuple[Numbers, Stage]:
    """Concatenate all arrays in order along their last axis, under the name ``""``; numbers count as arrays of one.

    Arrays of different dtypes become float32.
    """
    names = list(values)
    parts = [value.of_shape(*(value.shape or (1,))) for value in values.values()]
    if len({part.shape[:-1] for part in parts}) > 1:
        shapes = {name: list(value.shape) for name, value in values.items()}
        refuse(where, f"needs parts with the same shape except for the last axis, got {shapes}", shapes)
    dtype = parts[0].dtype if len({part.dtype for part in parts}) == 1 else FLOAT
    low, high = min(part.low for part in parts), max(part.high for part in parts)
    out = Numbers((*parts[0].shape[:-1], sum(part.shape[-1] for part in parts))).with_range(dtype, low, high)

    def stage(arrays: Arrays) -> Arrays:
        found = [arrays[name].reshape(-1, *part.shape) for name, part in zip(names, parts, strict=True)]
        return {"": np.concatenate(found, -1, dtype=dtype)}

    return out, stage


class Pipeline:
    """Stages of steps, with their state.

    A lane is a stream of timesteps, identified by its key. Its state is reset with each of its episodes
    (:meth:`reset`); the state of shared steps is kept.

    Args:
        stages: stages in order.
        shared: state of the shared steps of another pipeline with these stages; it is read, never changed.

    Attributes:
        lanes: the state of each lane, by index of the stage and array name.
        shared: the state shared by all lanes, by index of the stage and array name.
    """

    def __init__(self, stages: Sequence[Stage], shared: dict[tuple[int, str], Memory] | None = None) -> None:
        self.stages = list(stages)
        self.lanes: dict[Hashable, dict[tuple[int, str], Memory]] = {}
        self.shared = {} if shared is None else shared
        self._counts = shared is None

    def __call__(self, arrays: Mapping[str, Array], lanes: Sequence[Hashable], remember: bool = True) -> Arrays:
        """One timestep.

        Args:
            arrays: arrays [B, ...] by name; those without steps stay as they are.
            lanes: the lane of each row.
            remember: False: return the result, but keep the state as it was.
        """
        found = dict(arrays)
        for index, stage in enumerate(self.stages):
            if callable(stage):
                found = stage(found)
                continue
            for name, step in stage.items():
                if name not in found:
                    continue
                if step.memory:
                    found[name] = self._apply_with_memory(step, (index, name), found[name], lanes, remember)
                else:
                    found[name] = step.function(found[name])
        return found

    def reset(self, lanes: Iterable[Hashable] | None = None) -> None:
        """Drop the state of these lanes; None: of all."""
        for lane in list(self.lanes) if lanes is None else lanes:
            self.lanes.pop(lane, None)

    def _apply_with_memory(
        self, step: Step, place: tuple[int, str], x: Array, lanes: Sequence[Hashable], remember: bool
    ) -> Array:
        rows = []
        remember = remember and (self._counts or not step.is_shared)
        for lane, row in zip(lanes, x, strict=True):
            memories = self.shared if step.is_shared else self.lanes.setdefault(lane, {})
            y, memory = step.function(row, memories.get(place))
            if remember:
                memories[place] = memory
            rows.append(y)
        return np.stack(rows) if len(rows) > 1 else np.asarray(rows[0])[None]
