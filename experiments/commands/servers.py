"""Commands about servers: ``axonrl submit``, ``status``, ``logs``, ``stop`` and ``sync``.

Help loads nothing but this; what they do is in polyaxon/runs.py and sync.py.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .arguments import Command, add_command

_SUBMIT_EXAMPLES = """\
examples:
  axonrl submit my.yml --project me/rl -P learning_rate=1e-3
  axonrl submit my.yml --dry-run
The server is the host of the file's tracker, or else POLYAXON_HOST.
A token is read from POLYAXON_AUTH_TOKEN.
"""
_RUN_EXAMPLES = """\
The server is the one in the run's address, or else POLYAXON_HOST.
A token is read from POLYAXON_AUTH_TOKEN.
"""
_SYNC_EXAMPLES = """\
examples:
  axonrl sync runs/dqn_cartpole --host https://polyaxon.example.com
  POLYAXON_HOST=https://polyaxon.example.com axonrl sync runs/*
A token is read from POLYAXON_AUTH_TOKEN, or from polyaxon login.
It is safe to sync a run again.
"""


def add_commands(
    commands: Any, experiment: argparse.ArgumentParser, as_json: argparse.ArgumentParser, debug: argparse.ArgumentParser
) -> dict[str, Command]:
    """Add the commands to the command line.

    Args:
        commands: what ``add_subparsers`` returned.
        experiment: the options of commands that take an experiment file.
        as_json: the option of commands that can print JSON.
        debug: the option of all commands.

    Returns:
        What carries each of them out.
    """
    about = "run an experiment on a Polyaxon server"
    submit = add_command(commands, "submit", about, _SUBMIT_EXAMPLES, [experiment, debug])
    submit.add_argument("--project", metavar="OWNER/NAME", help="the project; default: that of the file's tracker")
    submit.add_argument("--dry-run", action="store_true", help="print the Polyaxon operation instead of submitting it")
    run = argparse.ArgumentParser(add_help=False)
    run.add_argument("run", metavar="RUN", help="OWNER/PROJECT/UUID, or the address that axonrl submit printed")
    add_command(commands, "status", "show the status of a run on a server", _RUN_EXAMPLES, [run, as_json, debug])
    add_command(commands, "logs", "print the log of a run on a server", _RUN_EXAMPLES, [run, debug])
    add_command(commands, "stop", "stop a run on a server", _RUN_EXAMPLES, [run, debug])
    about = "upload finished or interrupted runs to their tracking servers"
    sync = add_command(commands, "sync", about, _SYNC_EXAMPLES, [debug])
    sync.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="a run folder")
    server = sync.add_argument_group("Polyaxon server; default: the host of the run's tracker, or POLYAXON_HOST")
    server.add_argument("--host", metavar="URL", help="its address")
    server.add_argument("--project", metavar="OWNER/NAME", help="the project; created if it is missing")
    return {**dict.fromkeys(("submit", "status", "logs", "stop"), _remote), "sync": _sync}


def _remote(arguments: argparse.Namespace) -> int:
    from ..polyaxon import runs

    return int(getattr(runs, arguments.command)(arguments))


def _sync(arguments: argparse.Namespace) -> int:
    from .sync import sync_all

    return sync_all(arguments.runs, arguments.host, arguments.project)
