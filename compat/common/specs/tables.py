"""Tables of the entries that one place of a specification takes, with their arguments, as data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from .files import JSON

Check: TypeAlias = Callable[[str, Any], Any]
"""Function of an argument's place, for messages, and its value: the value in its final type, or an ArgumentError."""

REQUIRED: Final = object()
"""The default of an argument that must be given."""
ABSENT: Final = object()
"""The default of an argument that is left out where it is not given."""


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument of a module or an agent.

    Args:
        name: as the user writes it.
        default: its value where it is not given, :data:`REQUIRED` or :data:`ABSENT`.
        check: what it may be; None takes anything.
        module: of an argument that is itself a module: its table; ``check`` is not used.
        collected: ``list``: it is a list of modules of that table, or a list of such lists; ``dict``: they are by name.
        fed: it may change from update to update: a number, or a parameter.
        aliases: other names, of which one may be given in the place of ``name``.
    """

    name: str
    default: Any = REQUIRED
    check: Check | None = None
    module: str | None = None
    collected: type | None = None
    fed: bool = False
    aliases: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Entry:
    """One module of a table.

    Args:
        arguments: in their order.
        open: arguments beside these are kept as they are.
        finish: completes or checks the resolved arguments, which it is given with the place for messages.
        classes: names of its class in the original library, beside the entry's own name in capitals.
        ignored: arguments that have no meaning here, each with its default.
    """

    arguments: tuple[Argument, ...] = ()
    open: bool = False
    finish: Callable[[str, dict[str, Any]], dict[str, Any]] | None = None
    classes: tuple[str, ...] = ()
    ignored: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Argument names, with their aliases."""
        return [name for argument in self.arguments for name in (argument.name, *argument.aliases)]


@dataclasses.dataclass(frozen=True)
class SpecTable:
    """Entries for one place of an agent's specification.

    Args:
        name: of the table, for messages.
        entries: by name.
        default: the entry that is meant where no ``type`` is given.
        aliases: other names of entries.
        refused: names that are known and not supported, and for each what to use instead.
        typed: does a specification name its entry under ``type``? If not, there is one entry, the default.
        ignored: arguments that have no meaning here, each with its default.
        alone: in words, what may stand alone, as the first argument of the default entry; empty: nothing may.
        bare: arguments that the default entry has where its first one stands alone.
        bare_names: names, of another table, that may stand as the first argument of the default entry.
        from_callable: the entry and arguments that a class or function of the user stands for.
        rewrite: function of the place, an entry's name and the arguments given; returns the name and arguments meant.
        normalized: names are alike if this makes the same of them.
        prefix: dotted names that begin with it are those of the original library's classes; empty: none are.
        dotted: may another dotted name stand for what it imports?
        suffixes: of names of files, beside which any file that exists may be named.
    """

    name: str
    entries: Mapping[str, Entry]
    default: str | None = None
    aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)
    refused: Mapping[str, str] = dataclasses.field(default_factory=dict)
    typed: bool = True
    ignored: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    alone: str = ""
    bare: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    bare_names: Callable[[str], bool] | None = None
    from_callable: Callable[[str, Any], tuple[str, dict[str, Any]]] | None = None
    rewrite: Callable[[str, str, dict[str, Any]], tuple[str, dict[str, Any]]] | None = None
    normalized: Callable[[str], str] = str
    prefix: str = ""
    dotted: bool = True
    suffixes: tuple[str, ...] = JSON

    def find(self, name: str) -> str | None:
        """The entry with this name or alias, or None."""
        return self._find({**{key: key for key in self.entries}, **self.aliases}, name)

    def instead_of(self, name: str) -> str | None:
        """The replacement of a name that is known and not supported, or None."""
        return self._find(self.refused, name)

    def _find(self, values: Mapping[str, str], name: str) -> str | None:
        wanted = self.normalized(name)
        found = (value for known, value in values.items() if self.typed and self.normalized(known) == wanted)
        return next(found, None)

    def of_class(self, name: str) -> str | None:
        """The entry whose class has this name in the original library, or None."""
        of_name = (key for key, one in self.entries.items() if _is_class(key, name) or name in one.classes)
        return next(of_name, None)

    def instead_of_class(self, name: str) -> str | None:
        """The replacement of a class of the original library that is not supported, or None."""
        return next((instead for key, instead in self.refused.items() if _is_class(key, name)), None)


def _is_class(key: str, name: str) -> bool:
    return key.replace("_", "") == name.lower()


def without_case(name: str) -> str:
    """A name without case, ``-`` and ``_``, for ``SpecTable.normalized``."""
    return name.lower().replace("-", "").replace("_", "")
