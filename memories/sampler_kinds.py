"""Samplers by name, for the memories' argument ``sampler``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from ..core.checks import choice, did_you_mean
from ..core.errors import ArgumentError
from .samplers import Prioritized, Sampler, Uniform

SamplerLike: TypeAlias = "str | Mapping[str, Any] | Sampler | None"
"""Argument of :func:`make_sampler`."""
KINDS: Final[dict[str, type[Sampler]]] = {"uniform": Uniform, "prioritized": Prioritized}


def is_ours(sampler: Sampler) -> bool:
    """Whether it is one of axonrl's own classes. Subclasses are not, as they may do anything."""
    return type(sampler) in KINDS.values()


def make_sampler(value: SamplerLike, name: str = "sampler") -> Sampler:
    """Make a sampler from what a user wrote.

    Args:
        value: a kind (``"prioritized"``), a mapping with the arguments of one (``{"kind": "prioritized", "alpha":
            0.5}``), a sampler, or None for :class:`Uniform`.
        name: the argument's name in error messages.

    Raises:
        ArgumentError: ``value`` is none of these, or a kind or an argument is unknown or invalid.
    """
    if value is None:
        return Uniform()
    if isinstance(value, Sampler):
        return value
    if isinstance(value, type):
        kind = value.__name__
        raise ArgumentError(f"{name} must be an instance: got the class {kind}, expected {kind}(...)", name, value)
    if isinstance(value, Mapping):
        arguments = dict(value)
        kind = choice(f"{name}.kind", arguments.pop("kind", None), KINDS)
    else:
        arguments, kind = {}, choice(name, value, KINDS)
    known = list(inspect.signature(KINDS[kind]).parameters)
    for key in arguments:
        if key not in known:
            only = f"only {', '.join(known)}" if known else "no arguments"
            message = f"{name}: {kind} has no argument {key!r}{did_you_mean(key, known)}, {only}"
            raise ArgumentError(message, f"{name}.{key}", arguments[key])
    return KINDS[kind](**arguments)
