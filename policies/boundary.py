"""Conversion of observations and actions between an environment and an exported policy. Loads no TensorFlow.

Follows the rules of ``environments/``, as in training, but without Gymnasium.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.checks import all_finite, shortened
from ..core.protocols import NO_LEGAL_ACTION, Array, ArraySpec, ArrayTree
from .description import Normalization, Part
from .executors import action_name


class ObservationsIn:
    """Converts one observation, or a batch, to the arrays [B, ...] of a program.

    Args:
        parts: the arrays of one observation.
        is_dict: are they the leaves of a Dict or Tuple space?
        normalization: normalisation by name of the part.
    """

    def __init__(self, parts: Sequence[Part], is_dict: bool, normalization: Mapping[str, Normalization]) -> None:
        self._parts = sorted(parts, key=lambda part: part.name)  # in a program's order
        self.specs = [part.spec for part in self._parts]
        """Shapes and dtypes of one observation's arrays, in order."""
        self._is_dict = is_dict
        self._normalization = normalization
        only = self._parts[0].spec
        # Fast path for the usual observation, a valid array of floats.
        quick = len(parts) == 1 and not is_dict and not normalization and only.dtype == np.float32
        self._quick_shape = only.shape if quick else None
        self._quick_dtype = np.dtype(np.float32)
        self._one = (1, *only.shape)

    def __call__(self, observation: Any) -> tuple[list[Array], bool]:
        """Convert; returns the arrays [B, ...], and whether it was a single observation.

        Raises:
            ValueError: wrong shape or dtype, NaN or infinity; says what was given and what is expected.
        """
        if (
            type(observation) is np.ndarray
            and observation.shape == self._quick_shape
            and observation.dtype is self._quick_dtype
            and 0 not in np.isfinite(observation).tobytes()
        ):
            return [observation.reshape(self._one)], True
        if not self._is_dict:
            array, single = self._convert(self._parts[0], observation, "observation")
            return [array], single
        given = dict(flat(observation, ""))
        names = [part.name for part in self._parts]
        if sorted(given) != names:
            found = ", ".join(sorted(filter(None, given))) or "none"
            raise ValueError(f"observation must have the entries {', '.join(names)}, got {found}")
        converted = [self._convert(part, given[part.name], f"observation[{part.name!r}]") for part in self._parts]
        sizes = {
            part.name: None if single else len(a) for part, (a, single) in zip(self._parts, converted, strict=True)
        }
        if len(set(sizes.values())) > 1:
            raise ValueError(f"the entries of observation differ in batch size (None is a single one): {sizes}")
        return [array for array, _ in converted], converted[0][1]

    def features(self, observation: Any) -> tuple[ArrayTree, bool]:
        """Convert to a model's features [B, ...]; otherwise like calling this object."""
        arrays, single = self(observation)
        names = [part.name for part in self._parts]
        return dict(zip(names, arrays, strict=True)) if self._is_dict else arrays[0], single

    def _convert(self, part: Part, value: Any, what: str) -> tuple[Array, bool]:
        """Convert ``value`` to [B, ...] in the part's dtype; also returns whether it was a single one."""
        shape, dtype = part.spec.shape, part.spec.dtype
        try:
            given = np.asarray(value)
        except ValueError as error:  # rows of different lengths
            raise ValueError(f"{what} must be an array: {error}") from error
        single = given.shape == shape
        if not single and (given.shape[1:] != shape or given.ndim != len(shape) + 1 or not len(given)):
            sizes = ", ".join(map(str, shape))
            raise ValueError(f"{what} must have the shape [{sizes}] or [B, {sizes}], got {list(given.shape)}")
        kinds = "biuf" if dtype.kind == "f" else "biu"
        if given.dtype.kind not in kinds:
            raise ValueError(f"{what} must be {dtype}, got {given.dtype}")
        if part.name in self._normalization:
            given = self._normalization[part.name](given)
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is checked below
            array = np.asarray(given, dtype, order="C")
        if dtype.kind == "f":
            if not all_finite(array):
                raise ValueError(f"{what} has NaN or infinity: {shortened(value)}")
        elif array.dtype != given.dtype and not np.array_equal(array, given):
            raise ValueError(f"{what} has values that {dtype} cannot hold: {shortened(value)}")
        if part.low is not None and bool(((array < part.low) | (array > part.high)).any()):
            raise ValueError(f"{what} must be in {part.low} .. {part.high}, got {shortened(value)}")
        return (array[None] if single else array), single


class _ArrayOut:
    """Converts actions [B, ...] for ``env.step``.

    Args:
        space: attributes of the action space.
        predicted: the model's actions.
    """

    def __init__(self, space: Mapping[str, Any], predicted: ArraySpec) -> None:
        self._kind = space["type"]
        self._is_box = self._kind == "Box"
        self._low: Any
        self._high: Any
        self._shape: tuple[int, ...] = tuple(space.get("shape", ()))
        if self._is_box:
            self._low, self._high = space["low"], space["high"]
        elif self._kind == "Discrete":
            self._low, self._high = int(space["start"]), int(space["start"]) + int(space["n"]) - 1
        elif self._kind == "MultiDiscrete":
            self._low = space["start"].astype(np.int64)  # sums may not fit into the space's dtype
            self._high = self._low + space["nvec"] - 1
            self._shape = self._low.shape
        else:
            self._low, self._high = 0, 1
        self._dtype: np.dtype[Any] = np.dtype(space.get("dtype", np.int8))
        self._scalar = self._dtype.type
        self._kinds = "f" if self._is_box else "iu"
        self._check(predicted.dtype, predicted.shape)

    def __call__(self, actions: Array, single: bool) -> Any:
        """Convert actions to the dtype and bounds of the space; drop the batch axis of a single one.

        Raises:
            ValueError: they have a wrong shape or dtype; an action is not finite or does not exist, or no action was
                legal.
        """
        if single and self._kind == "Discrete" and actions.shape == (1,):  # fast path for the usual action
            action = actions.item()
            if type(action) is int and self._low <= action <= self._high:
                return self._scalar(action)
        self._check(actions.dtype, actions.shape[1:])
        if not self._is_box and bool(((actions < self._low) | (actions > self._high)).any()):
            # Checked before the cast, which may overflow.
            _check_legal(actions)
            given = shortened((actions[0] if single else actions).tolist())
            raise ValueError(f"the model's action {given} is not in {self._low} .. {self._high}")
        array = actions.astype(self._dtype, copy=False)
        if self._is_box:
            array = np.minimum(np.maximum(array, self._low), self._high)
            if not all_finite(array):
                raise ValueError(f"the model's action is not finite: {shortened(actions)}")
        return array[0] if single else array

    def _check(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        if dtype.kind not in self._kinds or shape != self._shape:
            expected = f"{'floats' if self._is_box else 'integers'} {list(self._shape)}"
            raise ValueError(f"its action is {dtype} {list(shape)}, but the {self._kind} action space takes {expected}")


class _CompositeOut:
    """Converts the parts of an action for a Dict or Tuple space."""

    def __init__(self, space: Mapping[str, Any], outputs: Mapping[str, ArraySpec], name: str) -> None:
        self._is_tuple = space["type"] == "Tuple"
        names = {key: f"{name}/{key}" if name else str(key) for key in space["spaces"]}
        self._parts = {key: (names[key], _out(part, outputs, names[key])) for key, part in space["spaces"].items()}

    def __call__(self, actions: Mapping[str, Array], single: bool) -> Any:
        made = {
            key: part(actions, single) if isinstance(part, _CompositeOut) else part(actions[name], single)
            for key, (name, part) in self._parts.items()
        }
        return tuple(made.values()) if self._is_tuple else made


def actions_out(space: Mapping[str, Any], outputs: Mapping[str, ArraySpec]) -> Callable[[Any, bool], Any]:
    """Make a converter of actions [B, ...] for ``env.step``, called with the actions and whether there is only one.

    Args:
        space: attributes of the action space.
        outputs: the model's predictions.

    Raises:
        ValueError: the model's predictions do not match the space.
    """
    return _out(space, outputs, "")


def _out(space: Mapping[str, Any], outputs: Mapping[str, ArraySpec], name: str) -> _ArrayOut | _CompositeOut:
    if "spaces" in space:
        return _CompositeOut(space, outputs, name)
    predicted = action_name(name)
    if predicted not in outputs:
        raise ValueError(f"its predictions lack {predicted!r}, which the action space needs: {', '.join(outputs)}")
    return _ArrayOut(space, outputs[predicted])


def _check_legal(actions: Array) -> None:
    without = (actions == NO_LEGAL_ACTION).reshape(len(actions), -1).any(axis=1)
    if without.any():
        raise ValueError(f"observation {int(without.argmax())} has a mask without a legal action")


def flat(value: Any, name: str = "") -> list[tuple[str, Any]]:
    """Flatten nested mappings and tuples; leaves are named by their keys, joined by ``/``."""
    if isinstance(value, Mapping):
        items = list(value.items())
    elif isinstance(value, tuple):
        items = list(enumerate(value))
    else:
        return [(name, value)]
    return [leaf for key, item in items for leaf in flat(item, f"{name}/{key}" if name else str(key))]
