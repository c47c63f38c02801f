"""The error for invalid arguments, and the checks that raise it."""

from __future__ import annotations

from ....core.errors import ArgumentError
from ...common.refusals import Refusals


class RLGraphError(ArgumentError):
    """An invalid call, a ``ValueError``: ``argument`` and ``value`` say what is wrong; nothing was changed."""


class RLGraphWarning(UserWarning):
    """A given argument has no effect, or another effect than in RLgraph."""


_refusals = Refusals(RLGraphError)
refuse, translate_errors, as_array = _refusals.refuse, _refusals.translate_errors, _refusals.as_array
choice, number, integer, flag = _refusals.choice, _refusals.number, _refusals.integer, _refusals.flag
refuse_unknown, mapping, unknown_at_once = _refusals.refuse_unknown, _refusals.mapping, _refusals.unknown_at_once
