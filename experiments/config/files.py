"""Experiment files: strict YAML (:mod:`axonrl.core.yaml_text`) as a document, whose errors name file, line and key."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from ...core import yaml_text
from ...core.checks import nearest
from ...core.yaml_text import Keys, Place, dotted_key, item, show
from ..errors import ExperimentError, Findings
from . import foreign

_SUBJECT: Final = "an experiment"
_MAX_COMPARED, _MAX_CHOICES = 60, 200  # comparing thousands of long names takes seconds


@dataclasses.dataclass(frozen=True)
class Document:
    """The values of a file, and the places where they were written.

    Args:
        file: the file's path, for messages.
        values: the top-level mapping.
        places: keys of a value to its place in this file, in an included file, or in an option.
        included: the files that it includes, directly or indirectly.
    """

    file: str
    values: Mapping[str, Any]
    places: Mapping[Keys, Place]
    included: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """Absolute paths of this file and of those that it includes."""
        return tuple(str(Path(file).absolute()) for file in (self.file, *self.included))

    def error(self, path: Keys, message: str, *, name: str = "", choices: Iterable[str] = ()) -> ExperimentError:
        """An error about the value at ``path``; for an unknown ``name`` with the nearest of ``choices``.

        If the name is the key itself, its meaning in other libraries and sections counts more than its spelling.
        """
        at = path = self._as_written(path)
        while at and at not in self.places:
            at = at[:-1]
        place = self.places.get(at, Place(self.file, 1))
        choices = [choice[:_MAX_COMPARED] for choice in choices][:_MAX_CHOICES]
        meant, hint = None, ""
        if name and path[-1:] == (name,):
            meant, hint = foreign.hint(name, dotted_key(path[:-1]), choices)
        close = meant or (nearest(name[:_MAX_COMPARED], choices) if not hint else None)
        return ExperimentError(place.source, message + hint, line=place.line, key=dotted_key(path), nearest=close)

    def unknown_key_errors(
        self, at: Keys, names: Iterable[str], known: Iterable[str], message: str = "unknown key"
    ) -> list[ExperimentError]:
        """The errors about unknown names in the section at these keys."""
        known = list(known)
        return [self.error((*at, name), message, name=name, choices=known) for name in names if name not in known]

    def _as_written(self, path: Keys) -> Keys:
        """The keys as written in the file, where a list of one item may be written as the item."""
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
        findings: collects errors of single values, which are left out of the document; None raises them.

    Raises:
        ExperimentError: it cannot be read, is not UTF-8, is not strict YAML, or is not a mapping.
    """
    file = str(path)
    try:
        parsed = yaml_text.parse_file(path, _SUBJECT)
    except yaml_text.UnreadableError as error:
        raise ExperimentError(file, error.fault.message, line=error.fault.line) from error.__cause__
    found = Findings() if findings is None else findings
    for fault in parsed.faults:
        found.add(ExperimentError(file, fault.message, line=fault.line, key=fault.key))
    if findings is None or not parsed.is_whole:
        found.raise_all()
    if not isinstance(parsed.value, dict):
        message = f"must be a mapping of keys to values, got {show(parsed.value)}" if parsed.places else "is empty"
        raise ExperimentError(file, message, line=parsed.places.get((), Place(file, 1)).line)
    return Document(file, parsed.value, parsed.places)


def parse_value(text: str, source: str, path: Keys) -> Any:
    """The value of ``text`` after ``key:`` in a file: a scalar, or a list or mapping in flow style.

    Args:
        text: YAML.
        source: the option as typed, for messages.
        path: the keys of the value.

    Raises:
        ExperimentError: it is not strict YAML.
    """
    parsed = yaml_text.parse(text, source, _SUBJECT, path)
    for fault in sorted(parsed.faults, key=lambda fault: fault.line or 0):  # an option has no lines
        raise ExperimentError(source, fault.message, key=fault.key)
    return parsed.value
