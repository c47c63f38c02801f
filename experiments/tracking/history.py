"""The journal of a Python program's run, made from its history, as the run was not tracked while it trained."""

from __future__ import annotations

import bisect
import contextlib
import datetime
import json
import math
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from ...hooks.events import BeginFacts, EpisodeStats, EvaluationFacts, Timings
from ...run_dir.files import replacing, write_file
from ...run_dir.history import read_episodes, read_evaluations
from ...run_dir.starts import read_starts
from ..config.schema import ExperimentFile
from .journal import CREATED, FAILED, JOURNAL, KILLED, SUCCEEDED, JournalHook
from .producer import inputs

_MADE: Final = "made_from_history"
"""Marks such a journal, which is made again after the run has continued."""


class _Entries:
    """Collects the entries of a journal, with a time that can be set."""

    def __init__(self, time: float) -> None:
        self.time = time
        self.lines: list[bytes] = []

    def write(self, **entry: Any) -> None:
        self.lines.append(json.dumps({"time": self.time, **entry}, default=str).encode() + b"\n")

    def status(self, status: str, message: str = "") -> None:
        self.write(status=status, message=message)


def is_from_history(folder: Path) -> bool:
    """Is there no journal, or one that was made from the history?"""
    return not (folder / JOURNAL).exists() or _MADE in _first_entry(folder)


def write_journal(folder: Path, experiment: ExperimentFile, killed: bool = False) -> None:
    """Write the journal of a run that was not tracked: its episodes and evaluations; the history has no updates.

    Args:
        folder: the run folder.
        experiment: the run as described by ``run.json``.
        killed: whether its process was killed: a failure to trackers, as for tracked runs.

    Raises:
        CheckpointError, ValueError: a file in the folder is damaged.
        OSError: the journal cannot be written.
    """
    started, *_ = [*read_starts(folder), {}]
    entries = _Entries(0.0)
    with contextlib.suppress(KeyError, TypeError, ValueError):
        entries.time = datetime.datetime.fromisoformat(started["started"]).timestamp()
    known = _first_entry(folder).get("run", {}).get("uuid") or uuid.uuid4().hex
    run = {"uuid": str(known), "name": experiment.name, "description": experiment.description}
    entries.write(run={**run, "inputs": inputs(experiment)}, **{_MADE: True})
    entries.status(CREATED)
    hook = JournalHook(entries, 1)
    session: Any = SimpleNamespace(global_timestep=0, position=0, global_step=0, global_episode=0, timings=Timings())
    hook.begin(session, BeginFacts(experiment.environment.num_envs, False, {}))
    events: list[tuple[int, float, Callable[[Any, Any], None], Any]] = []
    evaluations = read_evaluations(folder)
    ends = [evaluation.global_timestep for evaluation in evaluations]
    for row in read_episodes(folder):
        stats = EpisodeStats(
            row.episode_return, row.length, False, False, math.nan, math.nan, row.seconds, episode=row.episode
        )
        share = row.seconds / experiment.environment.num_envs  # episodes of the copies run side by side
        # The history counts updates without timesteps at evaluations only: those at the next one, or else at the last.
        following = min(bisect.bisect_left(ends, row.global_timestep), len(ends) - 1)
        offline = evaluations[following].offline_steps if evaluations else 0
        events.append((row.global_timestep + offline, share, hook.after_episode, stats))
    for evaluation in evaluations:
        known = {name: value for name, value in evaluation.results.items() if value is not None}
        events.append((evaluation.position, 0.0, hook.after_evaluation, EvaluationFacts(known, ())))
    for position, seconds, tell, facts in sorted(events, key=lambda event: event[0]):
        session.position = position
        session.global_episode = getattr(facts, "episode", session.global_episode)
        entries.time += seconds
        tell(session, facts)
    if killed:
        entries.status(FAILED, KILLED)
    else:
        entries.status(SUCCEEDED)
    with replacing(folder / JOURNAL) as temporary:
        write_file(temporary, entries.lines)


def _first_entry(folder: Path) -> Mapping[str, Any]:
    """The first entry of the journal; empty if there is none."""
    try:
        with (folder / JOURNAL).open("rb") as file:
            entry = json.loads(file.readline())
    except (OSError, ValueError):
        return {}
    return entry if isinstance(entry, dict) else {}
