"""Colours of charts and page: each has a name, a shade on white, and one on a dark page."""

from __future__ import annotations

from typing import Final

from ...run_dir.learning_curve import GREY, STYLE

METHODS: Final = ("#1f5fa9", "#d9591d", "#2f855a", "#9b2c8f", "#a16207", "#0e7490", "#be123c", "#4d5b7c")
"""Colours of groups, the best first."""
OTHERS: Final = "#b3b8c2"
"""The colour of all other groups."""
RANKS: Final = ("#a9b4c4", "#8fb3d9", "#5b93cf", "#e0a030", "#d1480f")
"""From the worst fifth of a search to the best."""
TEXT: Final = "#374151"
GRID: Final = "#e5e7eb"
_DARK_METHODS: Final = ("#6ea8ff", "#ff9a5c", "#68d391", "#e293dc", "#e3b341", "#4fc3d9", "#ff7b93", "#a9b7d9")
_DARK_RANKS: Final = ("#4b5666", "#41648c", "#5b9be0", "#e3b341", "#ff8a4c")

NAMES: Final = {
    **{shade: f"--m{index}" for index, shade in enumerate(METHODS)},
    **{shade: f"--r{index}" for index, shade in enumerate(RANKS)},
    OTHERS: "--others",
    TEXT: "--text",
    GREY: "--quiet",
    GRID: "--line",
}
"""A shade in a chart to its name in the page's style, so that the page may show another one."""
DARK: Final = {
    **{f"--m{index}": shade for index, shade in enumerate(_DARK_METHODS)},
    **{f"--r{index}": shade for index, shade in enumerate(_DARK_RANKS)},
    "--others": "#4a5160",
    "--text": "#e6e8ec",
    "--quiet": "#9aa3b2",
    "--line": "#2c323c",
}
CHARTS: Final = {**STYLE, "text.color": TEXT, "axes.labelcolor": TEXT, "grid.color": GRID, "svg.fonttype": "none"}
"""Matplotlib's settings."""
