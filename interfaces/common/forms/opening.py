"""The specification of a module, in any form that users may write, opened: a name and arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....checks import did_you_mean, shortened
from ....errors import ArgumentError
from ..refusals import mapping, refuse
from .files import imported, is_file_name, read_file
from .rooms import Room


def opened(where: str, spec: Any, room: Room, files: tuple[str, ...] = ()) -> tuple[str, dict[str, Any]]:
    """The name of the entry that a specification means, and the arguments that it gives.

    Args:
        where: the argument's place, for messages: ``"Agent.create: optimizer"``.
        spec: a dictionary, with ``type`` or for the default entry; a name; the name of a file; ``module.name``;
            a class or function; or the first argument of the default entry.
        room: what may stand there.
        files: those that are being read: one that contains itself is refused.

    Raises:
        ArgumentError: it means no entry of the room; names the place.
    """
    if isinstance(spec, Mapping):
        return _from_mapping(where, mapping(where, spec), room, files)
    if isinstance(spec, str):
        if room.bare_names is not None and room.bare_names(spec):
            return _bare(where, spec, room)
        found = _from_string(where, spec, room, files)
        return found if found is not None else _unknown(where, spec, room)
    if callable(spec):
        return _from_callable(where, spec, room)
    return _bare(where, spec, room)


def merged(where: str, values: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Both dictionaries in one; a key that both have, with different values, is an error."""
    for key in more:
        if key in values and not _same(values[key], more[key]):
            problem = f"is given twice, as {shortened(values[key])} and {shortened(more[key])}"
            refuse(f"{where}[{key!r}]", problem, more[key])
    return {**values, **more}


def _from_mapping(
    where: str, spec: Mapping[str, Any], room: Room, files: tuple[str, ...]
) -> tuple[str, dict[str, Any]]:
    arguments = dict(spec)
    if not room.typed:
        return _default(where, spec, room), arguments
    type_ = arguments.pop("type", None)
    if type_ is None:
        return _default(where, spec, room), arguments
    if isinstance(type_, str):
        found = _from_string(f"{where}['type']", type_, room, files)
        name, given = found if found is not None else _unknown(f"{where}['type']", type_, room)
    elif callable(type_) or isinstance(type_, Mapping):
        name, given = opened(f"{where}['type']", type_, room, files)
    else:
        refuse(f"{where}['type']", f"must be a name, a file or a class, got {shortened(type_)}", type_)
    return name, merged(where, given, arguments)


def _from_string(where: str, spec: str, room: Room, files: tuple[str, ...]) -> tuple[str, dict[str, Any]] | None:
    name, instead = room.find(spec), room.instead_of(spec)
    if name is not None:
        return name, {}
    if instead is not None:
        refuse(where, f"is {spec!r}, which is not supported: {instead}", spec)
    if is_file_name(spec, room.suffixes):
        if spec in files:
            refuse(where, f"names the file {spec}, which contains itself", spec)
        return opened(where, read_file(where, spec, room.suffixes), room, (*files, spec))
    if room.prefix and spec.startswith(room.prefix):
        return _of_class(where, spec, room), {}
    if room.dotted and "." in spec.strip("."):
        return opened(where, imported(where, spec), room, files)
    return None


def _of_class(where: str, spec: str, room: Room) -> str:
    """The entry that a class of the original library is here."""
    name = spec.rpartition(".")[2]
    found, instead = room.of_class(name), room.instead_of_class(name)
    if found is not None:
        return found
    if instead is not None:
        refuse(where, f"is {spec!r}, which is not supported: {instead}", spec)
    return _unknown(where, spec, room)[0]


def _from_callable(where: str, spec: Any, room: Room) -> tuple[str, dict[str, Any]]:
    if room.from_callable is None:
        shown = getattr(spec, "__name__", repr(spec))
        refuse(where, f"is {shown}: a {room.name} cannot be a class or function, only {_names(room)}", spec)
    return room.from_callable(where, spec)


def _bare(where: str, spec: Any, room: Room) -> tuple[str, dict[str, Any]]:
    name = _default(where, spec, room)
    if not room.alone:
        refuse(where, f"must be {_names(room)}{', or a dictionary' if room.typed else ''}; got {shortened(spec)}", spec)
    entry = room.entries[name]
    return name, {entry.arguments[0].name: spec, **room.bare}


def _default(where: str, spec: Any, room: Room) -> str:
    if room.default is None:
        refuse(where, f"must be {_names(room)}, or a dictionary with one of these as type; got {shortened(spec)}", spec)
    return room.default


def _unknown(where: str, spec: str, room: Room) -> tuple[str, dict[str, Any]]:
    known = [*room.entries, *room.aliases] if room.typed else []
    near = did_you_mean(spec.rpartition(".")[2], known)
    raise ArgumentError(f"{where} must be {_names(room)}; got {spec!r}{near}", where, spec)


def _names(room: Room) -> str:
    alone = f"{room.alone} or " if room.alone else ""
    return alone + (f"one of {', '.join([*room.entries, *room.aliases])}" if room.typed else "a dictionary")


def _same(first: Any, second: Any) -> bool:
    try:
        return first is second or bool(first == second)
    except ValueError:  # arrays
        return False
