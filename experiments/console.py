"""Output of commands, and their exit codes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from ..core.text_columns import Column, fit_columns, room_of, shortened, told_apart

if TYPE_CHECKING:
    from rich.console import Console

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
"""The command line, the experiment file or the run folder is invalid."""
INTERRUPTED: Final = 130
TERMINATED: Final = 143


def say(text: str) -> None:
    """Tell the user something that is not part of the command's output."""
    tell(f"axonrl: {text}")


def tell(text: str) -> None:
    """Print a line to standard error; a closed terminal or pipe does not end a run."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr)


def print_json(values: Mapping[str, Any]) -> None:
    """Print JSON for scripts; NaN and infinity become null."""
    print(json.dumps(_finite(values), indent=2, default=str))


@dataclasses.dataclass(frozen=True)
class Table:
    """A table for a terminal of any width."""

    columns: Sequence[Column]
    title: str = ""
    above: int = 0
    """Number of rows above the dividing line."""
    across: bool = False
    """Rows, not columns, hold values of one kind: see :func:`axonrl.core.text_columns.fit_columns`."""


def print_table(table: Table) -> None:
    """Print a table. Nothing is shortened if the output is a file or another program."""
    from rich import box
    from rich.table import Table as RichTable

    console = output_console(width=room_of(sys.stdout))
    columns, left_out = fit_columns(table.columns, console.width - 2, across=table.across)
    made = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for column in columns:
        made.add_column(_plain(column.name), justify="right" if column.right else "left", no_wrap=True)
    for number, row in enumerate(zip(*(column.texts for column in columns), strict=True), 1):
        made.add_row(*map(_plain, row), end_section=number == table.above)
    _print_title(console, table.title)
    console.print(made)
    if left_out:
        console.print(_plain(left_out))


def print_rows(title: str, rows: Mapping[str, str], justify: Literal["left", "right"] = "right") -> None:
    """Print a table of labels and values. Long values are wrapped between words."""
    from rich import box
    from rich.table import Table

    console = output_console(width=room_of(sys.stdout))
    made = Table(box=box.SIMPLE_HEAD, show_header=False)
    labels = told_apart([*rows], console.width // 2)
    room = max(console.width - max(map(len, labels), default=0) - 7, 1)
    made.add_column(style="dim", no_wrap=True)
    made.add_column(justify=justify)
    for label, value in zip(labels, rows.values(), strict=True):
        made.add_row(_plain(label), _plain(re.sub(r"\S+", lambda word: shortened(word[0], room), value)))
    _print_title(console, title)
    console.print(made)


def output_console(**settings: Any) -> Console:
    """Console for standard output; ``BrokenPipeError`` if its reader, such as ``head``, has ended."""
    from rich import console

    class OutputConsole(console.Console):
        def on_broken_pipe(self) -> None:  # rich would end the process
            raise BrokenPipeError

    return OutputConsole(**settings)


def _print_title(console: Console, title: str) -> None:
    from rich.text import Text

    if title:
        console.print(Text(shortened(title, console.width), style="bold"), soft_wrap=True)


def _plain(text: str) -> Any:
    """Text without markup."""
    from rich.text import Text

    return Text(text)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
