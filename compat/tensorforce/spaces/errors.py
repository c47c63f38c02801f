"""The error for invalid arguments, and the checks that raise it."""

from __future__ import annotations

from ....core.errors import ArgumentError
from ...common.refusals import Refusals


class TensorforceError(ArgumentError):
    """An invalid call: ``argument`` and ``value`` say what is wrong; nothing was changed.

    Users' environments may raise it with only a message.
    """

    def __init__(self, message: str, argument: str = "", value: object = None) -> None:
        super().__init__(message, argument, value)


_refusals = Refusals(TensorforceError)
refuse, translate_errors, as_array = _refusals.refuse, _refusals.translate_errors, _refusals.as_array
choice, number, integer, flag = _refusals.choice, _refusals.number, _refusals.integer, _refusals.flag
refuse_unknown, mapping = _refusals.refuse_unknown, _refusals.mapping
