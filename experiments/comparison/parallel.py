"""A search in parallel coordinates: an axis for each setting that differs, and one for the final return."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ...core.text_columns import shortened
from ..running.folder import is_search
from .charts import PICTURE, Draw, in_thousands, ranks
from .groups import ABSENT, differences, short_names
from .study import GroupResult, Study
from .style import RANKS, TEXT

MANY: Final = 6
"""Minimum number of groups that count as a search."""
_MAX_AXES: Final = 7
_MAX_NAMES: Final = 12
_MAX_TICKS: Final = 8
"""Maximum number of ticks of an axis."""
_LOGARITHMIC: Final = 8
"""Ratio of an axis's highest value to its lowest from which the axis is logarithmic."""


class Axis(NamedTuple):
    """An axis: its name, the position of each group in 0 .. 1, and ticks (position and text)."""

    name: str
    places: Sequence[float]
    ticks: Sequence[tuple[float, str]]


def searched_groups(study: Study) -> list[GroupResult]:
    """The groups of a search: those of the most frequent algorithm if there are many, else none."""
    known = [result for result in study.comparable if result.final is not None]
    count = Counter(result.group.algorithm for result in known)
    algorithm, number = count.most_common(1)[0] if count else ("", 0)
    return [result for result in known if result.group.algorithm == algorithm] if number >= MANY else []


def axes_of(results: Sequence[GroupResult]) -> list[Axis]:
    """The axes of searched settings, at most seven, which differ within a search or outside all searches."""
    differing, found = differences([result.group.settings for result in results]), []
    searches: dict[Path | None, list[Mapping[str, Any]]] = {}
    for result in results:
        above = result.group.runs[0].folder.parent
        searches.setdefault(above if is_search(above) else None, []).append(result.group.settings)
    sought = {key for settings in searches.values() for key in differences(settings)}
    names = short_names(differing)
    for key, texts in differing.items():
        if key not in sought:
            continue
        values = [result.group.settings.get(key, ABSENT) for result in results]
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            found.append(_numbers(names[key], values))
        elif len(set(texts)) <= _MAX_NAMES:
            found.append(_texts(names[key], texts))
    return found[:_MAX_AXES]


def parallel(results: Sequence[GroupResult]) -> Draw:
    """Draw a search: a line for each group, coloured by its final return."""
    values = [result.final.value for result in results if result.final is not None]
    axes_found = [*axes_of(results), _numbers("final return", values, logarithmic=False)]

    def draw(axes: Any, size: str) -> None:
        fifths = ranks(results, len(RANKS))
        for index in sorted(range(len(results)), key=lambda index: values[index]):
            heights = [axis.places[index] for axis in axes_found]
            axes.plot(range(len(axes_found)), heights, color=RANKS[fifths[index]], linewidth=1.1, alpha=0.85)
        for column, axis in enumerate(axes_found):
            axes.axvline(column, color=TEXT, linewidth=0.8)
            for place, text in axis.ticks:
                axes.annotate(
                    shortened(text, 14),
                    (column, place),
                    xytext=(4, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=8,
                    bbox={"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 1} if size == PICTURE else None,
                )
        labels = [shortened(axis.name, 20) for axis in axes_found]
        axes.set_xticks(range(len(axes_found)), labels)
        axes.set_yticks([])
        axes.set_xlim(-0.1, len(axes_found) - 0.5)
        axes.grid(visible=False)
        for spine in axes.spines.values():
            spine.set_visible(False)

    return draw


def _numbers(name: str, values: Sequence[float], *, logarithmic: bool = True) -> Axis:
    low, high = float(min(values)), float(max(values))
    logarithmic = logarithmic and low > 0 and high / low >= _LOGARITHMIC

    def place(value: float) -> float:
        return math.log(value / low) / math.log(high / low) if logarithmic else (value - low) / ((high - low) or 1.0)

    known = sorted(set(values))
    if len(known) > _MAX_TICKS:
        shares = np.linspace(0, 1, 5)
        known = [low * (high / low) ** at if logarithmic else low + (high - low) * at for at in shares]
    ticks = [(place(value), in_thousands(float(f"{value:.3g}"))) for value in known]
    return Axis(f"{name} (log)" if logarithmic else name, [place(value) for value in values], ticks)


def _texts(name: str, texts: Sequence[str]) -> Axis:
    known = sorted(set(texts))
    place = {text: index / max(len(known) - 1, 1) for index, text in enumerate(known)}
    return Axis(name, [place[text] for text in texts], [(place[text], text) for text in known])
