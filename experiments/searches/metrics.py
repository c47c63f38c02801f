"""Metrics of trials. Their names are in :mod:`..polyaxon.metrics`."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
from collections.abc import Collection, Mapping
from pathlib import Path

from ..polyaxon.metrics import FINAL, RESULTS, RETURN
from ..tracking.journal import TrackedRun
from .runs import FINISHED, Outcome


@dataclasses.dataclass(frozen=True)
class Unknown:
    """A metric that a trial does not have.

    Args:
        name: of the metric.
        trial: its number.
        found: those that it has, the most similar name first.
    """

    name: str
    trial: int
    found: list[str]

    def __str__(self) -> str:
        return f"trial {self.trial} has no metric {self.name!r}. It has {', '.join(self.found)}"


def unknown(name: str, trial: int, found: Collection[str]) -> Unknown | None:
    """Report that a trial lacks this metric but has others of its family; else None."""
    family, slash, _ = name.partition("/")
    if not slash or name in found or not any(one.startswith(f"{family}/") for one in found):
        return None
    ordered = sorted(found, key=lambda one: (-difflib.SequenceMatcher(None, name, one).ratio(), one))
    return Unknown(name, trial, ordered)


def read(folder: Path) -> TrackedRun:
    """The journal of a trial; empty where there is none."""
    run = TrackedRun(folder)
    with contextlib.suppress(OSError):
        run.read()
    return run


def measured(name: str, outcome: Outcome, folder: Path) -> float | None:
    """The metric of an ended trial: among its results, else the last value in its journal.

    One that was stopped has no final evaluation. In its place are its last evaluation during training, or else its last
    100 episodes.
    """
    is_finished = outcome.status == FINISHED
    if name == RETURN and is_finished:
        return outcome.episode_return
    known = _results(outcome)
    if name in known:
        return known[name]
    run = read(folder)
    last = {point.name: point.value for point in run.points}
    if is_finished:
        return last.get(name, run.outputs.get(name))
    if name == RETURN or name.startswith(FINAL):
        what = "return_mean" if name == RETURN else name.removeprefix(FINAL)
        found = last.get(f"eval/{what}", last.get(f"rollout/{what}"))
        return outcome.episode_return if found is None and name == RETURN else found
    return last.get(name)


def _results(outcome: Outcome) -> Mapping[str, float]:
    own = {name: getattr(outcome, name, None) for name in RESULTS}
    evaluation = {f"final_{name}": value for name, value in (outcome.evaluation or {}).items()}
    return {name: float(value) for name, value in {**own, **evaluation}.items() if value is not None}
