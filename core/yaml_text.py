"""Strict YAML: plain data with the line of every value, faults with their places, and a writer.

The accepted part of YAML 1.2: one document of mappings, lists and scalars. Scalars follow the 1.2 core schema (``1e-4``
is a number, ``yes`` and ``on`` are text, ``010`` is ten). Anchors, aliases, tags, megabytes, deep nesting and control
characters are refused. The readers of experiment files and of the service's settings turn faults into their own errors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import yaml

MAX_BYTES: Final = 4 * 2**20
MAX_DEPTH: Final = 32
MAX_VALUES: Final = 10_000

_TOO_DEEP: Final = f"nested more than {MAX_DEPTH} levels deep"

Keys: TypeAlias = "tuple[str | int, ...]"
"""The path of a value: the keys and list indices that lead to it."""

_NULL = re.compile(r"null|Null|NULL|~|")
_TRUE = re.compile(r"true|True|TRUE")
_FALSE = re.compile(r"false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+")
_PREFIXED_INT = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NON_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's scanner where it was built in


class Place(NamedTuple):
    """The origin of a value: a file and a line, or an option of the command line, which has no lines."""

    source: str
    line: int | None = None


class Fault(NamedTuple):
    """A fault: the message, the line (from 1) if there is one, and the dotted path of the key."""

    message: str
    line: int | None = None
    key: str = ""


class Parsed(NamedTuple):
    """The value of a text, with its faults.

    Args:
        value: the only document's value; None if there is none.
        places: keys of a value to its place; empty for an empty text.
        faults: all that were found.
        is_whole: whether the text was read to its end; then only single values are wrong.
    """

    value: Any
    places: dict[Keys, Place]
    faults: list[Fault]
    is_whole: bool = True


class UnreadableError(Exception):
    """A text, or the rest of it, cannot be read."""

    def __init__(self, message: str, line: int | None = None, key: str = "") -> None:
        super().__init__(message)
        self.fault = Fault(message, line, key)


def parse_file(path: Path, subject: str) -> Parsed:
    """Parse a file; ``subject`` is what it holds, for messages: ``"an experiment"``.

    Raises:
        UnreadableError: it cannot be read, is too large, or is not UTF-8.
    """
    try:
        if not path.is_file():
            reason = "is a folder" if path.is_dir() else "is not a regular file" if path.exists() else "does not exist"
            raise UnreadableError(f"the file {reason}")
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise UnreadableError(f"the file cannot be read: {error.strerror or error}") from error
    if len(data) > MAX_BYTES:
        raise UnreadableError(f"the file is larger than {MAX_BYTES} bytes, the most {subject} may have")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"must be UTF-8 text, got byte 0x{data[error.start]:02x} at offset {error.start}"
        raise UnreadableError(what, line) from None
    return parse(text, str(path), subject)


def parse(text: str, source: str, subject: str, at: Keys = ()) -> Parsed:
    """Parse a text.

    Args:
        text: strict YAML.
        source: the file, or the option of the command line.
        subject: what it holds, for messages.
        at: keys of the value.
    """
    builder = _Builder(source, text, subject, at)
    try:
        return Parsed(builder.document(), builder.places, builder.faults)
    except UnreadableError as error:
        return Parsed(None, builder.places, [*builder.faults, error.fault], is_whole=False)


def scalar(text: str) -> bool | int | float | str | None:
    """A plain scalar's value by the YAML 1.2 core schema.

    Raises:
        ValueError: the number is not finite, or does not fit into 64 bits.
    """
    if _NULL.fullmatch(text):
        return None
    if _TRUE.fullmatch(text):
        return True
    if _FALSE.fullmatch(text):
        return False
    if _INT.fullmatch(text) or _PREFIXED_INT.fullmatch(text):
        number = int(text, 0 if _PREFIXED_INT.fullmatch(text) else 10) if len(text) < 80 else 2**64
        if not -(2**63) <= number < 2**64:
            raise ValueError(f"must fit into 64 bits, got {show(text)}")
        return number
    if _NON_FINITE.fullmatch(text):
        raise ValueError(f"must be a finite number, got {text}")
    if _FLOAT.fullmatch(text):
        value = float(text)
        if not math.isfinite(value):
            raise ValueError(f"must be a finite number, got {show(text)}, which is too large")
        return value
    return text


def dotted_key(path: Keys) -> str:
    """Format keys as ``--set`` takes them: ``agent.params.hidden.0``. An unprintable key is quoted."""
    return ".".join(_short(part if part and part.isprintable() else repr(part)) for part in map(str, path))


def show(value: object) -> str:
    """Format a value for a message: in YAML's notation, shortened."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return _short(repr(value))


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"


def item(value: Any, part: str | int) -> Any:
    """The value at a key or an index; None if there is none."""
    if isinstance(value, Mapping):
        return value.get(str(part))
    return value[part] if isinstance(value, list) and isinstance(part, int) and part < len(value) else None


def walk(value: Any, at: Keys) -> Iterator[tuple[Keys, Any]]:
    """Yield a value and all values in it, with their keys."""
    yield at, value
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        yield from walk(one, (*at, key))


def texts(value: Any) -> Iterator[tuple[Keys, str]]:
    """The texts in a value, with their keys."""
    return ((at, one) for at, one in walk(value, ()) if isinstance(one, str))


def flat(value: Any, path: str = "", *, whole_lists: bool = False) -> Iterator[tuple[str, Any]]:
    """Dotted paths and the scalars (and empty collections) that they lead to.

    Args:
        value: plain data.
        path: its own path.
        whole_lists: a list of scalars is one value.
    """
    is_one = whole_lists and isinstance(value, list) and not any(isinstance(one, dict | list) for one in value)
    if is_one or not value or not isinstance(value, dict | list):
        yield path, value
        return
    for key, one in value.items() if isinstance(value, dict) else enumerate(value):
        yield from flat(one, f"{path}.{key}" if path else str(key), whole_lists=whole_lists)


def to_yaml(values: Mapping[str, Any]) -> str:
    """The values as strict YAML, in their order; :func:`parse` reads them unchanged."""
    return str(yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120))


class _Builder:
    """Builds plain values from YAML's events. Its recursion is bounded by MAX_DEPTH."""

    def __init__(self, source: str, text: str, subject: str, at: Keys) -> None:
        self.source = source
        self.text = text
        self.subject = subject
        self.places: dict[Keys, Place] = {}
        self.faults: list[Fault] = []
        self._events: Iterator[yaml.Event] = iter(yaml.parse(text, Loader=_LOADER))
        self._values = 0
        self._root = self._at = at

    def document(self) -> Any:
        """The only document's value; None for an empty text."""
        try:
            next(self._events)  # the start of the stream
            if isinstance(next(self._events), yaml.StreamEndEvent):
                return None
            value = self._value(next(self._events), self._root)
            next(self._events)  # the end of the document
            after = next(self._events)
            if not isinstance(after, yaml.StreamEndEvent):
                raise UnreadableError(*Fault("must be one document, got several ('---')", _line(after)))
        except yaml.YAMLError as error:
            raise UnreadableError(*self._syntax_fault(error)) from None
        return value

    def _value(self, event: yaml.Event, path: Keys) -> Any:
        self._at = path
        self.places.setdefault(path, Place(self.source, _line(event)))
        self._refuse(event, path)
        if isinstance(event, yaml.AliasEvent):
            return None
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
                items.append(self._value(event, (*path, len(items))))
            return items
        return self._scalar(event, path)

    def _mapping(self, path: Keys) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            self._refuse(event, path)
            if not isinstance(event, yaml.ScalarEvent):
                raise UnreadableError(*_fault(event, path, "a key must be text, got a list or a mapping"))
            key = self._scalar(event, path)
            if not isinstance(key, str):
                self.faults.append(_fault(event, path, f"a key must be text, got {show(key)}"))
                key = event.value
            at = (*path, key)
            if key in values:
                self.faults.append(_fault(event, at, f"duplicate key, first on line {self.places[at].line}"))
            self._at, self.places[at] = at, Place(self.source, _line(event))
            values[key] = self._value(next(self._events), at)
        return values

    def _scalar(self, event: Any, path: Keys) -> Any:
        if not event.implicit[0]:  # quoted, or a block of text
            return event.value
        try:
            return scalar(event.value)
        except ValueError as error:
            self.faults.append(_fault(event, path, str(error)))
            return None

    def _refuse(self, event: Any, path: Keys) -> None:
        """Refuse what strict YAML does not allow."""
        self._values += 1
        if self._values > MAX_VALUES:
            what = f"more than {MAX_VALUES} values, the most {self.subject} may have"
            raise UnreadableError(*_fault(event, path, what))
        if len(path) > MAX_DEPTH:
            raise UnreadableError(*_fault(event, path, _TOO_DEEP))
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            self.faults.append(_fault(event, path, f"anchors and aliases are not allowed, got {show(event.anchor)}"))
        elif event.tag is not None:
            self.faults.append(_fault(event, path, f"tags are not allowed, got {show(event.tag)}: leave it out"))

    def _syntax_fault(self, error: Any) -> Fault:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        lines = self.text.split("\n")
        if mark is not None:
            line = mark.line + 1
            indentation = re.match("[ \t]*", lines[mark.line] if line <= len(lines) else "")
            if indentation is not None and (column := indentation[0].find("\t") + 1):
                message = f"a tab in the indentation, in column {column}: YAML is indented with spaces only"
                return Fault(message, line, dotted_key(self._at))
            message = ": ".join(part for part in (error.context, error.problem) if part)
            if "nesting depth" in message:  # libyaml 0.2.6 scans ahead of the events, and has a limit of its own
                return Fault(_TOO_DEEP, line, dotted_key(self._at))
        else:  # a reader's error: a character that YAML does not allow
            line = self.text.encode()[: error.position].count(b"\n") + 1
            message = f"{error.reason} at offset {error.position}"
        if line <= len(lines) and "${" in lines[line - 1]:
            message += '; inside { } and [ ], write "${name}" with its quotes'
        return Fault(f"not valid YAML: {message}", line, dotted_key(self._at))


def _fault(event: Any, path: Keys, message: str) -> Fault:
    return Fault(message, _line(event), dotted_key(path) if len(path) <= MAX_DEPTH else f"{dotted_key(path[:3])}...")


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


class _Dumper(yaml.SafeDumper):
    """Writes what the strict reader accepts: no anchors, and quotes around text that looks like a number."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    try:
        # "{{" and "{%": see polyaxon/operation.py. NEL is a line break, which YAML folds outside double quotes.
        plain = scalar(text) == text and not any(mark in text for mark in ("{{", "{%", "\x85"))
    except ValueError:
        plain = False
    style = '"' if not plain else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
