"""Shared by the tables of the interfaces' arguments.

Each function returns cells as Markdown, or rows of them; ``generate.py`` writes
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ..compat.common.specs.tables import REQUIRED, Argument, SpecTable

Table: TypeAlias = tuple[Sequence[str], Iterable[Sequence[str]]]
"""The head and the rows."""


def markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table as Markdown."""
    head = list(head)
    return "\n".join(
        f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)
    )


def code(name: object) -> str:
    """Format as code."""
    return f"`{name}`"


def all_names(table: SpecTable, name: str) -> str:
    """An entry of a table under all of its names."""
    aliases = [alias for alias, of in table.aliases.items() if of == name]
    return ", ".join(map(code, (name, *aliases)))


def refused_names(table: SpecTable) -> Iterator[tuple[str, str]]:
    """Names that are refused; those with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for name, instead in table.refused.items():
        by_reason.setdefault(instead, []).append(code(name))
    for instead, names in by_reason.items():
        yield ", ".join(names), f"not supported: {instead}"


def users(keys: Sequence[str], every: Iterable[str]) -> str:
    """Which agents have an argument; those that have not, if these are fewer."""
    others = [key for key in every if key not in keys]
    if not others:
        return "all"
    few = len(others) < len(keys)
    return f"all but {', '.join(others)}" if few else ", ".join(keys)


def by_default(uses: Iterable[tuple[str, Any]]) -> dict[str, list[str]]:
    """The agents by the default that an argument has with them, as it is shown."""
    found: dict[str, list[str]] = {}
    for key, value in uses:
        shown = "required" if value is REQUIRED else code(repr(value))
        found.setdefault(shown, []).append(key)
    return found


def defaults(found: Mapping[str, Sequence[str]]) -> str:
    """The most frequent one first; the others with their agents."""
    first, *others = sorted(found, key=lambda shown: -len(found[shown]))
    return "; ".join([first, *(f"{', '.join(found[o])}: {o}" for o in others)])


def argument_list(taken: Iterable[Argument]) -> str:
    """The arguments of a step, a layer or a decay; required ones are bold."""
    return ", ".join(
        f"**`{one.name}`**"
        if one.default is REQUIRED
        else f"`{one.name}={one.default!r}`"
        for one in taken
    )
