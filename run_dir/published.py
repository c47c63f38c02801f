"""A run on the Hugging Face Hub: the files of its folder that are published, and a folder made of downloaded ones."""

from __future__ import annotations

import dataclasses
import logging
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from ..core import hub, registry
from ..core.checks import flag
from ..core.errors import ArgumentError
from . import record
from .checkpoints import CheckpointStore
from .final import EXPERIMENT
from .folders import staged
from .history import EPISODES, EVALUATIONS
from .learning_curve import CURVE

_KEPT: Final = (record.FILE, EPISODES, EVALUATIONS, "best.safetensors")
PATTERNS: Final = (*_KEPT, "checkpoints/checkpoint-*/*.json", "checkpoints/checkpoint-*/*.safetensors")
"""Files of a run in a repository that are loaded: numbers and text, and nothing that runs."""
VIDEO: Final = "replay.mp4"
"""The name under which the Hub shows the video of an agent."""
SHOWN: Final = (EXPERIMENT, CURVE, VIDEO)
"""Files for the repository's readers."""
logger = logging.getLogger("axonrl")


def files_of(folder: Path, temporary: Path) -> dict[str, Path]:
    """The files of a run to publish, by their paths in a repository: the newest checkpoint, record, history, pictures.

    Commands and the log, which reveal details of the machine, are left out; the record is rewritten without paths.

    Args:
        folder: the run folder.
        temporary: a folder for rewritten files.

    Raises:
        CheckpointError: the record or the checkpoints cannot be read.
    """
    _portable(record.existing(folder)).write(temporary)
    found = {name: folder / name for name in (*_KEPT, EXPERIMENT, CURVE)}
    store = CheckpointStore(folder)
    if (newest := store.newest()) is not None:
        checkpoint = store.folder_of(newest)
        found |= {path.relative_to(folder).as_posix(): path for path in sorted(checkpoint.iterdir())}
    videos = sorted(folder.glob("videos/*.mp4"), key=lambda path: path.stat().st_mtime)
    found |= dict([(VIDEO, path) for path in videos[-1:]] + [(record.FILE, temporary / record.FILE)])
    return {name: path for name, path in found.items() if path.is_file()}


def run_folder(
    address: str | Path, into: str | Path | None, passed: Iterable[Callable[..., Any] | str | None], *, trust_code: bool
) -> str | Path:
    """Download a run that is on the Hub, and make a run folder of it.

    Args:
        address: the repository's address; or a run folder, which is returned unchanged.
        into: the folder to make; None for a temporary one.
        passed: functions and classes that the caller has passed, or their names; the run may name these too.
        trust_code: whether the run may name other ones, which are imported when they are used.

    Returns:
        The folder.

    Raises:
        ArgumentError: there is no run at this address, it names code, or ``into`` is not empty.
        CheckpointError: its record is damaged, or the folder cannot be written.
        ConnectionError: see :func:`~axonrl.core.hub.download`.
    """
    flag("trust_code", trust_code)
    if not hub.is_address(address):
        if into is not None:
            message = f"into applies only to a run on the Hub, hf://user/name; {address} is a folder"
            raise ArgumentError(message, "into", into)
        return address
    target = None if into is None else Path(into).absolute()
    if target is not None and target.exists() and not (target.is_dir() and not any(target.iterdir())):
        message = f"{into} is not empty: choose another folder, or load the run in it with Agent.load({str(into)!r})"
        raise ArgumentError(message, "into", into)
    downloaded = hub.download(address, PATTERNS)
    found = record.read(downloaded)
    if found is None:
        message = f"{address} holds no run. Publish one with: axonrl push RUN user/name"
        raise ArgumentError(message, "model_dir", address)
    known = {one if isinstance(one, str) else registry.name_of(one) for one in passed if one is not None}
    if not trust_code:
        _refuse_code(str(address), found, known)
    if CheckpointStore(downloaded).newest() is None:
        message = f"of {address} only the record is on this machine, not the checkpoint: connect, and load it again"
        raise ArgumentError(message, "model_dir", address)
    if target is None:
        target = Path(tempfile.mkdtemp(prefix="axonrl-"))
        logger.warning("no folder given by into: copying the run of %s to %s", address, target)
    with staged(target) as made:
        for path in (path for pattern in PATTERNS for path in downloaded.glob(pattern)):
            copy = made / path.relative_to(downloaded)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        _portable(found).write(made)
    return target


def _refuse_code(address: str, found: record.RunRecord, known: Collection[str | None]) -> None:
    """Raise if a record names code that would be imported and that the caller has not passed."""
    recorded = [found.model_fn, found.params, found.environment, found.memory]
    if names := sorted(set(_texts_with_colon(recorded)).difference(known)):
        message = (
            f"{address} names code that loading it may import and run: {', '.join(names)}. Pass trust_code=True if you"
            " trust its author"
        )
        raise ArgumentError(message, "trust_code", False)


def _portable(found: record.RunRecord) -> record.RunRecord:
    """The record without paths of its machine: the memory is in RAM, and a warm start keeps only its source's name."""
    memory, start = found.memory, found.warm_start
    if memory is not None:
        memory = {name: value for name, value in memory.items() if name != "path"}
    if start is not None:
        start = {**start, "from": Path(start["from"]).name}
    return dataclasses.replace(found, memory=memory, warm_start=start)


def _texts_with_colon(value: Any) -> Iterator[str]:
    """Texts with a colon, as the registry and Gymnasium import the module before it."""
    if isinstance(value, str):
        yield from (value,) if ":" in value else ()
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts_with_colon(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts_with_colon(one)
