"""The user's modules that an experiment names, which are beside the file that names them and become importable."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from ...core.errors import CheckpointError
from ...core.yaml_text import Keys, texts
from ...run_dir.starts import read_starts
from ..errors import Findings, RunFolderError
from .files import Document
from .shipped import SHIPPED

_NAMED: Final = re.compile(r"([A-Za-z_]\w*)(?:\.\w+)*:[A-Za-z_][\w.]*")
"""``package.module:name``."""
_IMPORTED: Final = re.compile(r"^[ \t]*(?:from|import)[ \t]+(\w+)", re.MULTILINE)


def folders(document: Document) -> list[Path]:
    """The folders that may contain modules: those of the file and of its includes, its own first.

    Raises:
        ExperimentError: two of them contain a module that is used.
    """
    found = [*dict.fromkeys(Path(file).parent.resolve() for file in document.files)]
    found = [folder for folder in found if folder != SHIPPED]
    if len(found) > 1:
        _refuse_ambiguous(document, found)
    return found


def make_importable(folders: Iterable[Path]) -> None:
    """Make modules in these folders and in the current folder importable, after installed ones."""
    for path in (*(folder.absolute() for folder in folders), Path.cwd()):
        if path != SHIPPED and str(path) not in sys.path:
            sys.path.append(str(path))


def make_importable_for(run_folder: Path) -> None:
    """Make the modules of an existing run importable: those beside its experiment file and its includes."""
    try:
        starts = read_starts(run_folder)
    except CheckpointError as error:
        raise RunFolderError(run_folder, str(error)) from error
    files = [str(file or "") for start in starts for file in (start.get("file"), *(start.get("included") or ()))]
    make_importable(Path(file).parent for file in files)


def _refuse_ambiguous(document: Document, found: list[Path]) -> None:
    """Refuse two modules of the same name, as Python imports only one."""
    holding = {folder: set(_modules(folder)) for folder in found}
    named = list(_named_modules(document))
    used = [folder for folder in found if holding[folder] & {name for _, name in named}]
    imported = sorted({module for folder in used for module in _imported_modules(folder)}) if len(used) > 1 else []
    findings = Findings()
    for at, name in named:
        for module in (name, *imported):
            holders = [folder for folder in used if module in holding[folder]]
            if len(holders) > 1 and any(name in holding[folder] for folder in holders):
                where = " and in ".join(map(str, holders))
                message = f"module {module!r} is in {where}, and Python imports one of a name: rename the others"
                findings.add(document.error(at, message))
    findings.raise_all()


def _named_modules(document: Document) -> Iterator[tuple[Keys, str]]:
    for at, text in texts(document.values):
        if match := _NAMED.fullmatch(text):
            yield at, match[1]


def _modules(folder: Path) -> Iterator[str]:
    for path in folder.glob("*"):
        if path.suffix == ".py" or (path / "__init__.py").is_file():
            yield path.stem


def _imported_modules(folder: Path) -> Iterator[str]:
    for path in folder.glob("*.py"):
        yield from _IMPORTED.findall(path.read_text(encoding="utf-8", errors="replace"))
