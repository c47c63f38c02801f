"""Fragments of experience: several as one batch, and in files. :class:`IMPALAAgent` tells what they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from ..values.spaces import Space

Fragment: TypeAlias = "dict[str, Any]"
"""Arrays by name; states as their space has them, and internals as a tuple."""
_STATES: Final = "states"
_INTERNALS: Final = "initial_internal_states"


def joined(fragments: Sequence[Fragment], states: Space) -> Fragment:
    """Several as one dictionary of arrays [B, ...].

    Args:
        fragments: at least one.
        states: the space of their states.
    """
    records: Fragment = {}
    for name in fragments[0]:
        parts = [fragment[name] for fragment in fragments]
        if name == _STATES:
            flat = [states.flatten(part) for part in parts]
            records[name] = states.unflatten({key: np.stack([part[key] for part in flat]) for key in flat[0]})
        elif name == _INTERNALS:
            records[name] = tuple(np.stack(each) for each in zip(*parts, strict=True))
        else:
            records[name] = np.stack(parts)
    return records


def state_of(fragments: Sequence[Fragment], states: Space) -> dict[str, Any]:
    """Nested mappings of arrays; the arguments are those of :func:`joined`."""
    return {
        str(index): {
            **fragment,
            _STATES: states.flatten(fragment[_STATES]),
            _INTERNALS: {str(number): part for number, part in enumerate(fragment[_INTERNALS])},
        }
        for index, fragment in enumerate(fragments)
    }


def fragments_of(state: Mapping[str, Any], states: Space) -> list[Fragment]:
    """The fragments of which :func:`state_of` made this."""
    found = []
    for index in range(len(state)):
        fragment = dict(state[str(index)])
        internals = fragment[_INTERNALS]
        fragment[_STATES] = states.unflatten(fragment[_STATES])
        fragment[_INTERNALS] = tuple(internals[str(number)] for number in range(len(internals)))
        found.append(fragment)
    return found
