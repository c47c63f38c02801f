"""Read a hosted agent's files while a server may write them: what is known of it, damage, copies."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from ...core.checks import counted
from ...core.errors import ArgumentError, CheckpointError
from ...run_dir import history, record
from ...run_dir.checkpoints import CheckpointStore
from ...run_dir.files import make_folders
from ..catalogue.recipes import Recipe
from .agent_store import CHECKPOINTS, JOURNAL, is_void, nbytes_of, service_part
from .journal import BEGIN, DamagedJournalError, Journal, segments_of
from .records import steps_in

_TRIES: Final = 100
"""Attempts: if a server changes files meanwhile, they are read again."""
_FILES: Final = (record.FILE, history.EPISODES)


class Damage(NamedTuple):
    """A damaged file, or the folder of a damaged checkpoint; ``offset`` in bytes, None if it is damaged as a whole."""

    path: Path
    offset: int | None
    what: str


class MovedError(Exception):
    """A folder changed so fast that it could not be copied."""


def stored_info(path: Path) -> dict[str, Any]:
    """Part of the answer of ``info`` for an agent in memory, from the manifest of its newest checkpoint.

    After a kill -9 the journal has steps that no checkpoint has. They were acknowledged, so they are counted; the
    resulting updates and episodes are known only once the agent is opened.

    Args:
        path: the agent's folder.

    Returns:
        ``bytes``; ``counters`` and ``episode_return_mean``, if a checkpoint has them; ``status`` and ``status_detail``,
        if the journal is damaged. Empty if there is no such folder, or it cannot be read just now.
    """
    if not path.is_dir():
        return {}
    try:
        store, journal = CheckpointStore(path), Journal(path / JOURNAL)
        found: dict[str, Any] = {"bytes": nbytes_of(path, store)}
        about = next((one for one in _facts(store) if not is_void(journal, one)), None)
        if about is None or "number" not in about:
            return found
        found |= {"counters": dict(about["counters"]), "episode_return_mean": about["episode_return_mean"]}
        later = [one for one in segments_of(journal.folder) if one.first > about["number"]]
        if any(one.path.stat().st_size > BEGIN for one in later):
            for steps in journal.read(about["number"] + 1, steps_in):
                found["counters"]["global_timestep"] += steps
    except DamagedJournalError as error:
        found |= {"status": "failed", "status_detail": str(error)}
    except (CheckpointError, OSError):  # another server writes there, or the disk fails
        return {}
    return found


def _facts(store: CheckpointStore) -> Iterator[dict[str, Any]]:
    """The facts in intact manifests, newest first."""
    for index in reversed(store.indices()):
        with contextlib.suppress(CheckpointError):
            yield store.about(index)[0]


def check(path: Path) -> list[Damage]:
    """Read every checkpoint and the journal of an agent.

    Args:
        path: the agent's folder.

    Returns:
        All damage; empty for an intact folder.
    """
    found: list[Damage] = []
    for _ in range(_TRIES):
        before = _names(path / CHECKPOINTS), _names(path / JOURNAL)
        try:
            found = _damages(path)
        except FileNotFoundError as error:
            found = [Damage(Path(error.filename or path), None, "it is missing")]
        if not found or before == (_names(path / CHECKPOINTS), _names(path / JOURNAL)):
            break
    return found


def _damages(path: Path) -> list[Damage]:
    if not path.is_dir():
        return [Damage(path, None, "the folder of the agent is missing")]
    found: list[Damage] = []
    store, numbers = CheckpointStore(path), list[int]()
    for index in store.indices():
        number = _number(store, index)
        if isinstance(number, int):
            numbers.append(number)
        else:
            found.append(Damage(store.folder_of(index), None, number))
    if not found and not numbers:
        found.append(Damage(path / CHECKPOINTS, None, "there is no checkpoint"))
    try:
        if record.read(path) is None:
            found.append(Damage(path / record.FILE, None, "it is missing"))
    except CheckpointError as error:
        found.append(Damage(path / record.FILE, None, str(error)))
    try:
        for _ in Journal(path / JOURNAL).read(min(numbers, default=0) + 1):
            pass
    except DamagedJournalError as damage:
        found.append(
            Damage(damage.path, damage.offset, f"{counted(damage.lost, 'record')} from there on cannot be applied")
        )
    return found


def _number(store: CheckpointStore, index: int) -> int | str:
    """Number of the last record in a checkpoint, or what is wrong with it."""
    try:
        part = service_part(store.read(index))
        Recipe.from_json(part["recipe"])
        return int(part["number"])
    except KeyError as error:
        return f"it has no {error}"
    except (ArgumentError, CheckpointError, ValueError) as error:
        return str(error.__cause__ or error)


def copy_agent(source: Path, target: Path) -> bool:
    """Copy an agent, with everything that it had accepted when this began.

    Checkpoints are copied first, then the journal, which has everything since the older of two checkpoints: so it
    continues any copied checkpoint that the server still keeps afterwards; others are dropped. If it keeps none of
    them, all is copied again.

    Args:
        source: the agent's folder.
        target: a new folder.

    Returns:
        False if there is no such folder (any more).

    Raises:
        MovedError: the folder kept changing.
        OSError: the folder cannot be copied.
    """
    for _ in range(_TRIES):
        shutil.rmtree(target, ignore_errors=True)
        checkpoints = _names(source / CHECKPOINTS)
        with contextlib.suppress(FileNotFoundError):  # a checkpoint was removed meanwhile
            for name in checkpoints:
                link_tree(source / CHECKPOINTS / name, target / CHECKPOINTS / name)
            make_folders(target / JOURNAL)
            for name in [*(f"{JOURNAL}/{name}" for name in _names(source / JOURNAL)), *_FILES]:
                with contextlib.suppress(FileNotFoundError):  # trimmed: older than all checkpoints
                    shutil.copyfile(source / name, target / name)
            kept = _names(source / CHECKPOINTS)
            if source.is_dir() and (not checkpoints or checkpoints[-1] in kept):
                for name in {*checkpoints} - {*kept}:
                    shutil.rmtree(target / CHECKPOINTS / name)
                return True
        if not source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            return False
    raise MovedError(f"{source} changed while it was copied, {_TRIES} times in turn")


def link_tree(source: Path, target: Path) -> None:
    """Copy a folder whose files never change, by links if source and target are on the same disk.

    Raises:
        FileNotFoundError: the folder is gone, or was removed meanwhile.
        OSError: the folder cannot be copied.
    """
    for folder, _, names in os.walk(source, onerror=_fail):
        there = target / Path(folder).relative_to(source)
        make_folders(there)
        for name in names:
            _link(Path(folder) / name, there / name)


def _fail(error: OSError) -> None:
    raise error


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except FileNotFoundError:
        raise
    except OSError:  # another disk, or one without links
        shutil.copyfile(source, target)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))  # noqa: PTH208 - only names
    except FileNotFoundError:
        return []
