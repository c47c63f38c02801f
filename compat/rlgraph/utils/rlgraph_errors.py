"""The error of a user's mistake, and the checks that find it."""

from __future__ import annotations

from ....core.errors import ArgumentError
from ...common.refusals import Refusals


class RLGraphError(ArgumentError):
    """A call is wrong: ``argument`` and ``value`` say what, and nothing was changed. It is a ``ValueError``."""


class RLGraphWarning(UserWarning):
    """Something that was given has no effect, or another one than in RLgraph."""


_refusals = Refusals(RLGraphError)
refuse, translate_errors, as_array = _refusals.refuse, _refusals.translate_errors, _refusals.as_array
choice, number, integer, flag = _refusals.choice, _refusals.number, _refusals.integer, _refusals.flag
refuse_unknown, mapping, unknown_at_once = _refusals.refuse_unknown, _refusals.mapping, _refusals.unknown_at_once
