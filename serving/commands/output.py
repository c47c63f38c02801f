"""What the commands of a service print."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    """Print rows as JSON, whole, or some of their columns as a table."""
    if as_json:
        print(json.dumps(list(rows), indent=2))
        return
    lines = [[name.replace("_", " ") for name in columns], *([_shown(row[name]) for name in columns] for row in rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def print_done(sentence: str, values: Mapping[str, Any], *, as_json: bool) -> None:
    """Print what was done, for people or as JSON."""
    print(json.dumps(values, indent=2) if as_json else sentence)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return " ".join(f"{key}={_shown(item)}" for key, item in value.items()) or "-"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    return str(value)
