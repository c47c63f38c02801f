"""Reads a module's specification, in any form that users may write, as a name and arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ....core.checks import did_you_mean, shortened
from ....core.errors import ArgumentError
from ..refusals import mapping, refuse
from .files import import_object, is_file_name, read_file
from .tables import SpecTable


def parse_spec(where: str, spec: Any, table: SpecTable, files: tuple[str, ...] = ()) -> tuple[str, dict[str, Any]]:
    """The name of the table's entry for a specification, and the arguments given.

    Args:
        where: the argument's place, for messages: ``"Agent.create: optimizer"``.
        spec: a dictionary, with ``type`` or for the default entry; a name; the name of a file; ``module.name``;
            a class or function; or the first argument of the default entry.
        table: the allowed entries.
        files: files being read, to refuse one that contains itself.

    Raises:
        ArgumentError: the table has no such entry; names the place.
    """
    if isinstance(spec, Mapping):
        return _from_mapping(where, mapping(where, spec), table, files)
    if isinstance(spec, str):
        if table.bare_names is not None and table.bare_names(spec):
            return _bare(where, spec, table)
        return _from_string(where, spec, table, files) or _refuse_name(where, spec, table)
    if callable(spec):
        return _from_callable(where, spec, table)
    return _bare(where, spec, table)


def unfold(where: str, spec: Any, key: str, given: Mapping[str, Any], table: SpecTable) -> tuple[Any, dict[str, Any]]:
    """Unfold files and dictionaries into the name under ``key`` or ``type``, and arguments; the outermost win.

    A name of the table is no file's, as in :func:`parse_spec`.

    Raises:
        ArgumentError: a file cannot be read, or contains itself.
    """
    files: list[str] = []
    while isinstance(spec, str | Mapping):
        if isinstance(spec, str):
            if table.find(spec) or table.of_class(spec) or not is_file_name(spec):
                break
            if spec in files:
                refuse(where, f"names the file {spec}, which contains itself", spec)
            files.append(spec)
            spec = read_file(where, spec)
            continue
        entries = dict(mapping(where, spec))
        spec = entries.pop(key) if key in entries else entries.pop("type", None)
        given = {**entries, **given}
    return spec, dict(given)


def merge(where: str, values: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two dictionaries; a key with different values is an error."""
    for key in more:
        if key in values and values[key] is not more[key] and not np.array_equal(values[key], more[key]):
            problem = f"is given twice, as {shortened(values[key])} and {shortened(more[key])}"
            refuse(f"{where}[{key!r}]", problem, more[key])
    return {**values, **more}


def _from_mapping(
    where: str, spec: Mapping[str, Any], table: SpecTable, files: tuple[str, ...]
) -> tuple[str, dict[str, Any]]:
    arguments = dict(spec)
    type_ = arguments.pop("type", None) if table.typed else None
    if type_ is None:
        return _default(where, spec, table), arguments
    place = f"{where}['type']"
    if isinstance(type_, str):
        name, given = _from_string(place, type_, table, files) or _refuse_name(place, type_, table)
    elif callable(type_) or isinstance(type_, Mapping):
        name, given = parse_spec(place, type_, table, files)
    else:
        refuse(place, f"must be a name, a file or a class, got {shortened(type_)}", type_)
    return name, merge(where, given, arguments)


def _from_string(where: str, spec: str, table: SpecTable, files: tuple[str, ...]) -> tuple[str, dict[str, Any]] | None:
    name, instead = table.find(spec), table.instead_of(spec)
    if name is not None:
        return name, {}
    if instead is not None:
        refuse(where, f"is {spec!r}, which is not supported: {instead}", spec)
    if is_file_name(spec, table.suffixes):
        if spec in files:
            refuse(where, f"names the file {spec}, which contains itself", spec)
        return parse_spec(where, read_file(where, spec, table.suffixes), table, (*files, spec))
    if table.prefix and spec.startswith(table.prefix):
        return _of_class(where, spec, table)
    if table.dotted and "." in spec.strip("."):
        return parse_spec(where, import_object(where, spec), table, files)
    return None


def _of_class(where: str, spec: str, table: SpecTable) -> tuple[str, dict[str, Any]]:
    """The entry for a class of the original library."""
    name = spec.rpartition(".")[2]
    found, instead = table.of_class(name), table.instead_of_class(name)
    if found is None and instead is not None:
        refuse(where, f"is {spec!r}, which is not supported: {instead}", spec)
    return (found, {}) if found is not None else _refuse_name(where, spec, table)


def _from_callable(where: str, spec: Any, table: SpecTable) -> tuple[str, dict[str, Any]]:
    if table.prefix and isinstance(spec, type) and spec.__module__.startswith(table.prefix):
        return _of_class(where, f"{spec.__module__}.{spec.__name__}", table)
    if table.from_callable is None:
        shown = getattr(spec, "__name__", repr(spec))
        refuse(where, f"is {shown}: a {table.name} cannot be a class or function, only {_names(table)}", spec)
    return table.from_callable(where, spec)


def _bare(where: str, spec: Any, table: SpecTable) -> tuple[str, dict[str, Any]]:
    name = _default(where, spec, table)
    if not table.alone:
        otherwise = ", or a dictionary" if table.typed else ""
        refuse(where, f"must be {_names(table)}{otherwise}; got {shortened(spec)}", spec)
    return name, {table.entries[name].arguments[0].name: spec, **table.bare}


def _default(where: str, spec: Any, table: SpecTable) -> str:
    if table.default is None:
        others = "or a dictionary with one of these as type"
        refuse(where, f"must be {_names(table)}, {others}; got {shortened(spec)}", spec)
    return table.default


def _refuse_name(where: str, spec: str, table: SpecTable) -> tuple[str, dict[str, Any]]:
    known = [*table.entries, *table.aliases] if table.typed else []
    near = did_you_mean(spec.rpartition(".")[2], known)
    raise ArgumentError(f"{where} must be {_names(table)}; got {spec!r}{near}", where, spec)


def _names(table: SpecTable) -> str:
    alone = f"{table.alone} or " if table.alone else ""
    return alone + (f"one of {', '.join([*table.entries, *table.aliases])}" if table.typed else "a dictionary")
