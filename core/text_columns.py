"""Tables in the width of a terminal: long texts lose their middle, and different texts stay different."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple, TextIO

ELLIPSIS: Final = "\N{HORIZONTAL ELLIPSIS}"
LEAST: Final = 10
"""Minimum width of a column; if even that does not fit, columns are left out."""
HEADING: Final = 12
"""Headings up to this length are never shortened."""
_ANY: Final = 10_000
_NUMBER: Final = re.compile(r"[-+]?[\d.,]+(e[-+]?\d+)?%?( ± [\d.,]+)?|\d{4}-\d\d-\d\dT[\d:]+Z")
"""A number, one with its deviation, or a time."""
_MOST_NAMED: Final = 5


class Column(NamedTuple):
    """A column of a table: a heading, and texts that keep at least ``least`` characters.

    A ``whole`` column is never shortened or left out.
    """

    name: str
    texts: Sequence[str]
    right: bool = False
    whole: bool = False
    least: int = LEAST

    @property
    def natural(self) -> int:
        """The width of its longest text."""
        return max(map(len, (self.name, *self.texts)))

    @property
    def narrowest(self) -> int:
        """The smallest useful width; numbers are never shortened."""
        if self.whole:
            return self.natural
        texts = (len(text) if _NUMBER.fullmatch(text) else min(len(text), self.least) for text in self.texts)
        return max(len(self.name) if len(self.name) <= HEADING else self.least, *texts, 0)


def room_of(stream: TextIO | None) -> int:
    """Width of a terminal; practically unlimited for a file or another program, or if the output is closed."""
    return shutil.get_terminal_size().columns if stream is not None and stream.isatty() else _ANY


def shortened(text: str, width: int) -> str:
    """A text of at most ``width`` characters: the beginning and the end of a longer one."""
    if len(text) <= width:
        return text
    tail = max((width - 1) // 2, 0)
    return f"{text[: max(width - 1 - tail, 0)]}{ELLIPSIS}{text[len(text) - tail :]}"


def told_apart(texts: Sequence[str], width: int) -> list[str]:
    """Shorten texts to ``width`` so that different ones stay different; numbers are never shortened."""
    cut = {text: text if _NUMBER.fullmatch(text) else shortened(text, width) for text in texts}
    for same in [[text for text in cut if cut[text] == one] for one, many in Counter(cut.values()).items() if many > 1]:
        first = next((place for place, one in enumerate(zip(*same, strict=False)) if len(set(one)) > 1), 0)
        word = max(same[0].rfind(mark, 0, first) for mark in "-_/=,: ") + 1
        for start in (first, word):  # a whole word, if that suffices
            shorter = {text: shortened(ELLIPSIS + text[start:], width) for text in same}
            if len(set(shorter.values())) == len(same):
                cut |= shorter
    if len(set(cut.values())) < len(cut):
        cut = {text: shortened(f"{number}: {text}", width) for number, text in enumerate(cut, 1)}
    return [cut[text] for text in texts]


def fit_columns(
    columns: Sequence[Column], room: int, gap: int = 2, *, across: bool = False
) -> tuple[list[Column], str]:
    """Fit columns into a line, and return a sentence about those left out.

    Args:
        columns: long texts are shortened, the widest first; if that does not suffice, the last columns are left out.
            The first one is always kept.
        room: characters of a line.
        gap: characters between two columns.
        across: keep texts different within their row instead of their column; the first column has the rows' headings.
    """
    shown, left_out = list(columns), list[str]()
    while (cap := _cap(shown, room - gap * (len(shown) - 1))) is None:
        last = next((place for place in range(len(shown) - 1, 0, -1) if not shown[place].whole), None)
        if last is None:
            break
        left_out.insert(0, shown.pop(last).name)
    most = cap or LEAST
    limits = [max(column.narrowest, most) for column in shown]
    names = [shortened(column.name, limit) for column, limit in zip(shown, limits, strict=True)]
    texts = [told_apart(column.texts, limit) for column, limit in zip(shown, limits, strict=True)]
    if across:
        rows = zip(*(column.texts for column in shown[1:]), strict=True)
        texts[1:] = map(list, zip(*(told_apart(row, most) for row in rows), strict=True))
        names[1:] = _headings([column.name for column in shown[1:]], most)
    cut = [one._replace(name=name, texts=cells) for one, name, cells in zip(shown, names, texts, strict=True)]
    return cut, _omission_note(left_out)


def _headings(names: Sequence[str], width: int) -> list[str]:
    """Names; a long one of several words takes several lines."""
    words = list(dict.fromkeys(word for name in names for word in name.split()))
    brief = dict(zip(words, told_apart(words, width), strict=True))
    return ["\n".join(brief[word] for word in name.split()) if len(name) > width else name for name in names]


def _cap(columns: Sequence[Column], room: int) -> int | None:
    """Largest width of a text with which all columns fit; None if that is too narrow to read."""
    widths = [(column.natural, column.narrowest) for column in columns]
    caps = range(max(full for full, _ in widths), LEAST - 1, -1)
    return next((cap for cap in (*caps, LEAST) if sum(max(low, min(full, cap)) for full, low in widths) <= room), None)


def _omission_note(names: Sequence[str]) -> str:
    if not names:
        return ""
    named = ", ".join(shortened(name, 2 * LEAST) for name in names[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"There is no room for {named}{more}. A wider terminal, or --json, shows all."
