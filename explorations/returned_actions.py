"""Checks of an exploration's results, as a user's own may return anything."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NoReturn

import numpy as np

from ..core.checks import shortened
from ..core.errors import ArgumentError
from ..core.protocols import Array, ArrayTree


def check_returned(
    exploration: Any, returned: Any, predictions: Mapping[str, Any], record: Collection[str]
) -> tuple[ArrayTree, Mapping[str, Array]]:
    """Check the result of an exploration, and return its actions and extras.

    Args:
        exploration: the policy that was called.
        returned: its result.
        predictions: its argument, arrays [N, ...].
        record: names of predictions and extras that are stored.

    Raises:
        ArgumentError: the result does not follow the ``Exploration`` protocol; says what was expected and given, and
            names the class.
    """
    if not isinstance(returned, tuple) or len(returned) != 2:
        _refuse(exploration, "(actions, extras)", shortened(returned))
    actions, extras = returned
    greedy = predictions["action"]
    _check_like("actions", exploration, actions, greedy)
    if not isinstance(extras, Mapping):
        _refuse(exploration, "extras as a mapping of names to arrays", shortened(extras))
    rows = len(next(iter(greedy.values())) if isinstance(greedy, Mapping) else greedy)
    for name in record:
        value = extras.get(name)
        if name in extras and (not isinstance(value, np.ndarray) or value.shape[:1] != (rows,)):
            _refuse(exploration, f"extras[{name!r}] as an array [{rows}, ...]", _value_summary(value))
        if name not in extras and name not in predictions:
            _refuse(exploration, f"extras[{name!r}], which EstimatorSpec.record names", f"{list(extras)}")
    return actions, extras


def level_of(exploration: Any, timestep: int) -> float:
    """Level of exploration, for reports; NaN if the policy has none.

    Raises:
        ArgumentError: the level is not a number.
    """
    level = getattr(exploration, "level", None)
    if level is None:
        return float("nan")
    found = level(timestep)
    try:
        return float(found)
    except (TypeError, ValueError):
        message = f"{name_of(exploration)}.level must return a number, got {shortened(found)}"
        raise ArgumentError(message, "exploration", exploration) from None


def name_of(exploration: Any) -> str:
    """Name of a policy's class, or of a function."""
    return str(getattr(exploration, "__name__", type(exploration).__name__))


def _check_like(what: str, exploration: Any, given: Any, greedy: Any) -> None:
    if not isinstance(greedy, Mapping):
        kinds = "fiu" if greedy.dtype.kind == "f" else "iu"
        if not isinstance(given, np.ndarray) or given.shape != greedy.shape or given.dtype.kind not in kinds:
            wanted = f"{what} like predictions['action'], {_value_summary(greedy)}"
            _refuse(exploration, wanted, _value_summary(given))
        return
    if not isinstance(given, Mapping) or given.keys() != greedy.keys():
        found = f"a mapping of {', '.join(map(repr, given))}" if isinstance(given, Mapping) else _value_summary(given)
        _refuse(exploration, f"{what} as a mapping of {', '.join(map(repr, greedy))}", found)
    for name, part in greedy.items():
        _check_like(f"{what}[{name!r}]", exploration, given[name], part)


def _refuse(exploration: Any, wanted: str, given: str) -> NoReturn:
    message = f"the exploration {name_of(exploration)} must return {wanted}, got {given}"
    raise ArgumentError(message, "exploration", exploration)


def _value_summary(value: Any) -> str:
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, np.ndarray) else shortened(value)
