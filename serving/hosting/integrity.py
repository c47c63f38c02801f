"""Check the folder of a hosted agent for damage, read-only, even while a server uses it."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Final

from ...core.errors import ArgumentError, CheckpointError
from ...run_dir import record
from ...run_dir.checkpoints import CheckpointStore
from ..catalogue.recipes import Recipe
from .agent_store import CHECKPOINTS, JOURNAL, SERVICE, service_part
from .journal import DamagedJournalError, Journal

_TRIES: Final = 10
"""Attempts: if a server changes files meanwhile, they are read again."""


@dataclasses.dataclass(frozen=True)
class Damage:
    """A damaged file or checkpoint.

    Args:
        path: the file, or the folder of a checkpoint.
        offset: offset in the file, in bytes; None if it is damaged as a whole.
        what: what is wrong.
    """

    path: Path
    offset: int | None
    what: str


def check(path: Path) -> list[Damage]:
    """Read every checkpoint and the journal of an agent.

    Args:
        path: the agent's folder.

    Returns:
            All damage; empty for an intact folder.
    """
    found: list[Damage] = []
    for _ in range(_TRIES):
        before = files_of(path)
        try:
            found = _damages(path)
        except FileNotFoundError as error:
            found = [Damage(Path(error.filename or path), None, "it is missing")]
        if not found or before == files_of(path):
            return found
    return found


def files_of(path: Path) -> tuple[list[str], list[str]]:
    """The names of an agent's checkpoints and of the files of its journal."""
    return _names(path / CHECKPOINTS), _names(path / JOURNAL)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))  # noqa: PTH208 - only names
    except FileNotFoundError:
        return []


def _damages(path: Path) -> list[Damage]:
    if not path.is_dir():
        return [Damage(path, None, "the folder of the agent is missing")]
    found: list[Damage] = []
    store, numbers = CheckpointStore(path), list[int]()
    indices = store.kept()
    if not indices:
        found.append(Damage(path / CHECKPOINTS, None, "there is no checkpoint"))
    for index in indices:
        number = _number(store, index)
        if isinstance(number, int):
            numbers.append(number)
        else:
            found.append(Damage(path / CHECKPOINTS / f"checkpoint-{index:08d}", None, number))
    try:
        if record.read(path) is None:
            found.append(Damage(path / record.FILE, None, "it is missing"))
    except CheckpointError as error:
        found.append(Damage(path / record.FILE, None, str(error)))
    try:
        for _ in Journal(path / JOURNAL).read(min(numbers, default=0) + 1):
            pass
    except DamagedJournalError as damage:
        what = f"{damage.lost} records from there on cannot be applied"
        found.append(Damage(damage.path, damage.offset, what))
    return found


def _number(store: CheckpointStore, index: int) -> int | str:
    """Number of the last record in a checkpoint, or what is wrong with it."""
    try:
        state = store.read(index)
        if SERVICE not in state:
            return "no service has saved it"
        part = service_part(state)
        Recipe.from_json(part["recipe"])
        return int(part["number"])
    except CheckpointError as error:
        return str(error.__cause__ or error)
    except (ArgumentError, KeyError, ValueError) as error:
        return f"it has no {error}" if isinstance(error, KeyError) else str(error)
