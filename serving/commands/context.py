"""Exit codes, errors and output of the commands of a service, and the opened service."""

from __future__ import annotations

import argparse
import contextlib
import getpass
import json
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ...core.errors import ArgumentError
from ...core.text_columns import Column, fit_columns, room_of
from ..accounts import Accounts, AgentRows, Audit, By, Database, RefusedError, UnusableError, agents, folder
from ..accounts.tables import Agent

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?\+00:00")
"""A time in JSON; a table shows its seconds."""


def exit_code(
    arguments: argparse.Namespace, command: Callable[[argparse.Namespace], int], *invalid: type[Exception]
) -> int:
    """Run a command; 1 for a refusal, 2 for ``invalid`` errors and an unusable argument, folder or database."""
    expected: tuple[type[Exception], ...] = (ArgumentError, RefusedError, UnusableError, *invalid)
    try:
        return command(arguments)
    except expected as error:
        if arguments.debug:
            traceback.print_exception(error)
        print(f"axonrl: error: {error}", file=sys.stderr)
        return FAILED if isinstance(error, RefusedError) else USAGE


@contextlib.contextmanager
def for_nobody_else() -> Iterator[None]:
    """Create files with mode 0600, and folders with 0700, in this context."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


class Service:
    """Context of a command.

    Args:
        arguments: the command line.
        database: the open database.
    """

    def __init__(self, arguments: argparse.Namespace, database: Database) -> None:
        self.arguments, self.as_json = arguments, bool(arguments.json)
        self.folder: Path = folder.prepare(arguments.data)
        self.database = database
        self.audit = Audit(database, self.folder)
        self.accounts = Accounts(database, audit=self.audit)
        self.agents = AgentRows(database, audit=self.audit)
        self.by = By(f"command line: {_who()}")

    def agent(self, path: str) -> Agent:
        """The row of ``USER/NAME``; RefusedError if there is none."""
        user, name = agents.split(path)
        row = self.agents.by_name(self.accounts.user(user).id, name)
        if row is None:
            raise RefusedError("not_found", f"There is no agent {path}")
        return row

    def done(self, sentence: str, **values: Any) -> int:
        """Print what was done, as a sentence or as JSON."""
        print(json.dumps(values, indent=2) if self.as_json else sentence)
        return DONE

    def rows(self, rows: Sequence[Mapping[str, Any]], *columns: str) -> int:
        """Print complete rows as JSON, or some columns as a table."""
        if self.as_json:
            print(json.dumps(list(rows), indent=2))
            return DONE
        named = [
            Column(name.replace("_", " "), [_cell(row[name]) for row in rows], whole=name == "id") for name in columns
        ]
        room = room_of(sys.stdout)
        fit, left_out = fit_columns(named, room)
        for line in ([one.name for one in fit], *zip(*(one.texts for one in fit), strict=True)):
            print("  ".join(cell.ljust(one.natural) for cell, one in zip(line, fit, strict=True)).rstrip())
        if left_out:
            print(textwrap.fill(left_out, room))
        return DONE


def _who() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return " ".join(f"{key}={_cell(item)}" for key, item in value.items()) or "-"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    return _TIME.sub(r"\1Z", str(value))
