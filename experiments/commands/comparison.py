"""``axonrl ls``, ``compare`` and ``report``: what they do."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..console import DONE, print_json, print_table, say
from ..errors import RunFolderError
from .arguments import RUNS

if TYPE_CHECKING:
    from ..comparison.tables import Column
    from ..console import Table


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


def _columns(folder: Path) -> list[Column]:
    """A folder's groups; what is wrong with its other runs is told."""
    from ..comparison.groups import grouped
    from ..comparison.run_digest import read_run
    from ..comparison.run_folders import run_folders
    from ..comparison.tables import Column

    found = [read_run(path) for path in run_folders([folder])]
    for run, _ in found:
        _tell_problem(run)
    groups = [group for groups in grouped(found).values() for group in groups]
    return [Column(folder, group, len(groups) == 1) for group in groups]


def report(arguments: argparse.Namespace) -> int:
    """Write the page and its pictures."""
    from ..comparison.groups import grouped
    from ..comparison.output import check_output
    from ..comparison.page import write
    from ..comparison.run_digest import read_run
    from ..comparison.run_folders import run_folders
    from ..comparison.study import study
    from ..comparison.tables import run_json

    check_output(arguments.output)
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


def _print_table(common: Path | None, table: Table) -> None:
    """The table; above it the folder that its paths are within."""
    if common is not None:
        print(f"Runs in {common}:")
    print_table(table)


def _tell_problem(run: Any) -> None:
    if run.problem:
        say(f"warning: {run.problem}")


def _nothing(folders: Sequence[Path]) -> RunFolderError:
    where = ", ".join(map(str, folders))
    what = f"There is no run to show in {where}. Give run folders, or a folder that holds some: axonrl ls lists them."
    return RunFolderError(folders[0], what)
