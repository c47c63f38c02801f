"""Read YAML with the line of every key."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from ...core.checks import nearest

Keys = tuple[str, ...]

_MAX_BYTES: Final = 2**20


class _Loader(yaml.SafeLoader):
    """Scalars as in experiment files: ``1e4`` is a number; ``yes`` and ``2026-01-01`` are text."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", "true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", "null|Null|NULL|~|", ["n", "N", "~", ""]),
    ("int", "[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?", "-+.0123456789"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^({_pattern})$"), list(_first))


class SettingsError(ValueError):
    """The configuration is invalid; the message has a line for each fault.

    Args:
        message: file, line, key, and what is wrong.
        key: the first invalid key.
    """

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.key = key


@dataclasses.dataclass(frozen=True)
class Source:
    """Values with their places.

    Args:
        file: the file; or ``""``.
        values: the top mapping.
        places: a value's keys to its place: ``file:line``, or the option that set it.
    """

    file: str
    values: dict[str, Any]
    places: dict[Keys, str]

    def message(self, keys: Iterable[str | int], what: str, *, unknown: bool = False, known: Iterable[str] = ()) -> str:
        """Message with place and problem; for an unknown key with the nearest known one."""
        path = at = tuple(str(key) for key in keys)
        while at and at not in self.places:
            at = at[:-1]
        near = nearest(path[-1], known) if unknown and path else None
        hint = f"; did you mean {near!r}?" if near else ""
        return ": ".join(part for part in (self.places.get(at, self.file), ".".join(path), what) if part) + hint


def read(path: Path) -> Source:
    """Read a file.

    Raises:
        SettingsError: the file cannot be read, or is not one mapping of plain values.
    """
    file = str(path)
    try:
        text = path.read_bytes()[: _MAX_BYTES + 1].decode()
    except OSError as error:
        raise SettingsError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{file}: must be UTF-8 text") from None
    if len(text) > _MAX_BYTES:
        raise SettingsError(f"{file}: is larger than {_MAX_BYTES} bytes")
    places: dict[Keys, str] = {}
    values = _parsed(text, file, places, (), lines=True)
    if values is not None and not isinstance(values, dict):
        raise SettingsError(f"{file}: must be a mapping of keys to values, got {values!r:.80}")
    return Source(file, values or {}, places)


def override(source: Source, sets: Mapping[str, str]) -> Source:
    """Override values by ``--set path=value``.

    Raises:
        SettingsError: a path leads through something that is not a mapping, or a value is not YAML.
    """
    values, places = _copied(source.values), dict(source.places)
    for path, text in sets.items():
        option, keys = f"--set {path}={text}", tuple(path.split("."))
        inner = values
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
            if not isinstance(inner, dict):
                raise SettingsError(f"{option}: {key} has no keys to set", path)
        inner[keys[-1]] = _parsed(text, option, {}, keys, lines=False)
        for length in range(1, len(keys) + 1):
            places.setdefault(keys[:length], option)
        places[keys] = option
    return Source(source.file, values, places)


def _copied(value: Any) -> Any:
    return {key: _copied(item) for key, item in value.items()} if isinstance(value, dict) else value


def _parsed(text: str, file: str, places: dict[Keys, str], at: Keys, *, lines: bool) -> Any:
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            return None if node is None else _value(loader, node, file, places, at, lines)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}:{mark.line + 1}" if lines and mark is not None else file
        raise SettingsError(f"{place}: not valid YAML: {getattr(error, 'problem', None) or error}") from None


def _value(loader: Any, node: Any, file: str, places: dict[Keys, str], at: Keys, lines: bool) -> Any:
    if not isinstance(node, yaml.MappingNode):
        return loader.construct_object(node, deep=True)
    values: dict[str, Any] = {}
    for key_node, value_node in node.value:
        place = f"{file}:{key_node.start_mark.line + 1}" if lines else file
        key = loader.construct_object(key_node)
        if not isinstance(key, str):
            raise SettingsError(f"{place}: a key must be text, got {key!r:.80}")
        if key in values:
            raise SettingsError(f"{place}: {'.'.join((*at, key))}: duplicate key", key)
        keys = (*at, key)
        places[keys] = place
        values[key] = _value(loader, value_node, file, places, keys, lines)
    return values
