"""Metrics of trials, read from their results and journals. Their names are in :mod:`..polyaxon.metrics`."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
from collections.abc import Collection, Sequence
from pathlib import Path

from ..polyaxon.metrics import FINAL, RETURN
from ..running.report import outputs_of
from ..tracking.journal import TrackedRun
from .early_stopping import Rules
from .runs import FINISHED, Outcome, Runs


@dataclasses.dataclass(frozen=True)
class Unknown:
    """A metric that a trial lacks.

    Args:
        name: its name.
        trial: the number of the trial.
        found: the metrics of the trial, the most similar name first.
    """

    name: str
    trial: int
    found: list[str]

    def __str__(self) -> str:
        return f"trial {self.trial} has no metric {self.name!r}. It has {', '.join(self.found)}"


def find_unknown(name: str, trial: int, found: Collection[str]) -> Unknown | None:
    """Report a metric that a trial lacks although it has others of that family; else None."""
    family, slash, _ = name.partition("/")
    if not slash or name in found or not any(one.startswith(f"{family}/") for one in found):
        return None
    ordered = sorted(found, key=lambda one: (-difflib.SequenceMatcher(None, name, one).ratio(), one))
    return Unknown(name, trial, ordered)


def read(folder: Path) -> TrackedRun:
    """The journal of a trial; empty if there is none."""
    run = TrackedRun(folder)
    with contextlib.suppress(OSError):
        run.read()
    return run


def values(run: TrackedRun, metric: str) -> list[float]:
    """The values of a metric in a journal."""
    if metric in run.outputs:  # a result of the whole run
        return [float(run.outputs[metric])]
    return [point.value for point in run.points if point.name == metric]


def metric_of(name: str, outcome: Outcome, folder: Path) -> float | None:
    """The metric of an ended trial, from its results, or else its last value in the journal.

    A stopped trial has no final evaluation. Instead, its last evaluation during training counts, or else its last 100
    episodes.
    """
    is_finished = outcome.status == FINISHED
    if name == RETURN and is_finished:
        return outcome.episode_return
    if (known := outputs_of(outcome).get(name)) is not None:
        return float(known)
    run = read(folder)
    last = {point.name: point.value for point in run.points}
    if is_finished:
        return last.get(name, run.outputs.get(name))
    if name == RETURN or name.startswith(FINAL):
        what = "return_mean" if name == RETURN else name.removeprefix(FINAL)
        found = last.get(f"eval/{what}", last.get(f"rollout/{what}"))
        return outcome.episode_return if found is None and name == RETURN else found
    return last.get(name)


class Watch:
    """Reads the journals of running trials.

    Args:
        runs: the runs.
        rules: the rules of early stopping.
        metric: the compared metric.
    """

    def __init__(self, runs: Runs, rules: Rules, metric: str) -> None:
        self._folder_of, self.rules = runs.run_folder, rules
        self._unseen = {metric, *rules.metrics} - {RETURN}
        """Metrics for which no trial has had a value yet."""
        self.unknown: Unknown | None = None
        """A metric that a trial should have but lacks."""
        self._runs: dict[int, TrackedRun] = {}
        for trial, outcome in runs.outcomes.items():  # of an earlier start
            if outcome.timesteps is not None:
                self.began(trial)
                self.ended(trial)

    def began(self, trial: int) -> None:
        """Start reading the journal of this trial."""
        if self.rules.metrics and trial not in self._runs:
            self._runs[trial] = TrackedRun(self._folder_of(trial))

    def ended(self, trial: int) -> None:
        """Read the last values of a trial."""
        self._read(trial)
        if self._unseen:
            run = self._runs.get(trial) or read(self._folder_of(trial))
            found = {RETURN, *run.outputs, *(point.name for point in run.points)}
            self._unseen -= found
            for name in sorted(self._unseen):
                self.unknown = self.unknown or find_unknown(name, trial, found)

    def judge(self, running: Sequence[int]) -> tuple[dict[int, str], str]:
        """The trials to stop, with reasons; and the reason to end the search, empty if there is none."""
        stopped: dict[int, str] = {}
        for trial in running:
            self._read(trial)
        for metric in sorted(self.rules.metrics):
            series = {trial: values(run, metric) for trial, run in self._runs.items()}
            stopped |= self.rules.stopped(metric, series, running)
            if why := self.rules.end_by_metric(metric, series):
                return stopped, why
        return stopped, ""

    def _read(self, trial: int) -> None:
        if trial in self._runs:
            with contextlib.suppress(OSError):  # the trial has not begun to write
                self._runs[trial].read()
