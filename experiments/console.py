"""What commands print, and the exit codes that they return."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from rich.table import Table

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
"""The command line, the experiment file or the run folder is invalid."""
_ANY_WIDTH: Final = 10_000
INTERRUPTED: Final = 130
TERMINATED: Final = 143


def say(text: str) -> None:
    """Tell the user something that is not the command's output."""
    tell(f"axonrl: {text}")


def tell(text: str) -> None:
    """Print a line to standard error. A closed terminal or pipe does not end a run."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr)


def print_json(values: Mapping[str, Any]) -> None:
    """Print JSON for scripts; NaN and infinity become null."""
    print(json.dumps(_finite(values), indent=2, default=str))


def print_table(table: Table, *, whole: bool = False) -> None:
    """Print a table; ``whole`` leaves each row on one line where a file or another program reads it."""
    from rich.console import Console

    console = Console()
    if whole and not console.is_terminal:
        console.width = _ANY_WIDTH
    console.print(table)


def rows_table(title: str, rows: Mapping[str, str], justify: Literal["left", "right"] = "right") -> Table:
    """A table of labels and values. No text in it is markup."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    name = Text(title, style="bold")
    made = Table(title=name, title_justify="left", box=box.SIMPLE_HEAD, show_header=False)
    made.add_column(style="dim")
    made.add_column(justify=justify, overflow="fold")
    for label, value in rows.items():
        made.add_row(Text(label), Text(value))
    return made


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
