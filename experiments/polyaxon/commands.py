"""The commands for runs on a Polyaxon server: ``axonrl submit``, ``status``, ``logs`` and ``stop``.

Help loads nothing but this; what they do stands in remote_runs.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, Final

from ..commands.subcommands import add_command

FORM: Final = "OWNER/PROJECT/UUID, or the address that axonrl submit printed"
"""What stands for a run on the command line."""
_SUBMIT_EXAMPLES = """\
examples:
  axonrl submit my.yml --project me/rl -P learning_rate=1e-3
  axonrl submit my.yml --dry-run
The server is the host of the file's tracker, or else POLYAXON_HOST; a token comes from POLYAXON_AUTH_TOKEN.
"""
_RUN_EXAMPLES = """\
The run's server is that of its address, or else POLYAXON_HOST; a token comes from POLYAXON_AUTH_TOKEN.
"""


def add_commands(
    commands: Any, experiment: argparse.ArgumentParser, common: argparse.ArgumentParser
) -> dict[str, Callable[[argparse.Namespace], int]]:
    """Add the commands to the command line.

    Args:
        commands: what ``add_subparsers`` returned.
        experiment: the parent of commands that take an experiment file, ``-P`` and ``--set``.
        common: the parent of all commands.

    Returns:
        What carries each of them out.
    """
    about = "run an experiment on a Polyaxon server"
    submit = add_command(commands, "submit", about, _SUBMIT_EXAMPLES, [experiment, common])
    submit.add_argument("--project", metavar="OWNER/NAME", help="default: that of the file's tracker")
    submit.add_argument(
        "--dry-run", action="store_true", help="print the operation that would be submitted, and send nothing"
    )
    run = argparse.ArgumentParser(add_help=False)
    run.add_argument("run", metavar="RUN", help=FORM)
    status = add_command(commands, "status", "say how a run on a server is doing", _RUN_EXAMPLES, [run, common])
    status.add_argument("--json", action="store_true", help="print JSON instead of a table")
    add_command(commands, "logs", "print what a run on a server has written", _RUN_EXAMPLES, [run, common])
    add_command(commands, "stop", "stop a run on a server", _RUN_EXAMPLES, [run, common])
    return dict.fromkeys(("submit", "status", "logs", "stop"), _carry_out)


def _carry_out(arguments: argparse.Namespace) -> int:
    from . import runs as remote_runs

    return int(getattr(remote_runs, arguments.command)(arguments))
