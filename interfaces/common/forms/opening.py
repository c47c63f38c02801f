"""The specification of a module, in any form that users may write, opened: a name and arguments."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from ....checks import did_you_mean, shortened
from ..values.errors import TensorforceError, mapping, refuse

Check: TypeAlias = Callable[[str, Any], Any]
"""From an argument's place, for messages, and its value to the value in its final type, or a TensorforceError."""

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
        room: of an argument that is itself a module: its room; ``check`` is not used.
        collected: ``list``: it is a list of modules of that room, or a list of such lists; ``dict``: they are by name.
        fed: it may change from update to update: a number, or a parameter.
    """

    name: str
    default: Any = REQUIRED
    check: Check | None = None
    room: str | None = None
    collected: type | None = None
    fed: bool = False


@dataclasses.dataclass(frozen=True)
class Entry:
    """One module that a room has.

    Args:
        arguments: in their order.
        open: arguments beside these are kept as they are.
        finish: completes or checks the resolved arguments, which it is given with the place for messages.
        classes: names of its class in Tensorforce, beside the entry's own name in capitals.
    """

    arguments: tuple[Argument, ...] = ()
    open: bool = False
    finish: Callable[[str, dict[str, Any]], dict[str, Any]] | None = None
    classes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Room:
    """What may stand in one place of an agent's specification.

    Args:
        name: of the room, for messages.
        entries: by name.
        default: the entry that is meant where no ``type`` is given.
        aliases: other names of entries.
        refused: names that are known and not supported, and for each what to use instead.
        typed: does a specification name its entry under ``type``? If not, there is one entry, the default.
        ignored: arguments that have no meaning here, each with its default.
        alone: in words, what may stand alone, as the first argument of the default entry; empty: nothing may.
        bare: arguments that the default entry has where its first one stands alone.
        bare_names: names, of another room, that may stand as the first argument of the default entry.
        from_callable: the entry and arguments that a class or function of the user stands for.
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

    def find(self, name: str) -> str | None:
        """The entry with this name or alias, or None."""
        name = self.aliases.get(name, name)
        return name if self.typed and name in self.entries else None

    def of_class(self, name: str) -> str | None:
        """The entry whose class has this name in Tensorforce, or None."""
        wanted = name.lower()
        for key, entry in self.entries.items():
            if key.replace("_", "") == wanted or name in entry.classes:
                return key
        return None


def opened(where: str, spec: Any, room: Room, files: tuple[str, ...] = ()) -> tuple[str, dict[str, Any]]:
    """The name of the entry that a specification means, and the arguments that it gives.

    Args:
        where: the argument's place, for messages: ``"Agent.create: optimizer"``.
        spec: a dictionary, with ``type`` or for the default entry; a name; the name of a JSON file; ``module.name``;
            a class or function; or the first argument of the default entry.
        room: what may stand there.
        files: JSON files that are being read: one that contains itself is refused.

    Raises:
        TensorforceError: it means no entry of the room; names the place.
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


def read_json(where: str, name: str | os.PathLike[str]) -> Any:
    """What a JSON file holds.

    Raises:
        TensorforceError: there is no such file, or it is not JSON.
    """
    try:
        return json.loads(Path(name).read_text(encoding="utf-8"))
    except OSError as error:
        refuse(where, f"names the file {os.fspath(name)}, which cannot be read: {error.strerror or error}", name)
    except ValueError as error:  # of JSON, or of the encoding
        refuse(where, f"names the file {os.fspath(name)}, which is not valid JSON: {error}", name)


def is_file_name(name: str) -> bool:
    """Whether a string of a specification names a JSON file, one that exists or not."""
    return name.endswith(".json") or (len(name) < 1000 and "\0" not in name and Path(name).is_file())


def imported(where: str, name: str) -> Any:
    """What ``package.module.name`` stands for.

    Raises:
        TensorforceError: no such module, or it has no such name.
    """
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        refuse(where, f"names {name!r}, which cannot be imported: {error}", name)


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
    name = room.find(spec)
    if name is not None:
        return name, {}
    if room.typed and spec in room.refused:
        refuse(where, f"is {spec!r}, which is not supported: {room.refused[spec]}", spec)
    if is_file_name(spec):
        if spec in files:
            refuse(where, f"names the file {spec}, which contains itself", spec)
        return opened(where, read_json(where, spec), room, (*files, spec))
    if spec.startswith("tensorforce."):
        return _of_tensorforce(where, spec, room), {}
    if "." in spec.strip("."):
        return opened(where, imported(where, spec), room, files)
    return None


def _of_tensorforce(where: str, spec: str, room: Room) -> str:
    name = spec.rpartition(".")[2]
    found = room.of_class(name)
    if found is not None:
        return found
    for refused, instead in room.refused.items():
        if refused.replace("_", "") == name.lower():
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
    raise TensorforceError(f"{where} must be {_names(room)}; got {spec!r}{near}", where, spec)


def _names(room: Room) -> str:
    alone = f"{room.alone} or " if room.alone else ""
    return alone + (f"one of {', '.join([*room.entries, *room.aliases])}" if room.typed else "a dictionary")


def _same(first: Any, second: Any) -> bool:
    try:
        return first is second or bool(first == second)
    except ValueError:  # arrays
        return False
