"""Errors for users' mistakes, and the checks that find them."""

from __future__ import annotations

from ....core.errors import ArgumentError
from ...common.refusals import Refusals


class TensorforceError(ArgumentError):
    """A call is wrong: ``argument`` and ``value`` say what, and nothing was changed.

    Environments of users raise it with a message alone.
    """

    def __init__(self, message: str, argument: str = "", value: object = None) -> None:
        super().__init__(message, argument, value)


_refusals = Refusals(TensorforceError)
refuse, translate_errors, as_array = _refusals.refuse, _refusals.translate_errors, _refusals.as_array
choice, number, integer, flag = _refusals.choice, _refusals.number, _refusals.integer, _refusals.flag
refuse_unknown, mapping = _refusals.refuse_unknown, _refusals.mapping
