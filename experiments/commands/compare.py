"""Commands that compare runs: ``axonrl ls``, ``compare`` and ``report``. Help loads only this module."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..console import DONE, print_json, print_table, say
from ..errors import RunFolderError
from .arguments import RUNS, WITH_JSON, Command, argument, finite

if TYPE_CHECKING:
    from ..comparison.run_digest import Curve, RunDigest
    from ..comparison.tables import Compared
    from ..console import Table

_LS = """\
examples:
  axonrl ls
  axonrl ls runs/pole experiments/runs --json
"""
_COMPARE = """\
examples:
  axonrl compare runs/dqn_cartpole runs/ppo_cartpole
  axonrl compare runs/pole/seed-0 runs/pole/seed-1
"""
_REPORT = """\
examples:
  axonrl report runs
  axonrl report runs/dqn runs/ppo -o pole.html --reach 195,475
"""


def _returns(text: str) -> list[float]:
    return [finite(part) for part in text.split(",")]


_HOLDER: Final = "a run folder, or a folder that contains some"
_ABOUT_COLUMNS: Final = f"{_HOLDER}; runs that differ only in the seed share a column"
_REPORT_ARGUMENTS: Final = (
    *WITH_JSON,
    argument("runs", metavar="FOLDER", nargs="+", type=Path, help=_HOLDER),
    argument(
        *("-o", "--output"),
        metavar="FILE",
        type=Path,
        default=Path("report.html"),
        help="the page to write; default: report.html; an existing one is replaced",
    ),
    argument(
        "--reach",
        metavar="R,R",
        type=_returns,
        default=[],
        help="returns whose sample efficiency is reported; default: four between the lowest and the highest return",
    ),
)
COMMANDS: Final = (
    Command(
        "ls",
        "list runs, with their results",
        (*WITH_JSON, argument("runs", metavar="FOLDER", nargs="*", type=Path, help=f"{_HOLDER}; default: runs")),
        _LS,
    ),
    Command(
        "compare",
        "compare runs: their results, and the settings that differ",
        (*WITH_JSON, argument("runs", metavar="RUN", nargs="+", type=Path, help=_ABOUT_COLUMNS)),
        _COMPARE,
    ),
    Command("report", "write a report on runs: a web page, with its pictures beside it", _REPORT_ARGUMENTS, _REPORT),
)


def ls(arguments: argparse.Namespace) -> int:
    """List runs."""
    from ..comparison.run_digest import read_run
    from ..comparison.run_folders import common_folder, run_folders
    from ..comparison.tables import run_json, runs_table

    folders = arguments.runs or [RUNS]
    runs = [read_run(folder)[0] for folder in run_folders(folders)]
    if arguments.json:
        print_json({"runs": [run_json(run) for run in runs]})
    elif runs:
        _print_table(common := common_folder([run.folder for run in runs]), runs_table(runs, common))
    else:
        print(f"There are no runs in {', '.join(map(str, folders))}.")
    if not arguments.json:
        for run in runs:
            _tell_problem(run)
    return DONE


def compare(arguments: argparse.Namespace) -> int:
    """Show a column for each group."""
    from ..comparison.tables import common_of, comparison, comparison_table

    columns = [column for folder in arguments.runs for column in _columns(folder)]
    if not columns:
        raise _nothing(arguments.runs)
    if arguments.json:
        print_json(comparison(columns))
    else:
        _print_table(common := common_of(columns), comparison_table(columns, common))
    return DONE


def _columns(folder: Path) -> list[Compared]:
    from ..comparison.groups import group_runs
    from ..comparison.tables import Compared

    groups = [group for groups in group_runs(_read([folder])).values() for group in groups]
    return [Compared(folder, group, len(groups) == 1) for group in groups]


def report(arguments: argparse.Namespace) -> int:
    """Write the page and its pictures."""
    from ..comparison.groups import group_runs
    from ..comparison.page import check_output, write
    from ..comparison.study import study
    from ..comparison.tables import run_json

    check_output(arguments.output)
    found = _read(arguments.runs)
    groups = group_runs(found)
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


def _read(folders: Sequence[Path]) -> list[tuple[RunDigest, Curve]]:
    """Read the runs in these folders; warns of damaged ones."""
    from ..comparison.run_digest import read_run
    from ..comparison.run_folders import run_folders

    found = [read_run(folder) for folder in run_folders(folders)]
    for run, _ in found:
        _tell_problem(run)
    return found


def _print_table(common: Path | None, table: Table) -> None:
    """Print a table, and above it the folder that contains its paths."""
    if common is not None:
        print(f"Runs in {common}:")
    print_table(table)


def _tell_problem(run: RunDigest) -> None:
    if run.problem:
        say(f"warning: {run.problem}")


def _nothing(folders: Sequence[Path]) -> RunFolderError:
    where = ", ".join(map(str, folders))
    what = f"There is no run to show in {where}. Give run folders, or a folder that holds some: axonrl ls lists them."
    return RunFolderError(folders[0], what)
