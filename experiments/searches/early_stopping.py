"""Early stopping of trials, or of the search, as in Polyaxon's ``earlyStopping``.

Intervals of a policy count values of the metric: the n-th value of a trial is compared with other trials' values up to
their n-th.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from ..polyaxon.metrics import RULE

FAILURE: Final = "failure_early_stopping"
MEDIAN, TRUNCATION, DIFF = "median", "truncation", "diff"


class Rules:
    """The rules of a matrix.

    Args:
        config: Polyaxon's object for the matrix.
    """

    def __init__(self, config: Any) -> None:
        rules = getattr(config, "early_stopping", None) or []
        self._metrics = [rule for rule in rules if rule.kind == RULE]
        self._failures = [float(rule.percent) for rule in rules if rule.kind == FAILURE]
        self._judged: dict[tuple[int, int], int] = {}
        """Number of values judged so far, by rule and trial."""

    @property
    def metrics(self) -> set[str]:
        """The metrics that are watched."""
        return {str(rule.metric) for rule in self._metrics}

    def end_by_failures(self, failed: int, trials: int) -> str:
        """Why the search ends as failed; empty if it does not."""
        share = 100.0 * failed / max(trials, 1)
        least = min((one for one in self._failures if failed and share >= one), default=None)
        return "" if least is None else f"{failed} of {trials} trials failed, at least {least:g} %"

    def end_by_metric(self, metric: str, series: Mapping[int, Sequence[float]]) -> str:
        """Why the search ends, given the metric's values per trial; empty if it does not."""
        for rule in self._metrics:
            if rule.metric == metric and rule.policy is None:
                for trial, values in series.items():
                    for value in values:  # several may have come since the last time
                        if _reaches(rule, value):
                            return f"{metric} of trial {trial} reached {value:g}"
        return ""

    def stopped(self, metric: str, series: Mapping[int, Sequence[float]], running: Collection[int]) -> dict[int, str]:
        """The running trials that should stop, each with the reason."""
        found: dict[int, str] = {}
        for index, rule in enumerate(self._metrics):
            if rule.metric == metric and rule.policy is not None:
                for trial in running:
                    values = series.get(trial, ())
                    first = self._judged.get((index, trial), 0) + 1
                    self._judged[index, trial] = len(values)
                    for count in range(first, len(values) + 1):
                        if trial not in found and _is_worse(rule, trial, count, series, running):
                            found[trial] = f"{metric} was {values[count - 1]:g}: {rule.policy.kind} stopping"
        return found


def _is_worse(
    rule: Any, trial: int, count: int, series: Mapping[int, Sequence[float]], running: Collection[int]
) -> bool:
    """Does the policy stop the trial after this number of values?"""
    policy, sign = rule.policy, -1.0 if _minimizes(rule) else 1.0
    own = [sign * value for value in series[trial][:count]]
    if count % (policy.evaluation_interval or 1) or count <= (policy.min_interval or 0):
        return False
    if any(_reaches(rule, value) for value in series[trial][:count]):
        return False
    counted = running if policy.kind == TRUNCATION and not policy.include_succeeded else series
    others = [
        [sign * value for value in values[:count]]
        for other, values in series.items()
        if other != trial and len(values) >= count and other in counted
    ]
    if len(others) < max(policy.min_samples or 1, 1):
        return False
    if policy.kind == MEDIAN:
        return max(own) < statistics.median(math.fsum(values) / count for values in others)
    best = max(max(values) for values in others)
    if policy.kind == DIFF:
        return max(own) < best - abs(best) * float(policy.percent) / 100.0
    worse = sum(max(values) < max(own) for values in others)
    return worse < math.floor((len(others) + 1) * float(policy.percent) / 100.0)


def _reaches(rule: Any, value: float) -> bool:
    wanted = float(rule.value)
    return value <= wanted if _minimizes(rule) else value >= wanted


def _minimizes(rule: Any) -> bool:
    return str(getattr(rule.optimization, "value", rule.optimization)).lower() == "minimize"
