"""Facts about an agent that is not in memory, from the manifest of its newest checkpoint, without opening it.

After a kill -9 the journal has steps that no checkpoint has. They were acknowledged, so they are counted; the resulting
updates and episodes are known only once the agent is opened.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...core.errors import CheckpointError
from ...run_dir.checkpoints import CheckpointStore
from .agent_store import JOURNAL, is_void, nbytes_of
from .journal import BEGIN, DamagedJournalError, Journal, segments_of
from .records import steps_in


def known(path: Path) -> dict[str, Any]:
    """Part of the answer of ``info`` for an agent in memory.

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
        found = {"bytes": nbytes_of(path, store)}
        about = _newest(store, journal)
        return found if about is None else {**found, **_counted(about, journal)}
    except (CheckpointError, OSError):  # another server writes there, or the disk fails
        return {}


def _newest(store: CheckpointStore, journal: Journal) -> dict[str, Any] | None:
    """The facts of the newest valid checkpoint; None if it has none."""
    for index in reversed(store.kept()):
        about, _ = store.about(index)
        if "number" not in about:
            return None
        if not is_void(journal, about):
            return about
    return None


def _counted(about: dict[str, Any], journal: Journal) -> dict[str, Any]:
    """Add the journal's steps after the checkpoint."""
    found = {name: about[name] for name in ("counters", "episode_return_mean")}
    later = [one for one in segments_of(journal.folder) if one.first > about["number"]]
    if not any(one.path.stat().st_size > BEGIN for one in later):
        return found
    counters = dict(found["counters"])
    try:
        for steps in journal.read(about["number"] + 1, steps_in):
            counters["global_timestep"] += steps
    except DamagedJournalError as error:
        found |= {"status": "failed", "status_detail": str(error)}
    return {**found, "counters": counters}
