"""Modules: a specification, in any form, becomes a dictionary with the module's name and all its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....checks import shortened
from ..values.errors import known, mapping, refuse
from .opening import ABSENT, REQUIRED, Argument, Entry, Room, merged, opened
from .rooms import ROOMS


def resolve(where: str, spec: Any, room: str, ignored: list[str] | None = None) -> dict[str, Any]:
    """The module that a specification means, with all its arguments.

    Args:
        where: the argument's place, for messages and as ``argument`` of errors: ``"Agent.create: optimizer"``.
        spec: a dictionary with ``type``; one without, for the room's default; a name; the name of a JSON file; a
            dotted name; a class or function; or the first argument of the default module. It is left unchanged.
        room: what may stand there, a key of ``rooms.ROOMS``.
        ignored: arguments that have no meaning here, and were given, are added to it.

    Returns:
        The arguments with their defaults, and ``type`` where the room has several modules. Modules inside it are
        resolved too. All but functions and Keras layers can be written as JSON.

    Raises:
        TensorforceError: the module is unknown or not supported, or an argument is unknown, missing or invalid.
    """
    table = ROOMS[room]
    if spec is None:
        refuse(where, f"is None: it must be a specification of the {table.name}", spec)
    name, given = opened(where, spec, table)
    for key, default in table.ignored.items():
        if given.pop(key, default) != default and ignored is not None:
            ignored.append(f"{where.rpartition(' ')[2]}[{key!r}]")
    if table is ROOMS["optimizer"] or table is ROOMS["baseline_optimizer"]:
        if name == "tf_optimizer":
            return _of_keras(where, given, ignored)
        if name == "wrapper":
            return _unwrapped(where, given, room, ignored)
    entry = table.entries[name]
    if not entry.open:
        untyped = isinstance(spec, Mapping) and spec.get("type") is None
        what = f"{where} ({name}{', the default type' if untyped else ''})" if table.typed else where
        known(what, given, [argument.name for argument in entry.arguments])
    values = _values(where, name, entry, given, ignored)
    if entry.open:
        values |= {key: value for key, value in given.items() if key not in values}
    values = {"type": name, **values}
    values = entry.finish(where, values) if entry.finish is not None else values
    return values if table.typed else {key: value for key, value in values.items() if key != "type"}


def _values(where: str, name: str, entry: Entry, given: Mapping[str, Any], ignored: list[str] | None) -> dict[str, Any]:
    """The entry's arguments: as given, or their defaults."""
    values = {}
    for argument in entry.arguments:
        place = f"{where}[{argument.name!r}]"
        if argument.name in given:
            values[argument.name] = _value(place, argument, given[argument.name], ignored)
        elif argument.default is REQUIRED:
            refuse(place, f"is missing: {name} needs it; got {shortened(dict(given))}", None)
        elif argument.default is not ABSENT:
            values[argument.name] = _value(place, argument, argument.default, ignored)
    return values


def _value(where: str, argument: Argument, value: Any, ignored: list[str] | None) -> Any:
    if argument.room is None:
        return value if argument.check is None else argument.check(where, value)
    if argument.collected is dict:
        specs = {} if value is None else mapping(where, value)
        return {key: resolve(f"{where}[{key!r}]", spec, argument.room, ignored) for key, spec in specs.items()}
    if argument.collected is list:
        return _modules(where, value, argument.room, ignored, nested=True)
    return resolve(where, value, argument.room, ignored)


def _modules(where: str, value: Any, room: str, ignored: list[str] | None, *, nested: bool) -> list[Any]:
    """A list of modules, or a list of such lists."""
    if not isinstance(value, list | tuple):
        refuse(where, f"must be a list, got {shortened(value)}", value)
    if nested and any(isinstance(part, list | tuple) for part in value):
        return [_modules(f"{where}[{i}]", part, room, ignored, nested=False) for i, part in enumerate(value)]
    return [resolve(f"{where}[{i}]", part, room, ignored) for i, part in enumerate(value)]


def _of_keras(where: str, given: Mapping[str, Any], ignored: list[str] | None) -> dict[str, Any]:
    """``tf_optimizer`` is the optimizer that it names."""
    rest = {key: value for key, value in given.items() if key != "optimizer"}
    name = _values(where, "tf_optimizer", ROOMS["optimizer"].entries["tf_optimizer"], given, ignored)["optimizer"]
    return resolve(where, {"type": name, **rest}, "optimizer", ignored)


def _unwrapped(where: str, given: Mapping[str, Any], room: str, ignored: list[str] | None) -> dict[str, Any]:
    """``wrapper`` is the optimizer in it, inside the steps that its other arguments ask for."""
    entry, table = ROOMS[room].entries["wrapper"], ROOMS["optimizer"]
    own = [argument.name for argument in entry.arguments]
    if "optimizer" not in given:
        refuse(f"{where}['optimizer']", f"is missing: an optimizer without type needs it; got {shortened(given)}", None)
    name, arguments = opened(f"{where}['optimizer']", given["optimizer"], table)
    extra = {key: value for key, value in given.items() if key not in own}
    _check_extra(where, name, table, own, extra)
    inner = {"type": name, **merged(where, arguments, extra)}
    values = _values(
        where,
        "wrapper",
        entry,
        {key: given[key] for key in own if key in given and key != "optimizer"} | {"optimizer": inner},
        ignored,
    )
    return _steps(values)


def _check_extra(where: str, name: str, table: Room, own: list[str], extra: Mapping[str, Any]) -> None:
    """Arguments beside the wrapper's own go to the optimizer in it."""
    entry = table.entries[name]
    if not entry.open:
        known(where, extra, [*own, *(argument.name for argument in entry.arguments), *table.ignored])


def _steps(values: Mapping[str, Any]) -> dict[str, Any]:
    optimizer: dict[str, Any] = values["optimizer"]
    rooms = ROOMS["optimizer"]

    def around(name: str, **arguments: Any) -> dict[str, Any]:
        return _complete(rooms.entries[name], {"type": name, "optimizer": optimizer, **arguments})

    if values["optimizing_iterations"] > 0:
        optimizer = around("optimizing_step", ls_max_iterations=values["optimizing_iterations"])
    if values["clipping_threshold"] is not None:
        optimizer = around("clipping_step", threshold=values["clipping_threshold"])
    if values["subsampling_fraction"] < 1.0:
        optimizer = around("subsampling_step", fraction=values["subsampling_fraction"])
    if values["multi_step"] > 1:
        optimizer = around("multi_step", num_steps=values["multi_step"])
    return optimizer


def _complete(entry: Entry, values: dict[str, Any]) -> dict[str, Any]:
    """With the defaults that are not given, in the entry's order."""
    defaults = {argument.name: argument.default for argument in entry.arguments if argument.default is not ABSENT}
    return {"type": values["type"], **defaults, **values}
