"""Commands about servers: ``axonrl submit``, ``status``, ``logs``, ``stop``, ``sync`` and ``push``.

Help loads only this module; the commands are implemented in polyaxon/runs.py, sync.py and push.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from .arguments import ALONE, DEBUG, EXPERIMENT, FORMATS_OF_EXPORT, POLICY, WITH_JSON, Command, argument, group

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


_RUN_ON_SERVER: Final = argument(
    "run", metavar="RUN", help="OWNER/PROJECT/UUID, or the address that axonrl submit printed"
)
_SUBMIT_ARGUMENTS: Final = (
    *(*EXPERIMENT, DEBUG),
    argument("--project", metavar="OWNER/NAME", help="the project; default: the project of the file's tracker"),
    argument("--dry-run", action="store_true", help="print the Polyaxon operation instead of submitting it"),
)
_SYNC_ARGUMENTS: Final = (
    *ALONE,
    argument("runs", metavar="RUN", nargs="+", type=Path, help="a run folder"),
    group(
        "Polyaxon server; default: the host of the run's tracker, or POLYAXON_HOST",
        argument("--host", metavar="URL", help="the server's address"),
        argument("--project", metavar="OWNER/NAME", help="the project; created if it is missing"),
    ),
)
_PUSH_ARGUMENTS: Final = (
    *ALONE,
    argument("model_dir", type=Path, metavar="RUN", help="a run folder, or the folder of an exported policy"),
    argument("repository", metavar="USER/NAME", help="the repository; created if it is missing"),
    *(POLICY, FORMATS_OF_EXPORT),
    argument("--private", action="store_true", help="create a new repository as private"),
)

COMMANDS: Final = {
    "..polyaxon.runs": (
        Command("submit", "run an experiment on a Polyaxon server", _SUBMIT_ARGUMENTS, _SUBMIT),
        Command("status", "show the status of a run on a server", (*WITH_JSON, _RUN_ON_SERVER), _RUN),
        Command("logs", "print the log of a run on a server", (*ALONE, _RUN_ON_SERVER), _RUN),
        Command("stop", "stop a run on a server", (*ALONE, _RUN_ON_SERVER), _RUN),
    ),
    ".sync": (
        Command("sync", "upload finished or interrupted runs to their tracking servers", _SYNC_ARGUMENTS, _SYNC),
    ),
    ".push": (Command("push", "publish a run or an exported policy on the Hugging Face Hub", _PUSH_ARGUMENTS, _PUSH),),
}
"""Commands by the module whose functions run them."""
