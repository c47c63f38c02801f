"""Metrics of running trials, for the rules of early stopping; and a check that they have what is asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from ..polyaxon.metrics import RETURN
from ..tracking.journal import TrackedRun
from . import metrics
from .early_stopping import Rules
from .runs import Runs


class Watch:
    """Reads the journals of trials that run.

    Args:
        runs: of which.
        rules: what for.
        metric: what is compared.
    """

    def __init__(self, runs: Runs, rules: Rules, metric: str) -> None:
        self._folder_of, self.rules = runs.run_folder, rules
        self._unseen = {metric, *rules.metrics} - {RETURN}
        """Metrics of which no trial has had a value."""
        self.unknown: metrics.Unknown | None = None
        """A metric that a trial should have had and lacks."""
        self._runs: dict[int, TrackedRun] = {}
        for trial, outcome in runs.outcomes.items():  # of an earlier start
            if outcome.timesteps is not None:
                self.began(trial)
                self.ended(trial)

    def began(self, trial: int) -> None:
        """Read the journal of this trial from now on."""
        if self.rules.metrics and trial not in self._runs:
            self._runs[trial] = TrackedRun(self._folder_of(trial))

    def ended(self, trial: int) -> None:
        """Read the last values of a trial."""
        self._read(trial)
        if self._unseen:
            run = self._runs.get(trial) or metrics.read(self._folder_of(trial))
            found = {RETURN, *run.outputs, *(point.name for point in run.points)}
            self._unseen -= found
            for name in sorted(self._unseen):
                self.unknown = self.unknown or metrics.unknown(name, trial, found)

    def judge(self, running: Sequence[int]) -> tuple[dict[int, str], str]:
        """The trials to stop, with the reasons; and the reason to end the search, or nothing."""
        stopped: dict[int, str] = {}
        for trial in running:
            self._read(trial)
        for metric in sorted(self.rules.metrics):
            series = {trial: self._values(run, metric) for trial, run in self._runs.items()}
            stopped |= self.rules.stopped(metric, series, running)
            if why := self.rules.end_by_metric(metric, series):
                return stopped, why
        return stopped, ""

    def _read(self, trial: int) -> None:
        if trial in self._runs:
            with contextlib.suppress(OSError):  # it has not begun to write
                self._runs[trial].read()

    def _values(self, run: TrackedRun, metric: str) -> list[float]:
        if metric in run.outputs:  # a result of the whole run
            return [float(run.outputs[metric])]
        return [point.value for point in run.points if point.name == metric]
