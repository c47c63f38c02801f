"""Reads and checks callers' states, actions, rewards and terminals, single or in batches; and returns actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np

from ....core.checks import shortened
from ....core.protocols import Array
from ..utils.rlgraph_errors import RLGraphError, as_array, refuse
from .bool_box import BoolBox
from .box_space import LARGEST, BoxSpace
from .float_box import FloatBox
from .int_box import IntBox
from .space import Space

Arrays: TypeAlias = "dict[str, Array]"
"""Arrays [B, ...] by flat name, of the space's dtype."""
FLOATS: Final = (float, np.float32, np.float64)
"""Usual types of a reward, on the fast path."""
_FAST: Final = (np.dtype(np.float32), np.dtype(np.float64))
_FAST_INTS: Final = (int, np.int32, np.int64)


class StatesReader:
    """Turns callers' states into arrays by flat name.

    Args:
        prefix: class whose methods are called, for messages: ``"DQNAgent"``.
        space: space of a single state.
    """

    what = "states"
    _is_bounded = False

    def __init__(self, prefix: str, space: Space) -> None:
        self._prefix, self._space, self._flat = prefix, space, space.flat()
        box = self._flat.get("")
        self._shape = box.shape if isinstance(box, FloatBox) and not self._is_bounded else None
        is_number = isinstance(box, IntBox) and box.shape == ()
        self._range = range(int(box.low), int(box.high)) if box is not None and is_number else None
        self._scalar: Any = None if box is None else box.dtype.type

    def __call__(self, where: str, states: Any, what: str = "") -> tuple[Arrays, bool]:
        """The states' arrays, copies [B, ...] by flat name, and whether it was one state (then B is 1).

        Args:
            where: the method that was called: ``"get_action"``.
            states: one state, or a batch of at least one; the rank tells which.
            what: the argument's name; by default ``states``, or ``actions``.

        Raises:
            RLGraphError: a part is missing or unknown, or of another type or shape, out of an IntBox's range, or not
                finite as float32.
        """
        usual = self.one(states)
        if usual is not None:
            return {"": usual[None]}, True
        argument = f"{self._prefix}.{where}: {what or self.what}"
        try:
            parts = self._space.flatten(states)
        except RLGraphError as error:
            raise RLGraphError(f"{argument}: {error}", argument, error.value) from None
        found = {name: self._read(argument + (f"[{name!r}]" if name else ""), name, one) for name, one in parts.items()}
        lengths = {n: None if x.shape == self._flat[n].shape else len(x) for n, x in found.items()}
        first = next(iter(lengths.values()))
        for name, length in lengths.items():
            if (length is None) != (first is None):
                problem = "must be a batch like the parts before it, or one value like them"
                refuse(f"{argument}[{name!r}]", problem, parts[name])
        if len(set(lengths.values())) > 1:
            refuse(argument, f"has batches of different lengths: {lengths}", states)
        return ({n: x[None] for n, x in found.items()}, True) if first is None else (found, False)

    def one(self, value: Any) -> Array | None:
        """Fast path for a single value of a space with one part; None for anything else.

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

    def _read(self, place: str, name: str, value: Any) -> Array:
        box, array = self._flat[name], as_array(place, value)
        if array.shape != box.shape and (array.shape[1:] != box.shape or not array.ndim or not len(array)):
            problem = f"must have the shape {box.shape}, or (B, ...) of that for a batch; got {array.shape}"
            refuse(place, problem, value)
        if problem := box.problem(array, bounded=self._is_bounded):
            refuse(place, f"{problem}, got {shortened(value)}", value)
        return np.array(array, box.dtype)


class ActionsReader(StatesReader):
    """Turns actions into arrays by flat name; floats must be within their bounds."""

    what = "actions"
    _is_bounded = True


Converter: TypeAlias = Callable[[Mapping[str, Array], bool], Any]


def actions_out(space: Space) -> Converter:
    """Function from arrays [B, ...] by flat name to the actions that ``get_action`` returns.

    It takes the arrays and whether a single action is wanted (B = 1). A single action is a NumPy scalar or an array of
    the space's dtype, a batch an array; for a Dict or Tuple a dictionary or tuple of these. All are copies.
    """
    flat = space.flat()

    def convert(arrays: Mapping[str, Array], single: bool) -> Any:
        return space.unflatten(
            {name: np.array(arrays[name][0] if single else arrays[name], box.dtype)[()] for name, box in flat.items()}
        )

    return convert


def read_rewards(argument: str, given: Any, count: int | None) -> Array:
    """Rewards as float32 [B]; ``count`` is the required number, None for a single reward.

    Raises:
        RLGraphError: they are not numbers, not finite as float32, or of another length.
    """
    if count is None and type(given) in FLOATS and -LARGEST <= given <= LARGEST:
        return np.array([given], np.float32)
    return _column(argument, given, count, FloatBox())


def read_terminals(argument: str, given: Any, count: int | None) -> Array:
    """Terminals as bool [B]; ``count`` is the required number, None for a single one. False alone stands for all.

    Raises:
        RLGraphError: they are neither truth values nor 0 and 1, or of another length.
    """
    if given is False or (given is True and count is None):
        return np.full(count or 1, given)
    return _column(argument, given, count, BoolBox())


def _column(argument: str, given: Any, count: int | None, box: BoxSpace) -> Array:
    """One value for each record, [B]; for one record also an array of one."""
    array = as_array(argument, given)
    if count is None and array.shape in ((), (1,)):
        array = array.reshape(1)
    elif array.ndim != 1 or len(array) != count:
        refuse_length(argument, len(array) if array.ndim else None, count, given)
    if problem := box.problem(array, bounded=False):
        refuse(argument, f"{problem}, got {shortened(given)}", given)
    return np.array(array, box.dtype)


def refuse_length(argument: str, length: int | None, count: int | None, given: Any) -> NoReturn:
    """Refuse a batch of ``length`` (None: a single value) where ``count`` is required."""
    wanted = "one, as the states are one" if count is None else f"{count}, as there are states"
    refuse(argument, f"must be {wanted}; got {'one' if length is None else f'a batch of {length}'}", given)
