"""Dotted names in specifications: names of RLgraph's classes mean those of this interface."""

from __future__ import annotations

from typing import Any, Final

from ...common.specs import files
from .rlgraph_errors import translate_errors

_THEIRS: Final = "rlgraph."
_OURS: Final = __name__.removesuffix("utils.modules")


def import_object(where: str, name: str) -> Any:
    """The object with a dotted name: ``"rlgraph.agents.DQNAgent"`` is this interface's.

    Raises:
        RLGraphError: it cannot be imported.
    """
    ours = _OURS + name.removeprefix(_THEIRS) if name.startswith(_THEIRS) else name
    with translate_errors():
        return files.import_object(where, ours)
