"""Modules: a specification, in any form, becomes a dictionary with the module's name and all its arguments."""

from __future__ import annotations

from typing import Any

from ...common.specs import modules
from ..spaces.errors import translate_errors
from .agent_tables import TABLES


def resolve(where: str, spec: Any, kind: str, ignored: list[str] | None = None) -> dict[str, Any]:
    """The module that a specification means, with all its arguments: ``common.forms.modules.resolve``, of these tables.

    Raises:
        TensorforceError: the module is unknown or not supported, or an argument is unknown, missing or invalid.
    """
    with translate_errors():
        return modules.resolve(where, spec, kind, TABLES, ignored)
