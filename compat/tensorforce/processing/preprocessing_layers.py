"""Layers that preprocess states and rewards on the host, in NumPy. None of them learns.

A layer is built for one spec, says the spec of what comes out (``out``), and is a function of a value and of what it
remembers: ``step(x, memory) -> (y, memory)``, where None is the memory at the start. ``keeps`` says of whom that is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Final, NoReturn, TypeAlias

import numpy as np

from ....core.protocols import Array
from ....core.spread import varies
from ...common.arrays import LUMA, resizer, weighted
from ...common.specs.argument_checks import or_none, real, whole
from ...common.specs.argument_table import Argument, Arguments
from ...common.value_specs import ValueSpec
from ..spaces.errors import flag, refuse
from .array_functions import ACTIVATIONS
from .preprocessing_arguments import AXES, axis, constant, false_or_axis, fitted_axes, fitted_axis, grayscale
from .preprocessing_arguments import nonlinearity as activation_name

Memory: TypeAlias = "Mapping[str, Array] | None"
LANE: Final = "lane"
"""A layer that remembers the timesteps before, of this lane's episode."""
ALL: Final = "all"
"""A layer that remembers what it has seen of all lanes and episodes."""
_EPSILON: Final = 1e-6
"""The smallest variance that values are divided by the root of."""


class Layer:
    """What all layers have in common.

    Args:
        where: its place, for messages.
        spec: what goes in.
        arguments: all that its type takes.
    """

    takes: ClassVar[Arguments] = {}
    keeps: ClassVar[str | None] = None
    types: ClassVar[tuple[str, ...]] = ("float",)

    def __init__(self, where: str, spec: ValueSpec, arguments: Mapping[str, Any]) -> None:
        self._where, self.arguments = where, arguments
        if spec.type not in self.types:
            self._refuse(f"takes values of type {', '.join(self.types)}; {spec.name!r} is of type {spec.type}", spec)
        self.out = self.build(spec)

    def build(self, spec: ValueSpec) -> ValueSpec:
        """Get ready for values of this spec; the spec of what comes out."""
        return _of_shape(spec, spec.shape)

    def step(self, x: Array, memory: Memory) -> tuple[Array, Memory]:
        """One timestep: ``x`` has the shape and dtype of the spec, and is neither changed nor held."""
        return x, None

    def fits(self, memory: Mapping[str, Array]) -> bool:
        """Could ``step`` have returned this memory?"""
        return False

    def _refuse(self, problem: str, value: object) -> NoReturn:
        refuse(self._where, problem, value)


class Clipping(Layer):
    """Values between ``lower`` (default: minus ``upper``) and ``upper``."""

    takes: ClassVar[Arguments] = {"upper": Argument(constant), "lower": Argument(or_none(constant), None)}

    def build(self, spec: ValueSpec) -> ValueSpec:
        """As :meth:`Layer.build`."""
        upper = self.arguments["upper"]
        lower = -upper if self.arguments["lower"] is None else self.arguments["lower"]
        if lower > upper:
            self._refuse(f"must have a lower value of at most the upper one, got {lower:g} and {upper:g}", lower)
        self._lower, self._upper = np.float32(lower), np.float32(upper)
        return super().build(spec)

    def step(self, x: Array, memory: Memory) -> tuple[Array, Memory]:
        """As :meth:`Layer.step`."""
        return np.clip(x, self._lower, self._upper), None


class Deltafier(Layer):
    """The difference from the timestep before, 0 in the first; with an axis, joined along it to the value itself."""

    takes: ClassVar[Arguments] = {"concatenate": Argument(false_or_axis, False)}
    keeps = LANE

    def build(self, spec: ValueSpec) -> ValueSpec:
        """As :meth:`Layer.build`."""
        self._shape, self._axis, shape = spec.shape, None, list(spec.shape)
        concatenate = self.arguments["concatenate"]
        if concatenate is not False:
            self._axis = fitted_axis(f"{self._where}['concatenate']", concatenate, len(shape))
            shape[self._axis] *= 2
        return _of_shape(spec, tuple(shape))

    def step(self, x: Array, memory: Memory) -> tuple[Array, Memory]:
        """As :meth:`Layer.step`."""
        delta = np.zeros_like(x) if memory is None else x - memory["previous"]
        y = delta if self._axis is None else np.concatenate((x, delta), self._axis)
        return y, {"previous": x.copy()}

    def fits(self, memory: Mapping[str, Array]) -> bool:
        """As :meth:`Layer.fits`."""
        return _has(memory, {"previous": self._shape})


class Sequence(Layer):
    """The last ``length`` values, oldest first, along an axis or stacked as a new one; the first value fills all."""

    takes: ClassVar[Arguments] = {
        "length": Argument(whole(1)),
        "axis": Argument(axis, -1),
        "concatenate": Argument(flag, True),
    }
    keeps = LANE
    types = ("bool", "int", "float")

    def build(self, spec: ValueSpec) -> ValueSpec:
        """As :meth:`Layer.build`."""
        length, shape, place = self.arguments["length"], list(spec.shape), f"{self._where}['axis']"
        self._history = (length, *shape)
        if self.arguments["concatenate"]:
            if not shape:
                self._refuse(f"cannot concatenate numbers, as {spec.name!r} is: use concatenate=False", spec)
            self._axis = fitted_axis(place, self.arguments["axis"], len(shape))
            shape[self._axis] *= length
        else:
            self._axis = fitted_axis(place, self.arguments["axis"], len(shape) + 1)
            shape.insert(self._axis, length)
        return dataclasses.replace(spec, shape=tuple(shape))

    def step(self, x: Array, memory: Memory) -> tuple[Array, Memory]:
        """As :meth:`Layer.step`."""
        latest = np.empty(self._history, x.dtype)
        latest[:-1] = x if memory is None else memory["latest"][1:]
        latest[-1] = x
        join: Any = np.concatenate if self.arguments["concatenate"] else np.stack
        return join(list(latest), self._axis), {"latest": latest}

    def fits(self, memory: Mapping[str, Array]) -> bool:
        """As :meth:`Layer.fits`."""
        return _has(memory, {"latest": self._history})


class Image(Layer):
    """An image [height, width, channels] in another size, in shades of grey, or both.

    Resizing averages areas. Of ``height`` and ``width`` one that is None follows from the other and the image's ratio;
    without both the size stays. ``grayscale``: True for the luma of RGB (ITU-R BT.601), or weights of the channels.
    """

    takes: ClassVar[Arguments] = {
        "height": Argument(or_none(whole(1)), None),
        "width": Argument(or_none(whole(1)), None),
        "grayscale": Argument(grayscale, False),
    }

    def build(self, spec: ValueSpec) -> ValueSpec:
        """As :meth:`Layer.build`."""
        if len(spec.shape) != 3:
            self._refuse(f"takes shapes [height, width, channels]; {spec.name!r} has {list(spec.shape)}", spec)
        old, channels = spec.shape[:2], spec.shape[2]
        height, width, weights = (self.arguments[name] for name in ("height", "width", "grayscale"))
        if height is None:
            height = old[0] if width is None else max(1, round(old[0] * width / old[1]))
        if width is None:
            width = max(1, round(old[1] * height / old[0]))
        self._resize = resizer((old[0], old[1]), (height, width))
        self._weights: tuple[float, ...] | list[float] | None = None
        if weights is not False:
            weights = LUMA if weights is True else weights
            if len(weights) != channels:
                self._refuse(f"has {len(weights)} weights for grayscale; {spec.name!r} has {channels} channels", spec)
            self._weights, channels = weights, 1
        return _of_shape(spec, (height, width, channels))

    def step(self, x: Array, memory: Memory) -> tuple[Array, Memory]:
        """As :meth:`Layer.step`."""
        if self._weights is not None:  # first: there is less to resize then
            x = weighted(x, self._weights)
        return self._resize(x), None


class ExponentialNormalization(Layer):
    """Minus the mean, divided by the standard deviation, both over ``axes`` and over time.

    Over time each timestep weighs ``decay`` times the one after it, and weights are divided by their sum, so that few
    timesteps are not mixed with zeros (West 1979, Updating Mean and Variance Estimates). ``axes`` is all but the last
    by default. The statistics are one for all lanes and include the present timestep.
    """

    takes: ClassVar[Arguments] = {
        "decay": Argument(real(at_least=0, at_most=1), 0.999),
        "axes": Argument(AXES, None),
    }
    keeps = ALL

    def build(self, spec: ValueSpec) -> ValueSpec:
        """As :meth:`Layer.build`."""
        rank = len(spec.shape)
        self._axes = fitted_axes(f"{self._where}['axes']", self.arguments["axes"], rank, max(rank - 1, 0))
        self._shape = tuple(1 if one in self._axes else size for one, size in enumerate(spec.shape))
        return super().build(spec)

    def step(self, x: Array, memory: Memory) -> tuple[Array, Memory]:
        """As :meth:`Layer.step`."""
        x = x.astype(np.float64)
        mean, variance = x, np.zeros_like(x)
        if self._axes:
            mean, variance = x.mean(self._axes, keepdims=True), x.var(self._axes, keepdims=True)
        weight = np.ones(())
        if memory is not None:
            before = self.arguments["decay"] * memory["weight"]
            weight = before + 1
            delta = mean - memory["mean"]
            mean = memory["mean"] + delta / weight
            variance = before / weight * (memory["variance"] + delta**2 / weight) + variance / weight
        y = _normalized(x, mean, variance)
        statistics = {"mean": mean, "variance": variance, "weight": weight}
        return y.astype(np.float32), {name: np.asarray(value) for name, value in statistics.items()}

    def fits(self, memory: Mapping[str, Array]) -> bool:
        """As :meth:`Layer.fits`."""
        return _has(memory, {"mean": self._shape, "variance": self._shape, "weight": ()})


class InstanceNormalization(Layer):
    """Minus the mean, divided by the standard deviation, both over ``axes`` (default: all) of this one value."""

    takes: ClassVar[Arguments] = {"axes": Argument(AXES, None)}

    def build(self, spec: ValueSpec) -> ValueSpec:
        """As :meth:`Layer.build`."""
        rank = len(spec.shape)
        self._axes = fitted_axes(f"{self._where}['axes']", self.arguments["axes"], rank, rank)
        if not self._axes:
            self._refuse(f"needs an axis to normalise over: {spec.name!r} would always be 0", spec)
        return super().build(spec)

    def step(self, x: Array, memory: Memory) -> tuple[Array, Memory]:
        """As :meth:`Layer.step`."""
        x = x.astype(np.float64)
        mean, variance = x.mean(self._axes, keepdims=True), x.var(self._axes, keepdims=True)
        return _normalized(x, mean, variance).astype(np.float32), None


class Activation(Layer):
    """A function of each number, or of the last axis (``crelu``, ``softmax``)."""

    takes: ClassVar[Arguments] = {"nonlinearity": Argument(activation_name)}

    def build(self, spec: ValueSpec) -> ValueSpec:
        """As :meth:`Layer.build`."""
        name = self.arguments["nonlinearity"]
        self._function = ACTIVATIONS[name]
        if name in ("crelu", "softmax") and not spec.shape:
            self._refuse(f"needs an axis for {name}: {spec.name!r} is a number", spec)
        return _of_shape(spec, (*spec.shape[:-1], 2 * spec.shape[-1]) if name == "crelu" else spec.shape)

    def step(self, x: Array, memory: Memory) -> tuple[Array, Memory]:
        """As :meth:`Layer.step`."""
        return self._function(x), None


class Dropout(Layer):
    """Nothing: values are dropped in updates only, and these get what has been preprocessed before."""

    takes: ClassVar[Arguments] = {"rate": Argument(real(at_least=0, at_most=0.999))}


LAYERS: Final[dict[str, type[Layer]]] = {
    "activation": Activation,
    "clipping": Clipping,
    "deltafier": Deltafier,
    "dropout": Dropout,
    "exponential_normalization": ExponentialNormalization,
    "image": Image,
    "instance_normalization": InstanceNormalization,
    "sequence": Sequence,
}


def _normalized(x: Array, mean: Array, variance: Array) -> Array:
    """Values in standard deviations from their mean; 0 where they vary by rounding alone."""
    return np.asarray((x - mean) / np.sqrt(np.maximum(variance, _EPSILON)) * varies(variance, mean * mean))


def _of_shape(spec: ValueSpec, shape: tuple[int, ...]) -> ValueSpec:
    """The spec with another shape, and without bounds."""
    return dataclasses.replace(spec, shape=shape, min_value=None, max_value=None)


def _has(memory: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]) -> bool:
    return {name: np.shape(value) for name, value in memory.items()} == dict(shapes)
