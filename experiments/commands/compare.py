"""Commands that put runs beside each other: ``axonrl ls``, ``compare`` and ``report``.

Help loads nothing but this; what they do is in comparison.py.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .arguments import Command, add_command, finite

_LS_EXAMPLES = """\
examples:
  axonrl ls
  axonrl ls runs/pole experiments/runs --json
"""
_COMPARE_EXAMPLES = """\
examples:
  axonrl compare runs/dqn_cartpole runs/ppo_cartpole
  axonrl compare runs/pole/seed-0 runs/pole/seed-1
"""
_REPORT_EXAMPLES = """\
examples:
  axonrl report runs
  axonrl report runs/dqn runs/ppo -o pole.html --reach 195,475
"""


def add_commands(commands: Any, as_json: argparse.ArgumentParser, debug: argparse.ArgumentParser) -> dict[str, Command]:
    """Add the commands to the command line.

    Args:
        commands: what ``add_subparsers`` returned.
        as_json: the option of commands that can print JSON.
        debug: the option of all commands.

    Returns:
        What carries each of them out.
    """
    ls = add_command(commands, "ls", "list runs, with their results", _LS_EXAMPLES, [as_json, debug])
    about = "a run folder, or a folder that holds some; default: runs"
    ls.add_argument("runs", metavar="FOLDER", nargs="*", type=Path, help=about)
    about = "compare runs: their results, and the settings that differ"
    compare = add_command(commands, "compare", about, _COMPARE_EXAMPLES, [as_json, debug])
    about = "a run folder, or a folder that holds some: those that differ only in the seed are one column"
    compare.add_argument("runs", metavar="RUN", nargs="+", type=Path, help=about)
    about = "write a report about runs: a web page, with its pictures beside it"
    report = add_command(commands, "report", about, _REPORT_EXAMPLES, [as_json, debug])
    report.add_argument(
        "runs", metavar="FOLDER", nargs="+", type=Path, help="a run folder, or a folder that holds some"
    )
    about = "the page to write; default: report.html; one that exists is replaced"
    report.add_argument("-o", "--output", metavar="FILE", type=Path, default=Path("report.html"), help=about)
    about = "returns for which to tell how soon they were reached; default: four between the lowest and the highest"
    report.add_argument("--reach", metavar="R,R", type=_returns, default=[], help=about)
    return dict.fromkeys(("ls", "compare", "report"), _carry_out)


def _returns(text: str) -> list[float]:
    return [finite(part) for part in text.split(",")]


def _carry_out(arguments: argparse.Namespace) -> int:
    from . import comparison

    return int(getattr(comparison, arguments.command)(arguments))
