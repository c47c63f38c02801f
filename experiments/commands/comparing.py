"""``axonrl ls``, ``compare`` and ``report``: runs beside each other, by what is in their folders."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..console import DONE, print_json, print_table, say
from ..errors import RunFolderError
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
    return _COMMANDS[arguments.command](arguments)


def _ls(arguments: argparse.Namespace) -> int:
    from ..comparing.finding import run_folders
    from ..comparing.reading import read_run
    from ..comparing.tables import run_json, runs_table
    from .arguments import RUNS

    runs = [read_run(folder)[0] for folder in run_folders(arguments.runs or [RUNS])]
    if arguments.json:
        print_json({"runs": [run_json(run) for run in runs]})
    elif runs:
        print_table(runs_table(runs), whole=True)
    else:
        print("There are no runs.")
    if not arguments.json:
        for run in runs:
            _tell_problem(run)
    return DONE


def _compare(arguments: argparse.Namespace) -> int:
    from ..comparing.tables import comparison, comparison_table

    columns = [column for folder in arguments.runs for column in _columns(folder)]
    if not columns:
        raise _nothing(arguments.runs)
    if arguments.json:
        print_json(comparison(columns))
    else:
        print_table(comparison_table(columns), whole=True)
    return DONE


def _columns(folder: Path) -> list[tuple[str, Any]]:
    """A folder's groups, each with a name; what is wrong with the others is told."""
    from ..comparing.finding import run_folders
    from ..comparing.grouping import grouped
    from ..comparing.reading import read_run

    found = [read_run(path) for path in run_folders([folder])]
    for run, _ in found:
        _tell_problem(run)
    groups = [group for groups in grouped(found).values() for group in groups]
    return [(str(folder) if len(groups) == 1 else f"{folder}: {group.label}", group) for group in groups]


def _report(arguments: argparse.Namespace) -> int:
    from ..comparing.finding import run_folders
    from ..comparing.grouping import grouped
    from ..comparing.page import write
    from ..comparing.reading import read_run
    from ..comparing.study import study
    from ..comparing.tables import run_json

    found = [read_run(folder) for folder in run_folders(arguments.runs)]
    for run, _ in found:
        _tell_problem(run)
    groups = grouped(found)
    if not groups:
        raise _nothing(arguments.runs)
    studies = [study(name, members, arguments.reach) for name, members in groups.items()]
    runs = [run for run, _ in found]
    pictures = write(arguments.output, studies, runs)
    if arguments.json:
        print_json({"page": arguments.output, "pictures": pictures, "runs": [run_json(run) for run in runs]})
    else:
        print(f"Wrote {arguments.output}, with {len(pictures)} pictures beside it.")
    return DONE


def _tell_problem(run: Any) -> None:
    if run.problem:
        say(f"{run.status}: {run.problem}")


def _nothing(folders: Sequence[Path]) -> RunFolderError:
    where = ", ".join(map(str, folders))
    what = f"There is no run to show in {where}. Give run folders, or a folder that holds some: axonrl ls lists them."
    return RunFolderError(folders[0], what)


_COMMANDS: Final[Mapping[str, Command]] = {"ls": _ls, "compare": _compare, "report": _report}
