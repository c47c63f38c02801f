"""The charts of a report: as PNG files, and as vector graphics in the page, for wide screens and for phones."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, Final, NamedTuple

import numpy as np

from ...core.text_columns import told_apart
from .study import GroupResult, Study
from .style import CHARTS, METHODS, NAMES, OTHERS

WIDE, NARROW, PICTURE = "wide", "narrow", "picture"
_WIDTHS: Final = {WIDE: 9.6, NARROW: 4.4, PICTURE: 8.0}
"""Inches; a point is at least a pixel of the page, so that text keeps its size."""
_FONT_SIZES: Final = {WIDE: 9, NARROW: 10.5, PICTURE: 9}
_UNUSED: Final = re.compile(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", re.DOTALL)
_MAX_LABEL: Final = 44
_MAX_LEGEND: Final = 60


class Chart(NamedTuple):
    """A chart as SVG for the page, and as a picture with its name."""

    title: str
    svg: str
    picture: str
    png: bytes


Draw = Callable[[Any, str], None]
"""Draws a chart into axes, in one of the three sizes."""


def draw_chart(picture: str, title: str, draw: Draw, *, height: float, narrow: float | None = None) -> Chart:
    """Draw a chart in three sizes.

    Args:
        picture: the name of the PNG.
        title: the title above the chart.
        draw: draws the chart.
        height: inches.
        narrow: inches on phones; None if phones show the wide chart, which scrolls.
    """
    heights = {WIDE: height} if narrow is None else {WIDE: height, NARROW: narrow}
    svgs = []
    for size, inches in heights.items():
        text = _render(title, draw, size, inches).decode()
        kind = "scrolled" if narrow is None else size
        prefix = f"{picture.removesuffix('.png')}-{size}-"
        svgs.append(f'<div class="chart {kind}">{_in_page(text, prefix, title)}</div>')
    return Chart(title, "\n".join(svgs), picture, _render(title, draw, PICTURE, height))


def _render(title: str, draw: Draw, size: str, height: float) -> bytes:
    """Render an SVG, or a PNG with title and legend inside."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    settings: dict[Any, Any] = {**CHARTS, "font.size": _FONT_SIZES[size], "svg.hashsalt": title}
    written = io.BytesIO()
    with mpl.rc_context(settings):
        figure = Figure(figsize=(_WIDTHS[size], height), dpi=150, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        draw(axes, size)
        if size == PICTURE:
            axes.set_title(title, fontsize=11)
            handles, labels = axes.get_legend_handles_labels()
            if handles:
                figure.legend(handles[::-1], labels[::-1], loc="outside lower center", ncols=2, fontsize=8)
        figure.savefig(written, format="png" if size == PICTURE else "svg", transparent=size != PICTURE)
    return written.getvalue()


def _in_page(svg: str, prefix: str, title: str) -> str:
    """Embed an SVG in a page: page colours, unique ids, full width."""
    text = _UNUSED.sub("", svg[svg.index("<svg") :])
    prefix = re.sub(r"[^A-Za-z0-9_-]", "-", prefix)
    text = re.sub(r'\bid="', f'id="{prefix}', text).replace("url(#", f"url(#{prefix}")
    text = text.replace('xlink:href="#', f'xlink:href="#{prefix}')
    for shade, name in NAMES.items():
        text = text.replace(shade, f"var({name})")
    text = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg role="img" aria-label="@" viewBox="\1">', text, count=1)
    return text.replace("@", escape(title), 1)


def curves(study: Study) -> Draw:
    """Mean learning curves with their 95 % intervals; the best is drawn last, over the others."""
    labels = told_apart([result.group.label for result in study.coloured_results], _MAX_LEGEND)

    def draw(axes: Any, size: str) -> None:
        for result in study.results[len(study.coloured_results) :]:
            if result.band is not None:
                axes.plot(result.band.timesteps, result.band.mean, color=OTHERS, linewidth=0.6, zorder=1)
        for result, colour, label in reversed(list(zip(study.coloured_results, METHODS, labels, strict=False))):
            if result.band is not None:
                at, mean, low, high = (result.band.timesteps, result.band.mean, result.band.low, result.band.high)
                axes.plot(at, mean, color=colour, linewidth=1.8, label=label if size == PICTURE else None)
                axes.fill_between(at, low, high, color=colour, alpha=0.16, linewidth=0)
        axes.set_xlabel("timesteps")
        axes.set_ylabel("return of an episode")
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(_ticks(4 if size == NARROW else 8))
        axes.xaxis.set_major_formatter(lambda value, _: in_thousands(value))

    return draw


def finals(study: Study) -> Draw:
    """The interquartile mean of each group's final returns, with its interval, and the runs as points.

    A phone has no room for labels beside the axis: there each label is above its group.
    """
    known = [result for result in study.coloured_results if result.final is not None]
    labels = told_apart([result.group.label for result in known], _MAX_LABEL)

    def draw(axes: Any, size: str) -> None:
        for row, (result, colour) in enumerate(zip(known, METHODS, strict=False)):
            final: Any = result.final
            axes.plot(result.finals, [row] * len(result.finals), "|", color=colour, alpha=0.7, markersize=9)
            axes.plot([final.low, final.high], [row, row], color=colour, linewidth=6, alpha=0.3, solid_capstyle="butt")
            axes.plot([final.value], [row], "o", color=colour, markersize=6)
        axes.set_yticks(range(len(known)), [""] * len(known) if size == NARROW else labels)
        axes.set_ylim(len(known) - 0.5, -0.8 if size == NARROW else -0.5)
        for row, label in enumerate(labels if size == NARROW else ()):
            where: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
            axes.annotate(label, (0, row), xytext=(2, 5), va="bottom", **where)
        axes.set_xlabel("final return")
        axes.xaxis.set_major_locator(_ticks(4 if size == NARROW else 8))
        axes.grid(visible=False, axis="y")

    return draw


def finals_heights(study: Study) -> tuple[float, float]:
    """Heights in inches for :func:`finals`, on a wide screen and on a phone."""
    return 0.9 + 0.32 * len(study.coloured_results), 0.9 + 0.45 * len(study.coloured_results)


def _ticks(number: int) -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(number)


def in_thousands(value: float) -> str:
    """A tick: 2M, 250k, 500."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def ranks(results: Sequence[GroupResult], number: int) -> list[int]:
    """The quantile group of each result, from 0 for the lowest; results may be in any order."""
    values = np.array([-np.inf if result.final is None else result.final.value for result in results])
    place = np.empty(len(values), int)
    place[np.argsort(values, kind="stable")] = np.arange(len(values))
    return [int(index) for index in place * number // max(len(values), 1)]
