"""Commands about servers: ``axonrl submit``, ``status``, ``logs``, ``stop``, ``sync`` and ``push``.

Help loads nothing but this; what they do is in polyaxon/runs.py, sync.py and push.py.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from .arguments import (
    ALONE,
    WITH_JSON,
    Command,
    debug_option,
    experiment_options,
    formats_choice,
    policy_choice,
    run_folder,
)

_SUBMIT = """\
examples:
  axonrl submit my.yml --project me/rl -P learning_rate=1e-3
  axonrl submit my.yml --dry-run
The server is the host of the file's tracker, or else POLYAXON_HOST.
A token is read from POLYAXON_AUTH_TOKEN.
"""
_RUN = """\
The server is the one in the run's address, or else POLYAXON_HOST.
A token is read from POLYAXON_AUTH_TOKEN.
"""
_SYNC = """\
examples:
  axonrl sync runs/dqn_cartpole --host https://polyaxon.example.com
  POLYAXON_HOST=https://polyaxon.example.com axonrl sync runs/*
A token is read from POLYAXON_AUTH_TOKEN, or from polyaxon login.
It is safe to sync a run again.
"""

_PUSH = """\
examples:
  axonrl push runs/dqn_cartpole me/dqn_cartpole
  axonrl push exported/cartpole me/dqn_cartpole --private
In Python:
  agent = axonrl.Agent.load("hf://me/dqn_cartpole")
  policy = axonrl.policies.Policy.load("hf://me/dqn_cartpole")
A token is read from HF_TOKEN, or from hf auth login.
"""


def _add_submit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--project", metavar="OWNER/NAME", help="the project; default: that of the file's tracker")
    parser.add_argument("--dry-run", action="store_true", help="print the Polyaxon operation instead of submitting it")


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="OWNER/PROJECT/UUID, or the address that axonrl submit printed")


def _add_sync(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="a run folder")
    server = parser.add_argument_group("Polyaxon server; default: the host of the run's tracker, or POLYAXON_HOST")
    server.add_argument("--host", metavar="URL", help="its address")
    server.add_argument("--project", metavar="OWNER/NAME", help="the project; created if it is missing")


def _add_push(parser: argparse.ArgumentParser) -> None:
    run_folder(parser, "a run folder, or the folder of an exported policy")
    parser.add_argument("repository", metavar="USER/NAME", help="the repository; created if it is missing")
    policy_choice(parser)
    formats_choice(parser)
    parser.add_argument("--private", action="store_true", help="make a new repository private")


COMMANDS: Final = {
    "..polyaxon.runs": (
        Command(
            "submit", "run an experiment on a Polyaxon server", (experiment_options, debug_option), _SUBMIT, _add_submit
        ),
        Command("status", "show the status of a run on a server", WITH_JSON, _RUN, _add_run),
        Command("logs", "print the log of a run on a server", ALONE, _RUN, _add_run),
        Command("stop", "stop a run on a server", ALONE, _RUN, _add_run),
    ),
    ".sync": (
        Command("sync", "upload finished or interrupted runs to their tracking servers", ALONE, _SYNC, _add_sync),
    ),
    ".push": (Command("push", "publish a run or an exported policy on the Hugging Face Hub", ALONE, _PUSH, _add_push),),
}
"""By the modules whose functions carry them out."""
