"""Modules: a specification, in any form, becomes a dictionary with the module's name and all its arguments."""

from __future__ import annotations

from typing import Any

from ...common.forms import modules
from ..values.errors import told
from .rooms import ROOMS


def resolve(where: str, spec: Any, room: str, ignored: list[str] | None = None) -> dict[str, Any]:
    """The module that a specification means, with all its arguments: ``common.forms.modules.resolve``, of these rooms.

    Raises:
        TensorforceError: the module is unknown or not supported, or an argument is unknown, missing or invalid.
    """
    with told():
        return modules.resolve(where, spec, room, ROOMS, ignored)
