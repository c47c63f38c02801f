"""Parts of a page: tables and lists as HTML. All text that comes from runs is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from ...run_dir.statistics import Interval
from .style import METHODS
from .tables import number

DASH = "\N{EN DASH}"


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


class Row(NamedTuple):
    """A row of a table: its heading, and its cells."""

    head: str
    cells: Sequence[str]


def text(value: str) -> str:
    """Escape a text, unless it is HTML already."""
    return value if isinstance(value, Html) else escape(value)


def table(heads: Sequence[str], rows: Iterable[Row], *, about: str, left: Sequence[int] = ()) -> str:
    """A table that scrolls if it is wider than the page.

    Args:
        heads: the columns' headings.
        rows: the rows of the table.
        about: the description for screen readers.
        left: numbers of the columns of text, which are left-aligned; the first column always is.
    """

    def kind(column: int) -> str:
        return ' class="left"' if column in left else ""

    head = "".join(f'<th scope="col"{kind(column)}>{text(name)}</th>' for column, name in enumerate(heads))
    body = "\n".join(
        f'<tr><th scope="row">{text(row.head)}</th>'
        + "".join(f"<td{kind(column)}>{text(cell)}</td>" for column, cell in enumerate(row.cells, 1))
        + "</tr>"
        for row in rows
    )
    label = escape(about, quote=True)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def group_label(label: str, place: int) -> Html:
    """The label of a group, with its colour if it has one."""
    colour = f"var(--m{place})" if place < len(METHODS) else "var(--others)"
    return Html(f'<span class="label"><span class="swatch" style="background:{colour}"></span>{escape(label)}</span>')


def legend(labels: Sequence[str]) -> str:
    """A legend of the groups that are drawn in colours."""
    items = "".join(f"<li>{group_label(label, place)}</li>" for place, label in enumerate(labels))
    return f'<ul class="legend">{items}</ul>'


def interval(value: Interval | None) -> str:
    """The value, and its bounds below it."""
    if value is None:
        return DASH
    shown = escape(number_or_dash(value.value))
    if value.low == value.high:
        return Html(shown)
    return Html(f"{shown}<small>{number_or_dash(value.low)} to {number_or_dash(value.high)}</small>")


def number_or_dash(value: float | None) -> str:
    """A number; a dash for none."""
    found = number(value)
    return DASH if found == "-" else found
