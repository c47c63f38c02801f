"""The command ``axonrl sync``. Help loads nothing but this; what it does stands in sync.py."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .subcommands import add_command

_EXAMPLES = """\
examples:
  axonrl sync runs/dqn_cartpole --host https://polyaxon.example.com --project me/rl
  POLYAXON_HOST=https://polyaxon.example.com axonrl sync runs/*
A token, where the server wants one, comes from POLYAXON_AUTH_TOKEN or from polyaxon login. To sync a run once more
changes nothing.
"""


def add_commands(commands: Any, common: argparse.ArgumentParser) -> dict[str, Callable[[argparse.Namespace], int]]:
    """Add the command to the command line.

    Args:
        commands: what ``add_subparsers`` returned.
        common: the parent of all commands.

    Returns:
        What carries it out.
    """
    about = "have the trackers of runs hold all that the runs' folders hold"
    parser = add_command(commands, "sync", about, _EXAMPLES, [common])
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="the folder of a run")
    server = parser.add_argument_group("Polyaxon server (default: that of the run's experiment, or POLYAXON_HOST)")
    server.add_argument("--host", metavar="URL", help="its address")
    server.add_argument("--project", metavar="OWNER/NAME", help="the project there; it is made if there is none")
    return {"sync": _sync}


def _sync(arguments: argparse.Namespace) -> int:
    from .sync import sync_all

    return sync_all(arguments.runs, arguments.host, arguments.project)
