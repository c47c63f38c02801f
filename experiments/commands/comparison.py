"""``axonrl ls``, ``compare`` and ``report``: what they do."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..console import DONE, print_json, print_table, say
from ..errors import RunFolderError
from .arguments import RUNS


def ls(arguments: argparse.Namespace) -> int:
    """List runs."""
    from ..comparing.finding import run_folders
    from ..comparing.reading import read_run
    from ..comparing.tables import run_json, runs_table

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


def compare(arguments: argparse.Namespace) -> int:
    """Show a column for each group."""
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


def report(arguments: argparse.Namespace) -> int:
    """Write the page and its pictures."""
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
        say(f"warning: {run.problem}")


def _nothing(folders: Sequence[Path]) -> RunFolderError:
    where = ", ".join(map(str, folders))
    what = f"There is no run to show in {where}. Give run folders, or a folder that holds some: axonrl ls lists them."
    return RunFolderError(folders[0], what)
