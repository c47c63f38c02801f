"""A run on the Hugging Face Hub: the files of its folder that are published, and a folder made of downloaded ones."""

from __future__ import annotations

import logging
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
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
_NAMES_CODE: Final = re.compile(r"[^\s:/\\]+:[^\s:/\\][^\s:]*")
"""``module:name``, as the registry and Gymnasium import it, and rather too much than too little."""
logger = logging.getLogger("axonrl")


def files_of(folder: Path) -> dict[str, Path]:
    """The files of a run to publish, by their paths in a repository: the newest checkpoint, record, history, pictures.

    Not among them is what tells of the machine: commands, paths and the log.

    Raises:
        CheckpointError: the checkpoints cannot be read.
    """
    found = {name: folder / name for name in (*_KEPT, EXPERIMENT, CURVE)}
    store = CheckpointStore(folder)
    if (newest := store.newest()) is not None:
        checkpoint = store.folder_of(newest)
        found |= {path.relative_to(folder).as_posix(): path for path in sorted(checkpoint.iterdir())}
    videos = sorted(folder.glob("videos/*.mp4"), key=lambda path: path.stat().st_mtime)
    return {name: path for name, path in [*found.items(), *((VIDEO, path) for path in videos[-1:])] if path.is_file()}


def run_folder(
    address: str | Path, into: str | Path | None, passed: Iterable[Callable[..., Any] | str | None], *, trust_code: bool
) -> str | Path:
    """Download a run that is on the Hub, and make a run folder of it.

    Args:
        address: of the repository; or a run folder, which is returned as it is.
        into: the folder to make; None for a temporary one.
        passed: functions and classes that the caller has passed, or their names, which the run may name, too.
        trust_code: whether the run may name others, which are imported when they are used.

    Returns:
        The folder.

    Raises:
        ArgumentError: there is no run at this address, it names code, or ``into`` holds something.
        CheckpointError: its record is damaged, or the folder cannot be written.
        ConnectionError: see :func:`~axonrl.core.hub.download`.
    """
    flag("trust_code", trust_code)
    if not hub.is_address(address):
        if into is not None:
            message = f"into is for runs on the Hub, hf://user/name; {address} is a folder already"
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
    if (names := sorted(set(_names_of_code(vars(found))) - known)) and not trust_code:
        message = (
            f"{address} names code that loading it may import and run: {', '.join(names)}. Pass trust_code=True if you"
            " trust its author"
        )
        raise ArgumentError(message, "trust_code", trust_code)
    if target is None:
        target = Path(tempfile.mkdtemp(prefix="axonrl-"))
        logger.warning("no folder given by into: copying the run of %s to %s", address, target)
    with staged(target) as made:
        for path in (path for pattern in PATTERNS for path in downloaded.glob(pattern)):
            copy = made / path.relative_to(downloaded)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    return target


def _names_of_code(value: Any) -> Iterator[str]:
    """Every ``module:name`` in a record, wherever it stands, but for what nobody can make again."""
    if isinstance(value, str):
        yield from (value,) if _NAMES_CODE.fullmatch(value) else ()
    elif isinstance(value, dict):
        for key, one in value.items():
            if key != "unrecorded":
                yield from _names_of_code(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _names_of_code(one)
