"""Checked input of callers: states and actions, one or a batch; and actions out again.

Actions in an IntBox are numbered from 0 inside (category = action - low): readers take ``low`` away, and
:func:`actions_out` adds it again. States keep their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from ....core.checks import shortened
from ....core.protocols import Array
from ..utils.rlgraph_errors import RLGraphError, as_array, refuse
from .box_space import LARGEST, BoxSpace
from .float_box import FloatBox
from .int_box import IntBox
from .space import Space

Arrays: TypeAlias = "dict[str, Array]"
"""By flat name, each [B, ...] and of the space's dtype."""
_FAST: Final = (np.dtype(np.float32), np.dtype(np.float64))
_FAST_INTS: Final = (int, np.int32, np.int64)


class StatesReader:
    """Turns states, as callers write them, into arrays by flat name.

    Args:
        prefix: whose methods are called, for messages: ``"DQNAgent"``.
        space: of one state.
    """

    _what = "states"
    _is_bounded = False

    def __init__(self, prefix: str, space: Space) -> None:
        self._prefix, self._space, self._flat = prefix, space, space.flat()
        self._lows: Arrays = {}
        box = self._flat.get("")
        self._shape = box.shape if isinstance(box, FloatBox) else None
        is_number = isinstance(box, IntBox) and box.shape == ()
        self._range = range(int(box.low), int(box.high)) if box is not None and is_number else None
        self._scalar: Any = None if box is None else box.dtype.type

    def __call__(self, where: str, states: Any, what: str = "") -> tuple[Arrays, bool]:
        """The states' arrays, copies [B, ...] by flat name, and whether it was one state (then B is 1).

        Args:
            where: the method that was called: ``"get_action"``.
            states: one state or a batch of at least one; which it is follows from the rank.
            what: the argument's name; by default ``states``, or ``actions``.

        Raises:
            RLGraphError: a part is missing or unknown, or of another type or shape, out of an IntBox's range, or not
                finite as float32.
        """
        usual = self.one(states)
        if usual is not None:
            return {"": usual[None]}, True
        found, single = self._read(f"{self._prefix}.{where}: {what or self._what}", states)
        for name, low in self._lows.items():
            found[name] -= low
        return found, single

    def one(self, value: Any) -> Array | None:
        """The short way, for the most usual: one value of a space with one part; None where it is anything else.

        Returns:
            A copy without a batch axis, or a NumPy scalar.
        """
        if type(value) is np.ndarray:
            if value.shape == self._shape and value.dtype in _FAST and 0 not in (np.abs(value) <= LARGEST).tobytes():
                return value.astype(np.float32)
        elif self._range is not None and type(value) in _FAST_INTS and int(value) in self._range:
            number: Array = self._scalar(value)
            return number
        return None

    def _read(self, argument: str, given: Any) -> tuple[Arrays, bool]:
        found: Arrays = {}
        single: bool | None = None
        for name, value in _parts(argument, self._space, given).items():
            box, place = self._flat[name], argument + (f"[{name!r}]" if name else "")
            array = as_array(place, value)
            is_one = array.shape == box.shape
            if not is_one and (array.shape[1:] != box.shape or not array.ndim or not len(array)):
                problem = f"must have the shape {box.shape}, or (B, ...) of that for a batch; got {array.shape}"
                refuse(place, problem, value)
            if single not in (None, is_one):
                refuse(place, "must be a batch like the parts before it, or one value like them", value)
            single = is_one
            if problem := box.problem(array, bounded=self._is_bounded):
                refuse(place, f"{problem}, got {shortened(value)}", value)
            found[name] = np.array(array[None] if is_one else array, box.dtype)
        if len({len(array) for array in found.values()}) > 1:
            refuse(argument, f"has batches of different lengths: {_lengths(found)}", given)
        return found, bool(single)


class ActionsReader(StatesReader):
    """Turns actions into arrays by flat name: integers numbered from 0, floats within their bounds."""

    _what = "actions"
    _is_bounded = True

    def __init__(self, prefix: str, space: Space) -> None:
        super().__init__(prefix, space)
        self._lows = _lows(self._flat)
        if self._lows or self._shape is not None:
            self._range = self._shape = None  # not the short way


Converter: TypeAlias = Callable[[Mapping[str, Array], bool], Any]


def actions_out(space: Space) -> Converter:
    """Makes what ``get_action`` returns of arrays [B, ...] by flat name, whose integers are numbered from 0.

    The function takes the arrays and whether one action is wanted (of B = 1): that is a NumPy scalar or an array of the
    space's dtype, a batch an array; for a Dict or Tuple a dictionary or tuple of these. All of them are copies.
    """
    lows, flat = _lows(space.flat()), space.flat()

    def convert(arrays: Mapping[str, Array], single: bool) -> Any:
        found = {}
        for name, box in flat.items():
            array = np.array(arrays[name][0] if single else arrays[name], box.dtype)
            found[name] = (array + lows[name] if name in lows else array)[()]
        return space.unflatten(found)

    return convert


def counted_from_zero(flat: Mapping[str, BoxSpace]) -> dict[str, BoxSpace]:
    """Boxes of actions as they are inside: those of integers with a number of values begin at 0."""
    return {
        name: IntBox(0, box.num_categories, shape=box.shape)
        if isinstance(box, IntBox) and box.num_categories is not None
        else box
        for name, box in flat.items()
    }


def _lows(flat: Mapping[str, BoxSpace]) -> Arrays:
    """Lows to subtract from integers, where they are not 0."""
    boxes = {name: box for name, box in flat.items() if isinstance(box, IntBox) and box.num_categories is not None}
    return {name: box.low.astype(box.dtype) for name, box in boxes.items() if box.low.any()}


def _parts(argument: str, space: Space, given: Any) -> dict[str, Any]:
    try:
        return space.flatten(given)
    except RLGraphError as error:
        raise RLGraphError(f"{argument}: {error}", argument, error.value) from None


def _lengths(found: Mapping[str, Array]) -> str:
    return ", ".join(f"{name} {len(array)}" for name, array in found.items())
