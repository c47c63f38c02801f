"""Resolves a module's specification, in any form, to a dictionary with its name and all its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ....core.checks import shortened
from ..refusals import mapping, refuse, refuse_unknown
from .module_specs import parse_spec
from .tables import ABSENT, REQUIRED, Argument, Entry, SpecTable

Resolve: TypeAlias = Callable[[str, Any, str], dict[str, Any]]
"""Resolves a module inside another one, from its place, specification and kind."""


def resolve(
    where: str, spec: Any, kind: str, tables: Mapping[str, SpecTable], ignored: list[str] | None = None
) -> dict[str, Any]:
    """Resolve a specification to the module with all its arguments.

    Args:
        where: the argument's place, for messages and as ``argument`` of errors: ``"Agent.create: optimizer"``.
        spec: a dictionary with ``type``; one without, for the default of its kind; a name; the name of a file; a dotted
            name; a class or function; or the first argument of the default module. It is left unchanged.
        kind: the table of allowed modules, a key of ``tables``.
        tables: all tables by name.
        ignored: collects given arguments without effect.

    Returns:
        The arguments with their defaults, and ``type`` if the table has several modules. Modules inside are resolved
        too. Everything but the user's functions and classes can be written as JSON.

    Raises:
        ArgumentError: the module is unknown or not supported, or an argument is unknown, missing or invalid.
    """
    table = tables[kind]
    if spec is None:
        refuse(where, f"is None: it must be a specification of the {table.name}", spec)
    name, given = parse_spec(where, spec, table)
    for key, default in {**table.ignored, **table.entries[name].ignored}.items():
        if given.pop(key, default) != default and ignored is not None:
            ignored.append(f"{where.rpartition(' ')[2]}[{key!r}]")
    if table.rewrite is not None:
        name, given = table.rewrite(where, name, given)
    entry = table.entries[name]
    if not entry.open:
        untyped = isinstance(spec, Mapping) and spec.get("type") is None
        what = f"{where} ({name}{', the default type' if untyped else ''})" if table.typed else where
        refuse_unknown(what, given, entry.names)

    def inner(place: str, part: Any, of: str) -> dict[str, Any]:
        return resolve(place, part, of, tables, ignored)

    values = _values(where, name, entry, given, inner)
    if entry.open:
        values |= {key: value for key, value in given.items() if key not in entry.names}
    values = {"type": name, **values}
    values = entry.finish(where, values) if entry.finish is not None else values
    return values if table.typed else {key: value for key, value in values.items() if key != "type"}


def read_arguments(where: str, owner: str, arguments: tuple[Argument, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments, as given or with their defaults; ``owner`` names the module in messages.

    Raises:
        ArgumentError: an argument is unknown, missing or invalid.
    """
    entry = Entry(arguments)
    refuse_unknown(where, given, entry.names)
    return _values(where, owner, entry, given, lambda place, part, of: resolve(place, part, of, {}))


def _values(where: str, name: str, entry: Entry, given: Mapping[str, Any], inner: Resolve) -> dict[str, Any]:
    """The entry's arguments, as given or with their defaults."""
    values = {}
    for argument in entry.arguments:
        written = [one for one in (argument.name, *argument.aliases) if one in given]
        if len(written) > 1:
            refuse(f"{where}[{written[1]!r}]", f"and {written[0]!r} are two names of one argument", given[written[1]])
        place = f"{where}[{(written or [argument.name])[0]!r}]"
        if written:
            values[argument.name] = _value(place, argument, given[written[0]], inner)
        elif argument.default is REQUIRED:
            refuse(place, f"is missing: {name} needs it; got {shortened(dict(given))}", None)
        elif argument.default is not ABSENT:
            values[argument.name] = _value(place, argument, argument.default, inner)
    return values


def _value(where: str, argument: Argument, value: Any, inner: Resolve) -> Any:
    if argument.module is None:
        return value if argument.check is None else argument.check(where, value)
    if argument.collected is dict:
        specs = {} if value is None else mapping(where, value)
        return {key: inner(f"{where}[{key!r}]", spec, argument.module) for key, spec in specs.items()}
    if argument.collected is list:
        return _modules(where, value, argument.module, inner, nested=True)
    return inner(where, value, argument.module)


def _modules(where: str, value: Any, kind: str, inner: Resolve, *, nested: bool) -> list[Any]:
    """A list of modules, or a list of such lists."""
    if not isinstance(value, list | tuple):
        refuse(where, f"must be a list, got {shortened(value)}", value)
    if nested and any(isinstance(part, list | tuple) for part in value):
        return [_modules(f"{where}[{i}]", part, kind, inner, nested=False) for i, part in enumerate(value)]
    return [inner(f"{where}[{i}]", part, kind) for i, part in enumerate(value)]
