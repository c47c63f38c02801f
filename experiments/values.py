"""What stands in place of a file's values: ``--set`` on the command line, and ``${name}`` in the file itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .files import MAX_DEPTH, Document, ExperimentError, Path, dotted, parse_value, show

_REFERENCE = re.compile(r"\$\{([^}]*)(\}?)")


def override(document: Document, sets: Mapping[str, str]) -> Document:
    """The document with the values of ``--set path.to.key=value`` in it."""
    values: Any = _copy(document.values)
    places = dict(document.places)
    for name, text in sets.items():
        source = f"--set {name}={text}"
        path = _assign(values, name, text, source)
        for place in [place for place in places if place[: len(path)] == path]:
            del places[place]
        places[path] = source
        for length in range(1, len(path)):  # mappings made on the way
            places.setdefault(path[:length], source)
    return Document(document.file, values, places)


def _assign(values: Any, name: str, text: str, source: str) -> Path:
    """Put a value where a dotted name says. Mappings on the way are made; lists keep their length."""
    path: Path = ()
    *parents, last = name.split(".")
    if len(parents) >= MAX_DEPTH:
        raise ExperimentError(source, f"nested more than {MAX_DEPTH} levels deep")
    for part in parents:
        key = _key(values, part, path, source)
        path = (*path, key)
        if isinstance(values, dict) and values.get(part) is None:
            values[part] = {}
        values = values[key]
    key = _key(values, last, path, source)
    path = (*path, key)
    values[key] = parse_value(text, source, path)
    return path


def _key(values: Any, part: str, path: Path, source: str) -> str | int:
    if isinstance(values, dict) and part:
        return part
    if isinstance(values, list):
        if part.isdecimal() and len(part) < 8 and int(part) < len(values):
            return int(part)
        raise ExperimentError(source, f"must be an index below {len(values)}, got {part!r}", key=dotted((*path, part)))
    message = f"has no entries to set, it is {show(values)}" if part else "an empty key cannot be set"
    raise ExperimentError(source, message, key=dotted(path))


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def replace(value: Any, path: Path, params: Mapping[str, Any], document: Document) -> Any:
    """The value with ``${name}`` replaced, in whatever depth it occurs."""
    if isinstance(value, dict):
        return {key: replace(item, (*path, key), params, document) for key, item in value.items()}
    if isinstance(value, list):
        return [replace(item, (*path, index), params, document) for index, item in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value

    def parameter(match: re.Match[str]) -> Any:
        name = match[1].strip()
        if not match[2]:
            raise document.error(path, f"'${{' without '}}' in {show(value)}")
        if name not in params:
            raise document.error(path, f"no param {name!r} is declared under 'params'", name=name, choices=params)
        return params[name]

    whole = _REFERENCE.fullmatch(value)
    if whole:
        return parameter(whole)
    return _REFERENCE.sub(lambda match: _text(parameter(match)), value)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
