"""Rewards and terminals, checked: one, or one for each record."""

from __future__ import annotations

from typing import Any, Final, NoReturn

import numpy as np

from ....core.checks import shortened
from ....core.protocols import Array
from ..utils.rlgraph_errors import as_array, refuse
from .bool_box import BoolBox
from .box_space import LARGEST, BoxSpace
from .float_box import FloatBox

FLOATS: Final = (float, np.float32, np.float64)
"""The usual types of a reward, which are read fast."""


def read_rewards(argument: str, given: Any, count: int | None) -> Array:
    """Rewards as float32 [B]; ``count`` is how many there must be, None for one number.

    Raises:
        RLGraphError: they are not numbers, not finite as float32, or of another length.
    """
    if count is None and type(given) in FLOATS and -LARGEST <= given <= LARGEST:
        return np.array([given], np.float32)
    return _column(argument, given, count, FloatBox())


def read_terminals(argument: str, given: Any, count: int | None) -> Array:
    """Terminals as bool [B]; ``count`` is how many there must be, None for one. False alone stands for all.

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
    """Refuse a batch of ``length``, or one for None, where there must be ``count``."""
    wanted = "one, as the states are one" if count is None else f"{count}, as there are states"
    refuse(argument, f"must be {wanted}; got {'one' if length is None else f'a batch of {length}'}", given)
