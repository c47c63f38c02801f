"""Runs that differ only in their seeds are one group; what differs between groups gives them their labels."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

from .run_digest import EMPTY, FINISHED, Curve, RunDigest
from .run_folders import common_folder, short_path

ABSENT: Final = "-"
"""Placeholder for a setting that a run lacks."""
ENOUGH: Final = 0.95
"""The share of the timesteps of its group's longest run that a run needs to count, unless it finished."""
_PREFIXES: Final = ("agent.params.", "agent.", "environment.kwargs.", "environment.", "config.", "train.")
_MAX_IN_LABEL: Final = 3
_MAX_SHOWN: Final = 60
_DIGITS: Final = (4, 8)
"""Significant digits of displayed numbers, if that distinguishes them."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A run within its group."""

    run: RunDigest
    curve: Curve
    left_out: str = ""
    """Why it does not count in statistics; empty if it does."""


@dataclasses.dataclass(frozen=True)
class Group:
    """Runs with the same settings except the seed, of which all were evaluated, or none."""

    label: str
    entries: Sequence[Entry]

    @property
    def runs(self) -> list[RunDigest]:
        """All runs, including those that do not count."""
        return [entry.run for entry in self.entries]

    @property
    def counted(self) -> list[Entry]:
        """The runs that count in statistics."""
        return [entry for entry in self.entries if not entry.left_out]

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings that its runs share."""
        return self.entries[0].run.settings

    @property
    def algorithm(self) -> str:
        """The algorithm of its runs."""
        return self.entries[0].run.algorithm

    @property
    def unrecorded(self) -> list[str]:
        """Unrecorded settings in which its runs may differ."""
        return sorted({name for run in self.runs for name in run.unrecorded})

    @property
    def is_evaluated(self) -> bool:
        """Whether final returns are those of evaluations, not of the last 100 episodes of training."""
        return _is_evaluated(self.entries)


def group_runs(found: Iterable[tuple[RunDigest, Curve]]) -> dict[str, list[Group]]:
    """The groups of each environment, in the order of their first runs, without runs that have a problem."""
    same: dict[Hashable, list[tuple[RunDigest, Curve]]] = {}
    for run, curve in found:
        if not run.problem and run.status != EMPTY:
            same.setdefault((run.environment, settings_key(run.settings)), []).append((run, curve))
    environments: dict[str, list[list[Entry]]] = {}
    for members in same.values():
        environments.setdefault(members[0][0].environment or "unknown", []).extend(_evaluated_or_not(_entries(members)))
    return {
        name: [Group(label, entries) for label, entries in zip(_labels(groups), groups, strict=True)]
        for name, groups in environments.items()
    }


def _is_evaluated(entries: Iterable[Entry]) -> bool:
    return any(entry.run.final_episodes is not None for entry in entries if not entry.left_out)


def _evaluated_or_not(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Split evaluated runs from the others, whose returns are of another kind."""
    others = [entry for entry in entries if entry.left_out or entry.run.final_episodes is not None]
    without = [entry for entry in entries if not entry.left_out and entry.run.final_episodes is None]
    if not without or not _is_evaluated(others):
        return [list(entries)]
    return [others, without]


def settings_key(settings: Mapping[str, Any]) -> str:
    """Settings as a key, equal for equal settings. True is not 1, and 1 is not 1.0."""
    return json.dumps(settings, sort_keys=True, default=repr)


def differences(settings: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The keys in which settings differ, with the value of each as text; ``-`` if there is none."""
    keys = dict.fromkeys(key for one in settings for key in one)
    return {key: _texts([one.get(key, ABSENT) for one in settings]) for key in keys if _differs(settings, key)}


def _differs(settings: Sequence[Mapping[str, Any]], key: str) -> bool:
    if any(key not in one for one in settings):
        return True
    return len({repr(one[key]) for one in settings}) > 1  # true is not 1


def _texts(values: Sequence[Any]) -> list[str]:
    """Values as texts, with four significant digits, or more if needed to distinguish them."""
    whole = [_text(value) for value in values]
    for digits in _DIGITS:
        texts = [_text(_round(value, digits)) for value in values]
        if len(set(texts)) == len(set(whole)):
            return texts
    return whole


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."


def _round(value: Any, digits: int) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    return [_round(one, digits) for one in value] if isinstance(value, list) else value


def short_names(keys: Iterable[str]) -> dict[str, str]:
    """Keys without their prefixes, as far as they stay different."""
    keys = list(keys)
    short = {key: next((key.removeprefix(one) for one in _PREFIXES if key.startswith(one)), key) for key in keys}
    count = Counter(short.values())
    return {key: name if count[name] == 1 else key for key, name in short.items()}


def _entries(members: Sequence[tuple[RunDigest, Curve]]) -> list[Entry]:
    """Mark the runs that count: one per seed, if it finished or is as long as the others."""
    longest = max(run.timesteps for run, _ in members)
    seen: set[int | None] = set()
    entries = []
    for run, curve in sorted(members, key=lambda member: (member[0].seed is None, member[0].seed or 0)):
        why = ""
        if not curve.ends.size and not curve.evaluations:
            why = "no episode has ended yet"
        elif run.status != FINISHED and run.timesteps < ENOUGH * longest:
            why = f"{run.status} at {run.timesteps:,} of {longest:,} timesteps"
        elif run.seed in seen:
            why = f"another run of seed {run.seed}"
        else:
            seen.add(run.seed)
        entries.append(Entry(run, curve, why))
    return entries


def _labels(groups: Sequence[Sequence[Entry]]) -> list[str]:
    """Label groups by settings that differ, and algorithm if there are several; by folder if much differs."""
    first = [entries[0].run for entries in groups]
    algorithms: dict[str, list[RunDigest]] = {}
    for run in first:
        algorithms.setdefault(run.algorithm, []).append(run)
    labels = dict(zip((run.folder for run in first), _folder_names(first), strict=True))
    for algorithm, runs in algorithms.items():
        differing = differences([run.settings for run in runs])
        names = short_names(differing)
        head = [algorithm] if len(algorithms) > 1 or not differing else []
        for place, run in enumerate(runs):
            parts = [f"{names[key]}={texts[place]}" for key, texts in differing.items()]
            if len(parts) <= _MAX_IN_LABEL:
                labels[run.folder] = " ".join([*head, *parts])
    named = [labels[run.folder] for run in first]
    if len(are := [_is_evaluated(entries) for entries in groups]) > sum(are) > 0:
        named = [
            label if is_evaluated else f"{label}, not evaluated" for label, is_evaluated in zip(named, are, strict=True)
        ]
    return _unique(named)


def _folder_names(runs: Sequence[RunDigest]) -> list[str]:
    """The folder of each run, or of all its seeds, relative to the folder that holds all."""
    folders = [run.folder.resolve() for run in runs]
    folders = [
        folder.parent if folder.name == f"seed-{run.seed}" else folder
        for run, folder in zip(runs, folders, strict=True)
    ]
    common = common_folder(folders)
    return [short_path(folder, common) for folder in folders]


def _unique(labels: Sequence[str]) -> list[str]:
    count, number, unique = Counter(labels), Counter[str](), []
    for label in labels:
        number[label] += 1
        unique.append(f"{label} ({number[label]})" if count[label] > 1 else label)
    return unique
