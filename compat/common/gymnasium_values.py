"""Conversion of values between Gymnasium's spaces and a dialect, by flat array name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gymnasium.spaces import Dict, Tuple

from ...environments.actions import nest
from ...environments.spaces import AnySpace, parts


class Codec(NamedTuple):
    """Conversions of one array between Gymnasium and a dialect."""

    read: Callable[[Any], Any]
    """Function from Gymnasium's array to the dialect's."""
    write: Callable[[Any], Any]
    """Function from the dialect's array to Gymnasium's."""


class Values:
    """Converts the values of one space.

    Args:
        space: the Gymnasium space.
        codecs: codecs of its arrays, by flat name.
    """

    def __init__(self, space: AnySpace, codecs: Mapping[str, Codec]) -> None:
        self._space, self._codecs = space, codecs

    def read(self, value: Any) -> dict[str, Any]:
        """Convert a value of the space to the dialect's arrays by flat name."""
        return {name: self._codecs[name].read(one) for name, one in flat_values(self._space, value).items()}

    def write(self, values: Mapping[str, Any]) -> Any:
        """Convert the dialect's arrays by flat name to a value of the space."""
        return nest(self._space, {name: codec.write(values[name]) for name, codec in self._codecs.items()})


def flat_values(space: AnySpace, value: Any, name: str = "") -> dict[str, Any]:
    """A value's arrays by flat name, as in ``environments.spaces.leaves``."""
    if not isinstance(space, Dict | Tuple):
        return {name: value}
    keys: Any = space.spaces if isinstance(space, Dict) else range(len(space.spaces))
    found: dict[str, Any] = {}
    for key, (inner, part) in zip(keys, parts(space), strict=True):
        found |= flat_values(part, value[key], f"{name}/{inner}" if name else inner)
    return found
