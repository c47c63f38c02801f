"""A part of a specification: a dictionary with a ``type``, or the bare type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...common.specs.tables import without_case
from ..utils.rlgraph_errors import choice, mapping, refuse


def kind_and_arguments(
    where: str,
    given: Any,
    names: Iterable[str],
    *,
    default: str | None = None,
    aliases: Mapping[str, str] | None = None,
) -> tuple[str, dict[str, Any]]:
    """The type of a part, as one of ``names``, and all else that was given; what was given stays unchanged.

    Args:
        where: its place, for messages.
        given: a dictionary or a string. Case, ``-`` and ``_`` of the type do not count. A ``scope`` and a
            ``backend``, which RLgraph's components have, are left out.
        names: of the types.
        default: the type of a dictionary without one.
        aliases: other names, in lower case without ``-`` and ``_``, to those of the types.

    Raises:
        RLGraphError: the type is missing or unknown.
    """
    names = list(names)
    arguments = {"type": given} if isinstance(given, str) else dict(mapping(where, given))
    for name in ("scope", "backend"):  # of components
        arguments.pop(name, None)
    kind = arguments.pop("type", default)
    if kind is None:
        refuse(f"{where}['type']", f"is missing: it is one of {', '.join(names)}")
    plain = {**{without_case(name): name for name in names}, **(aliases or {})}
    if isinstance(kind, str) and without_case(kind) in plain:
        return plain[without_case(kind)], arguments
    return choice(f"{where}['type']", kind, names), arguments
