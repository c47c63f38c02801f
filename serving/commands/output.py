"""Output of the commands of a service."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...core.text_columns import Column, fitted, room_of

_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?\+00:00")
"""A time in JSON; a table shows its seconds."""


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    """Print complete rows as JSON, or some columns as a table."""
    if as_json:
        print(json.dumps(list(rows), indent=2))
        return
    named = [
        Column(name.replace("_", " "), [_shown(row[name]) for row in rows], whole=name == "id") for name in columns
    ]
    room = room_of(sys.stdout)
    fit, left_out = fitted(named, room)
    for line in ([one.name for one in fit], *zip(*(one.texts for one in fit), strict=True)):
        print("  ".join(cell.ljust(one.natural) for cell, one in zip(line, fit, strict=True)).rstrip())
    if left_out:
        print(textwrap.fill(left_out, room))


def print_done(sentence: str, values: Mapping[str, Any], *, as_json: bool) -> None:
    """Print the result, as a sentence or as JSON."""
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
    return _TIME.sub(r"\1Z", str(value))
