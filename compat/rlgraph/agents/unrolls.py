"""Unrolls of experience: several as one batch, and in files. :class:`IMPALAAgent` tells what they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from ..spaces import Space

Unroll: TypeAlias = "dict[str, Any]"
"""Arrays by name; states as their space has them, and internals as a tuple."""
_STATES: Final = "states"
_INTERNALS: Final = "initial_internal_states"


def joined(unrolls: Sequence[Unroll], states: Space) -> Unroll:
    """Several as one dictionary of arrays [B, ...].

    Args:
        unrolls: at least one.
        states: the space of their states.
    """
    records: Unroll = {}
    for name in unrolls[0]:
        parts = [unroll[name] for unroll in unrolls]
        if name == _STATES:
            flat = [states.flatten(part) for part in parts]
            records[name] = states.unflatten({key: np.stack([part[key] for part in flat]) for key in flat[0]})
        elif name == _INTERNALS:
            records[name] = tuple(np.stack(each) for each in zip(*parts, strict=True))
        else:
            records[name] = np.stack(parts)
    return records


def state_of(unrolls: Sequence[Unroll], states: Space) -> dict[str, Any]:
    """Nested mappings of arrays; the arguments are those of :func:`joined`."""
    return {
        str(index): {
            **unroll,
            _STATES: states.flatten(unroll[_STATES]),
            _INTERNALS: {str(number): part for number, part in enumerate(unroll[_INTERNALS])},
        }
        for index, unroll in enumerate(unrolls)
    }


def unrolls_of(state: Mapping[str, Any], states: Space) -> list[Unroll]:
    """The unrolls of which :func:`state_of` made this."""
    found = []
    for index in range(len(state)):
        unroll = dict(state[str(index)])
        internals = unroll[_INTERNALS]
        unroll[_STATES] = states.unflatten(unroll[_STATES])
        unroll[_INTERNALS] = tuple(internals[str(number)] for number in range(len(internals)))
        found.append(unroll)
    return found
