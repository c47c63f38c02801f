"""A digest of a run folder. A damaged folder gives a run with a problem, never an error."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ...core.errors import CheckpointError
from ...core.protocols import Array
from ...run_dir import record
from ...run_dir.checkpoints import CheckpointStore
from ...run_dir.final import FinalEvaluation, final_evaluation, last_entries
from ...run_dir.history import EPISODES, EVALUATIONS, Episode, Episodes, Evaluation, read_columns, read_evaluations
from ...run_dir.learning_curve import algorithm_of
from ...run_dir.starts import STARTS, read_starts
from ..errors import ExperimentError
from ..running.folder import EXPERIMENT
from ..running.report import WINDOW
from ..tracking.history import is_from_history
from ..tracking.journal import FAILED as TRACKED_FAILED
from ..tracking.journal import KILLED as TRACKED_KILLED
from ..tracking.journal import STOPPED, SUCCEEDED
from .settings import Described, described_by

RUNNING, FINISHED, ENDED, KILLED, FAILED = "running", "finished", "ended", "killed", "failed"
EMPTY, DAMAGED = "empty", "damaged"
_STATUSES: Final = {SUCCEEDED: FINISHED, STOPPED: STOPPED, TRACKED_FAILED: FAILED}


@dataclasses.dataclass(frozen=True)
class RunDigest:
    """A run as its folder records it; None for what is unknown.

    ``best_return`` is the mean return of the best evaluation, ``final_return`` that of the last one: the one at the
    run's end if there was one, else the last during training. For a run without evaluations they are the highest and
    the last mean of 100 consecutive training episodes.
    """

    folder: Path
    status: str
    problem: str = ""
    """The problem of a damaged folder; empty if there is none."""
    environment: str = ""
    algorithm: str = ""
    seed: int | None = None
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """The run's settings without the seed, by dotted keys; empty ones are left out."""
    unrecorded: tuple[str, ...] = ()
    """Unrecorded settings, in which runs of one group may differ."""
    episodes: int = 0
    timesteps: int = 0
    best_return: float | None = None
    final_return: float | None = None
    final_episodes: int | None = None
    """Number of episodes in the evaluation behind ``final_return``; None if that is not an evaluation."""
    training_return: float | None = None
    """Mean return of the last 100 training episodes."""
    timesteps_per_second: float | None = None
    """Training speed by the wall time of its episodes, including evaluations in between."""
    started: datetime.datetime | None = None

    @property
    def age(self) -> float | None:
        """Seconds since the run was first started."""
        now = datetime.datetime.now(datetime.timezone.utc)
        return None if self.started is None else max(0.0, (now - self.started).total_seconds())


class History(NamedTuple):
    """The recorded results of a run; ``final`` is the evaluation at its end."""

    episodes: Episodes = Episodes(*np.zeros((4, 0)))
    evaluations: Sequence[Evaluation] = ()
    final: FinalEvaluation | None = None


@dataclasses.dataclass(frozen=True)
class Curve:
    """The returns of a run over its timesteps: those of training episodes, and those of evaluations."""

    ends: Array
    returns: Array
    evaluations: Mapping[int, float]

    @classmethod
    def of(cls, history: History) -> Curve:
        """The curve of a history. The final evaluation is a point only if there is no other."""
        episodes, evaluations, final = history
        points = {row.position: row.episode_return_mean for row in evaluations}
        if final is not None and not points and not episodes.seconds.size:
            points = {final.timesteps or final.updates: final.mean}
        return cls(episodes.global_timestep, episodes.episode_return, points)


NO_CURVE: Final = Curve(np.zeros(0), np.zeros(0), {})


def read_run(folder: Path) -> tuple[RunDigest, Curve]:
    """Read a run and its curve; the curve of a damaged folder is empty."""
    problems: list[str] = []
    described, history = Described(), History()
    with _collecting(problems, CheckpointError, ExperimentError, OSError):
        described = described_by(folder, record.read(folder))
    with _collecting(problems, ValueError, OSError):
        history = History(read_columns(folder), read_evaluations(folder), final_evaluation(folder))
    episodes, timesteps = history.episodes, _timesteps(folder, history)
    started = _first_start(folder, problems)
    if not problems and not described.is_recorded:
        what = "has not trained yet" if (folder / EXPERIMENT).is_file() else "is empty"
        problems.append(f"{folder} {what}: {record.FILE} is missing")
        status = DAMAGED if len(episodes.seconds) else RUNNING if _is_held(folder) else EMPTY
    else:
        status = DAMAGED if problems else _status(folder)
        if status == FINISHED or timesteps:
            _need_columns(folder, problems)
            status = DAMAGED if problems else status
    run = RunDigest(
        folder,
        status,
        _problem_summary(problems, status),
        str(described.settings.get("environment.id") or ""),
        algorithm_of(str(described.settings.get("agent.model_fn") or "")) or "unnamed",
        described.seed,
        described.settings,
        described.unrecorded,
        len(episodes.seconds),
        timesteps,
        *_returns(history),
        _speed(episodes, described.num_envs),
        started,
    )
    return run, NO_CURVE if problems else Curve.of(history)


def _problem_summary(problems: Sequence[str], status: str) -> str:
    """The problems, and the remedy."""
    said = "; ".join(one.removesuffix(f". {record.REMEDY}") for one in problems)
    return f"{said}. {record.REMEDY}" if status == DAMAGED else said


@contextlib.contextmanager
def _collecting(problems: list[str], *kinds: type[Exception]) -> Iterator[None]:
    try:
        yield
    except kinds as error:
        problems.append(str(error))


def _need_columns(folder: Path, problems: list[str]) -> None:
    """Add missing or damaged columns to the problems; every run that has trained has episodes.csv."""
    for name, kind in ((EPISODES, Episode), (EVALUATIONS, Evaluation)):
        path, columns = folder / name, ",".join(kind._fields)
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                found = file.readline().rstrip()
        except FileNotFoundError:
            if name == EPISODES:
                problems.append(f"{path} is missing")
            continue
        except OSError:  # reported when its rows were read
            continue
        if found != columns:
            problems.append(f"{path} is damaged: its first line, {found[:80]!r}, does not name its columns")


def _returns(history: History) -> tuple[float | None, float | None, int | None, float | None]:
    """Best return, final return, episodes of the final evaluation, and mean return of the last training episodes."""
    returns, final = history.episodes.episode_return, history.final
    training = float(returns[-WINDOW:].mean()) if returns.size else None
    evaluated = [(row.episode_return_mean, row.episodes) for row in history.evaluations]
    evaluated += [] if final is None else [(final.mean, final.episodes)]
    if evaluated:
        return max(mean for mean, _ in evaluated), *evaluated[-1], training
    if not returns.size:
        return None, None, None, None
    sums = np.concatenate([[0.0], np.cumsum(returns)])
    window = min(WINDOW, returns.size)
    return float((sums[window:] - sums[:-window]).max() / window), training, None, training


def _timesteps(folder: Path, history: History) -> int:
    """The highest count in the folder, as only a checkpoint counts unfinished episodes."""
    ends, evaluations = history.episodes.global_timestep, history.evaluations
    counted = [int(ends[-1])] if len(ends) else []
    counted += [evaluations[-1].global_timestep] if evaluations else []
    counted += [history.final.timesteps] if history.final is not None else []
    try:
        newest = CheckpointStore(folder).newest()
        path = folder / "checkpoints" / f"checkpoint-{newest or 0:08d}" / "manifest.json"
        counted.append(int(json.loads(path.read_bytes())["counters"]["global_timestep"]))
    except (CheckpointError, OSError, ValueError, KeyError, TypeError):  # the checkpoint is read only for this number
        pass
    return max(counted, default=0)


def _speed(episodes: Episodes, num_envs: int) -> float | None:
    seconds = float(episodes.seconds.sum())
    return float(episodes.length.sum()) * num_envs / seconds if seconds > 0 else None


def _first_start(folder: Path, problems: list[str]) -> datetime.datetime | None:
    """When the run was first started."""
    try:
        starts = read_starts(folder)
        return datetime.datetime.fromisoformat(starts[0]["started"]) if starts else None
    except CheckpointError as error:
        problems.append(str(error))
    except ValueError as error:
        problems.append(f"{folder / STARTS} is damaged: {error!r}")
    return None


def _status(folder: Path) -> str:
    if _is_held(folder):
        return RUNNING
    with contextlib.suppress(OSError):
        if not is_from_history(folder):
            found = next((entry for entry in last_entries(folder) if "status" in entry), {})
            if found.get("message") == TRACKED_KILLED:  # the trackers' process saw it end: servers have no such status
                return KILLED
            return _STATUSES.get(str(found.get("status")), KILLED)
    # A Python program's run does not record how it ended, but removes the file that names its process.
    return KILLED if (folder / "lock.pid").exists() else ENDED


def _is_held(folder: Path) -> bool:
    """Is a process writing to the folder? No lock is taken, as that could stop a run that is about to start."""
    try:
        process = int((folder / "lock.pid").read_text())
    except (OSError, ValueError):
        return False
    if os.name == "nt":  # signal 0 does not exist there: it would end the process
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True
