"""Strict YAML: plain data with the line of every value, or errors with their places.

The accepted part of YAML 1.2: one document of mappings, lists and scalars. Scalars follow the 1.2 core schema (``1e-4``
is a number, ``yes`` and ``on`` are text, ``010`` is ten). Anchors, aliases, tags, megabytes, deep nesting and control
characters are refused.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import yaml

from ...core.checks import nearest
from ..errors import ExperimentError as ExperimentError  # noqa: PLC0414 (exported: whoever reads files catches it)
from ..errors import Findings
from . import foreign

MAX_BYTES: Final = 4 * 2**20
MAX_DEPTH: Final = 32
MAX_VALUES: Final = 10_000

_TOO_DEEP: Final = f"nested more than {MAX_DEPTH} levels deep"

_MAX_COMPARED, _MAX_CHOICES = 60, 200  # thousands of long names take seconds to compare

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


@dataclasses.dataclass(frozen=True)
class Document:
    """The values of a file, and where they were written.

    Args:
        file: the file's path, for messages.
        values: the top-level mapping.
        places: keys of a value to its place: in this file, in an included one, or in an option.
        included: the files that it includes, and those that they include.
    """

    file: str
    values: Mapping[str, Any]
    places: Mapping[Keys, Place]
    included: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """Absolute paths: its own, and those of the files that it includes."""
        return tuple(str(Path(file).absolute()) for file in (self.file, *self.included))

    def error(self, path: Keys, message: str, *, name: str = "", choices: Iterable[str] = ()) -> ExperimentError:
        """An error about the value at ``path``; for an unknown ``name`` with the nearest of ``choices``.

        Where the name is that of the key itself, its meaning in other libraries and sections counts before its letters.
        """
        at = path = self._as_written(path)
        while at and at not in self.places:
            at = at[:-1]
        place = self.places.get(at, Place(self.file, 1))
        choices = [choice[:_MAX_COMPARED] for choice in choices][:_MAX_CHOICES]
        meant, hint = None, ""
        if name and path[-1:] == (name,):
            meant, hint = foreign.hint(name, dotted(path[:-1]), choices)
        close = meant or (nearest(name[:_MAX_COMPARED], choices) if not hint else None)
        return ExperimentError(place.source, message + hint, line=place.line, key=dotted(path), nearest=close)

    def _as_written(self, path: Keys) -> Keys:
        """The keys as written in the file: a single item may be without its list."""
        value: Any = self.values
        written: list[str | int] = []
        for part in path:
            if isinstance(part, int) and not isinstance(value, list):
                continue
            written.append(part)
            value = item(value, part)
        return tuple(written)


def read(path: Path, findings: Findings | None = None) -> Document:
    """Read one file, without its includes (see :mod:`axonrl.experiments.config.includes`).

    Args:
        path: the file.
        findings: collects errors of single values, which the document has not; None raises them.

    Raises:
        ExperimentError: it cannot be read, is not UTF-8, is not strict YAML as above, or is not one mapping.
    """
    file = str(path)
    text = _text(path, file)
    builder = _Builder(file, text, findings=findings)
    values = builder.document()
    if not isinstance(values, dict):
        message = f"must be a mapping of keys to values, got {show(values)}" if text.strip() else "is empty"
        raise ExperimentError(file, message, line=builder.places.get((), Place(file, 1)).line)
    return Document(file, values, builder.places)


def parse_value(text: str, source: str, path: Keys) -> Any:
    """The value of ``text`` after ``key:`` in a file: a scalar, or a list or mapping in flow style.

    Args:
        text: YAML.
        source: the option as typed, for messages.
        path: the key it is meant for.

    Raises:
        ExperimentError: it is not strict YAML.
    """
    try:
        return _Builder(source, text, path).document()
    except ExperimentError as error:  # an option has no lines
        raise ExperimentError(source, error.message, key=error.key) from None


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


def dotted(path: Keys) -> str:
    """Keys as ``--set`` takes them: ``agent.params.hidden.0``. An unprintable key is quoted."""
    return ".".join(_short(part if part and part.isprintable() else repr(part)) for part in map(str, path))


def item(value: Any, part: str | int) -> Any:
    """The value at a key or an index; None where there is none."""
    if isinstance(value, Mapping):
        return value.get(str(part))
    return value[part] if isinstance(value, list) and isinstance(part, int) and part < len(value) else None


def show(value: object) -> str:
    """A value for a message: in YAML's terms, and short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return _short(repr(value))


def nested(value: Any, at: Keys) -> Iterator[tuple[Keys, Any]]:
    """A value and all those in it, with their keys."""
    yield at, value
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        yield from nested(one, (*at, key))


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"


def _text(path: Path, file: str) -> str:
    try:
        if not path.is_file():
            reason = "is a folder" if path.is_dir() else "is not a regular file" if path.exists() else "does not exist"
            raise ExperimentError(file, f"the file {reason}")
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise ExperimentError(file, f"the file cannot be read: {error.strerror or error}") from error
    if len(data) > MAX_BYTES:
        raise ExperimentError(file, f"the file is larger than {MAX_BYTES} bytes, the most an experiment may have")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"must be UTF-8 text, got byte 0x{data[error.start]:02x} at offset {error.start}"
        raise ExperimentError(file, message, line=line) from None


class _Builder:
    """Builds plain values from YAML's events. Its recursion is bounded by MAX_DEPTH."""

    def __init__(self, file: str, text: str, at: Keys = (), findings: Findings | None = None) -> None:
        self.file = file
        self.text = text
        self.places: dict[Keys, Place] = {}
        self._events: Iterator[yaml.Event] = iter(yaml.parse(text, Loader=_LOADER))
        self._values = 0
        self._root = self._at = at
        self._findings = Findings() if findings is None else findings
        self._raises = findings is None

    def document(self) -> Any:
        """The only document's value; None for an empty text."""
        try:
            value = self._document()
        except ExperimentError as error:
            self._findings.add(error)
            self._findings.raise_all()
            raise
        if self._raises:
            self._findings.raise_all()
        return value

    def _document(self) -> Any:
        try:
            next(self._events)  # the start of the stream
            if isinstance(next(self._events), yaml.StreamEndEvent):
                return None
            value = self._value(next(self._events), self._root)
            next(self._events)  # the end of the document
            after = next(self._events)
            if not isinstance(after, yaml.StreamEndEvent):
                raise ExperimentError(self.file, "must be one document, got several ('---')", line=_line(after))
        except yaml.YAMLError as error:
            raise self._syntax_error(error) from None
        return value

    def _value(self, event: yaml.Event, path: Keys) -> Any:
        self._at = path
        self.places.setdefault(path, Place(self.file, _line(event)))
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
                raise self._error(event, path, "a key must be text, got a list or a mapping")
            key = self._scalar(event, path)
            if not isinstance(key, str):
                self._findings.add(self._error(event, path, f"a key must be text, got {show(key)}"))
                key = event.value
            at = (*path, key)
            if key in values:
                self._findings.add(self._error(event, at, f"duplicate key, first on line {self.places[at].line}"))
            self._at, self.places[at] = at, Place(self.file, _line(event))
            values[key] = self._value(next(self._events), at)
        return values

    def _scalar(self, event: Any, path: Keys) -> Any:
        if not event.implicit[0]:  # quoted, or a block of text
            return event.value
        try:
            return scalar(event.value)
        except ValueError as error:
            self._findings.add(self._error(event, path, str(error)))
            return None

    def _refuse(self, event: Any, path: Keys) -> None:
        """Refuse what strict YAML does not have."""
        self._values += 1
        if self._values > MAX_VALUES:
            raise self._error(event, path, f"more than {MAX_VALUES} values, the most an experiment may have")
        if len(path) > MAX_DEPTH:
            raise self._error(event, path, _TOO_DEEP)
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            self._findings.add(
                self._error(event, path, f"anchors and aliases are not allowed, got {show(event.anchor)}")
            )
        elif event.tag is not None:
            self._findings.add(self._error(event, path, f"tags are not allowed, got {show(event.tag)}: leave it out"))

    def _error(self, event: Any, path: Keys, message: str) -> ExperimentError:
        key = dotted(path) if len(path) <= MAX_DEPTH else f"{dotted(path[:3])}..."
        return ExperimentError(self.file, message, line=_line(event), key=key)

    def _syntax_error(self, error: Any) -> ExperimentError:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        lines = self.text.split("\n")
        if mark is not None:
            line = mark.line + 1
            indentation = re.match("[ \t]*", lines[mark.line] if line <= len(lines) else "")
            if indentation is not None and (column := indentation[0].find("\t") + 1):
                message = f"a tab in the indentation, in column {column}: YAML is indented with spaces alone"
                return ExperimentError(self.file, message, line=line, key=dotted(self._at))
            message = ": ".join(part for part in (error.context, error.problem) if part)
            if "nesting depth" in message:  # libyaml 0.2.6 scans ahead of the events, and has a limit of its own
                return ExperimentError(self.file, _TOO_DEEP, line=line, key=dotted(self._at))
        else:  # a reader's error: a character that YAML does not allow
            line = self.text.encode()[: error.position].count(b"\n") + 1
            message = f"{error.reason} at offset {error.position}"
        if line <= len(lines) and "${" in lines[line - 1]:
            message += '; inside { } and [ ], write "${name}" with its quotes'
        return ExperimentError(self.file, f"not valid YAML: {message}", line=line, key=dotted(self._at))


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
