"""From the ``params`` that a user passes to the frozen dataclass in which an algorithm keeps its defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from ...checks import did_you_mean, integer

ParamsT = TypeVar("ParamsT")


def from_params(cls: type[ParamsT], params: Mapping[str, Any] | ParamsT | None) -> ParamsT:
    """The dataclass ``cls`` with some of its defaults replaced.

    Args:
        cls: a dataclass that checks its values on construction.
        params: name to value; an instance of ``cls``, returned as it is; or ``None`` for the defaults.

    Raises:
        ValueError: it is none of these, or a name is unknown: names the nearest and all.
    """
    if isinstance(params, cls):
        return params
    if params is None:
        return cls()
    if not isinstance(params, Mapping):
        raise ValueError(f"params must be a mapping or a {cls.__name__}, got {params!r}")
    names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]  # a TypeVar cannot say so
    for key in params:
        if key not in names:
            raise ValueError(f"{cls.__name__} has no {key!r}{did_you_mean(key, names)}, only {', '.join(names)}")
    return cls(**params)


def layer_sizes(name: str, value: Any) -> tuple[int, ...]:
    """The sizes of consecutive layers; an empty list is none.

    Raises:
        ValueError: it is no list of positive integers.
    """
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{name} must be a list of layer sizes, got {value!r}")
    return tuple(integer(name, size, at_least=1) for size in value)
