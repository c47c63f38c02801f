"""Tables of the entries allowed in one place of a specification, with their arguments, as data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from .files import JSON

Check: TypeAlias = Callable[[str, Any], Any]
"""Function of an argument's place (for messages) and value; returns the final value or raises ArgumentError."""

REQUIRED: Final = object()
"""Default of a required argument."""
ABSENT: Final = object()
"""Default of an argument that is omitted if not given."""


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument of a module or an agent.

    Args:
        name: its name in specifications.
        default: its default value, :data:`REQUIRED` or :data:`ABSENT`.
        check: check of its value; None accepts anything.
        module: the table, if the argument is itself a module; ``check`` is not used then.
        collected: ``list``: a list of modules of that table, or a list of such lists; ``dict``: modules by name.
        fed: may it change from update to update (a number or a parameter)?
        aliases: other names, one of which may be given instead of ``name``.
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
        arguments: its arguments in order.
        open: keep other arguments as they are?
        finish: completes or checks the resolved arguments; takes them and their place, for messages.
        classes: names of its class in the original library, besides the entry's own name in CamelCase.
        ignored: arguments without effect, each with its default.
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
        name: name of the table, for messages.
        entries: entries by name.
        default: the entry used without ``type``.
        aliases: other names of entries.
        refused: known names that are not supported, each with what to use instead.
        typed: does a specification name its entry under ``type``? If not, the default is the only entry.
        ignored: arguments without effect, each with its default.
        alone: words for the first argument of the default entry if it may stand alone; empty: it may not.
        bare: arguments added to the default entry if its first one stands alone.
        bare_names: names of another table that may stand alone as the first argument of the default entry.
        from_callable: function that turns a user's class or function into an entry and its arguments.
        rewrite: function of the place, an entry's name and the arguments given; returns the name and arguments meant.
        normalized: normalises names before they are compared.
        prefix: prefix of dotted names of the original library's classes; empty: none.
        dotted: may any other dotted name be imported?
        suffixes: suffixes of file names; any existing file may be named, too.
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
        """The replacement for a known name that is not supported, or None."""
        return self._find(self.refused, name)

    def _find(self, values: Mapping[str, str], name: str) -> str | None:
        wanted = self.normalized(name)
        found = (value for known, value in values.items() if self.typed and self.normalized(known) == wanted)
        return next(found, None)

    def of_class(self, name: str) -> str | None:
        """The entry for the class of this name in the original library, or None."""
        of_name = (key for key, one in self.entries.items() if _is_class(key, name) or name in one.classes)
        return next(of_name, None)

    def instead_of_class(self, name: str) -> str | None:
        """The replacement for an unsupported class of the original library, or None."""
        return next((instead for key, instead in self.refused.items() if _is_class(key, name)), None)


def _is_class(key: str, name: str) -> bool:
    return key.replace("_", "") == name.lower()


def without_case(name: str) -> str:
    """A name without case, ``-`` and ``_``, for ``SpecTable.normalized``."""
    return name.lower().replace("-", "").replace("_", "")
