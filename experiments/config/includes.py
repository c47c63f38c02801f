"""``include:`` at the top of an experiment file: default values from other files, or from shipped experiments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ...core.yaml_text import MAX_VALUES, Keys, Place, show, walk
from ..errors import ExperimentError, Findings
from .files import Document, read
from .shipped import shipped

KEY: Final = "include"
MAX_INCLUDES: Final = 8
"""The longest chain of includes after the first file."""
_MAX_NAME: Final = 1_000


def with_includes(own: Document, findings: Findings | None = None) -> Document:
    """Merge an experiment file and its includes into one document with the place of each value.

    Mappings are merged recursively; any other value is replaced. A file overrides its includes, and a later include
    overrides an earlier one.

    Args:
        own: the file.
        findings: collects errors of single values; None raises them.

    Raises:
        ExperimentError: one of the files is not usable (see :func:`.files.read`) or includes itself,
            or there are too many values.
    """
    return _Reader(findings).merge(own, Path(own.file), ())


class _Reader:
    """Reads each file once, however many files include it."""

    def __init__(self, findings: Findings | None) -> None:
        self._findings = findings
        self._finished: dict[Path, Document] = {}
        self._values = 0

    def merge(self, own: Document, path: Path, chain: tuple[Path, ...]) -> Document:
        """The file merged with its includes; ``chain`` has the files that lead to it."""
        self._values += len(own.places)
        if self._values > MAX_VALUES:
            message = f"more than {MAX_VALUES} values with the included files, the most an experiment may have"
            raise own.error((), message)
        if KEY not in own.values:
            return own
        values: dict[str, Any] = {}
        places: dict[Keys, Place] = {(): own.places[()]}
        files: dict[str, None] = {}
        for at, name in _names(own).items():
            included = self._include(own, at, _included_file(own, at, path.parent, name), (*chain, path))
            _merge(values, places, included.values, included.places, ())
            files |= dict.fromkeys((included.file, *included.included))
        written = {key: value for key, value in own.values.items() if key != KEY}
        _merge(values, places, written, own.places, ())
        return Document(own.file, values, places, tuple(files))

    def _include(self, own: Document, at: Keys, path: Path, chain: tuple[Path, ...]) -> Document:
        names = " -> ".join(file.name for file in (*chain, path))
        if len(chain) > MAX_INCLUDES:
            raise own.error(at, f"more than {MAX_INCLUDES} files, each included by the one before: {names}")
        real = _resolve(path)
        if real in map(_resolve, chain):
            raise own.error(at, f"the file includes itself: {names}")
        if real not in self._finished:
            try:
                self._finished[real] = self.merge(read(path, self._findings), path, chain)
            except ExperimentError as error:
                if error.line is None:  # an error about the whole file: the line of the include is more useful
                    raise own.error(at, f"{path}: {error.message} ({names})") from error
                raise
        return self._finished[real]


def _names(document: Document) -> dict[Keys, str]:
    """The includes: the keys of each, and its path."""
    given = document.values[KEY]
    items = {(KEY, index): item for index, item in enumerate(given)} if isinstance(given, list) else {(KEY,): given}
    names: dict[Keys, str] = {}
    for at, name in items.items():
        if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= _MAX_NAME:
            message = "must be the path of a file, the name of a shipped experiment, or a list of these"
            raise document.error(at, f"{message}, got {show(name)}")
        if name in names.values():
            raise document.error(at, f"duplicate {show(name)}")
        names[at] = name
    return names


def _included_file(document: Document, at: Keys, folder: Path, name: str) -> Path:
    """The file that an include names: a path, or else the name of a shipped experiment."""
    path, experiments = folder / name, shipped()
    if name in experiments and not path.is_file():
        return experiments[name]
    if path.name == name and not _exists(path):
        files = [file.name for file in sorted(folder.glob("*.y*ml"))]
        message = f"no file or shipped experiment is called {show(name)}"
        raise document.error(at, message, name=name, choices=[*experiments, *files])
    return path


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # reading fails later
        return True


def _resolve(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # circular links: reading fails later
        return path


def _merge(
    values: dict[str, Any],
    places: dict[Keys, Place],
    new: Mapping[str, Any],
    new_places: Mapping[Keys, Place],
    at: Keys,
) -> None:
    """Merge new values into others, in place."""
    for key, value in new.items():
        path = (*at, key)
        if isinstance(value, dict):
            if not isinstance(values.get(key), dict):
                _forget(places, values.get(key), path)
                values[key] = {}
            places[path] = new_places[path]
            _merge(values[key], places, value, new_places, path)
        else:
            _forget(places, values.get(key), path)
            values[key] = value
            places.update((each, new_places[each]) for each, _ in walk(value, path))


def _forget(places: dict[Keys, Place], value: Any, at: Keys) -> None:
    for path, _ in walk(value, at):
        places.pop(path, None)
