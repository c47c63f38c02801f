"""Shared context of the commands of ``axonrl service``."""

from __future__ import annotations

import argparse
import contextlib
import getpass
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ..accounts import Accounts, AgentRows, Audit, By, Database, folder
from .output import print_done

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2


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

    def done(self, sentence: str, **values: Any) -> int:
        """Print what was done."""
        print_done(sentence, values, as_json=self.as_json)
        return DONE


def _who() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
