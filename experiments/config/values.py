"""Replaced values: ``--set`` on the command line, and ``${name}`` in the file."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any, Final

from ...core.yaml_text import MAX_DEPTH, Keys, Place, dotted_key, show
from ..errors import ExperimentError, Findings
from .files import Document, parse_value
from .secrets import is_hidden

MAX_TEXT: Final = 10_000
"""The longest text that params may expand to; a few lines could make gigabytes."""
_REFERENCE = re.compile(r"\$\{([^}]*)(\}?)")


def override(document: Document, sets: Mapping[str, str], findings: Findings) -> Document:
    """The document with the values of ``--set path.to.key=value``; ``findings`` collects their errors."""
    values: Any = copy.deepcopy(document.values)
    places = dict(document.places)
    for name, text in sets.items():
        source = f"--set {name}" if is_hidden(name, text) else f"--set {name}={text}"
        with findings.collecting():
            path = _assign(values, name, text, source)
            for place in [place for place in places if place[: len(path)] == path]:
                del places[place]
            places[path] = Place(source)
            for length in range(1, len(path)):  # mappings created on the way
                places.setdefault(path[:length], Place(source))
    return Document(document.file, values, places, document.included)


def _assign(values: Any, name: str, text: str, source: str) -> Keys:
    """Assign a value by its dotted name. Missing mappings are created; lists keep their length."""
    path: Keys = ()
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


def _key(values: Any, part: str, path: Keys, source: str) -> str | int:
    if isinstance(values, dict) and part:
        return part
    if isinstance(values, list):
        if part.isdecimal() and len(part) < 8 and int(part) < len(values):
            return int(part)
        raise ExperimentError(
            source, f"must be an index below {len(values)}, got {part!r}", key=dotted_key((*path, part))
        )
    message = f"is {show(values)}, which has no keys to set" if part else "an empty key cannot be set"
    raise ExperimentError(source, message, key=dotted_key(path))


def replace(value: Any, path: Keys, params: Mapping[str, Any], document: Document, findings: Findings) -> Any:
    """Replace ``${name}`` at any depth; if that fails, the value is unchanged.

    Args:
        value: a value of the document.
        path: its keys.
        params: names to values; None for an invalid param, which has been reported already.
        document: for errors.
        findings: collects them.
    """
    if isinstance(value, dict):
        return {key: replace(item, (*path, key), params, document, findings) for key, item in value.items()}
    if isinstance(value, list):
        return [replace(item, (*path, index), params, document, findings) for index, item in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value
    try:
        return _replace_params(value, path, params, document, findings)
    except ExperimentError as error:
        findings.add(error)
        return value


def _replace_params(value: str, path: Keys, params: Mapping[str, Any], document: Document, findings: Findings) -> Any:

    def parameter(match: re.Match[str]) -> Any:
        name = match[1].strip()
        if not match[2]:
            raise document.error(path, f"'${{' without '}}' in {show(value)}")
        if name not in params:
            raise document.error(path, f"no param {show(name)} is declared under 'params'", name=name, choices=params)
        if params[name] is None:
            findings.skip(document.error(path, "").key)
        return params[name]

    whole = _REFERENCE.fullmatch(value)
    if whole:
        return parameter(whole)
    pieces: list[str] = []
    end = length = 0
    for match in _REFERENCE.finditer(value):
        pieces += [value[end : match.start()], _text(parameter(match))]
        end = match.end()
        length += len(pieces[-2]) + len(pieces[-1])
        if length > MAX_TEXT:
            raise document.error(path, f"more than {MAX_TEXT} characters with the values of its params: {show(value)}")
    return "".join([*pieces, value[end:]])


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
