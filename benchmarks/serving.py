"""Costs of a service of agents: the goals, each as a ratio in one run.

    python -m axonrl.benchmarks.serving [--quick] [--only act step] [--repeats 3]

These are the topics ``serving`` and ``serving_costs`` of ``make bench``, without its peers. Sizes that take minutes are
options. The tables are printed.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from . import report
from .cases import CASES, GOALS, Case
from .machine import load, machine
from .run import Runner, take_turns
from .service.rows import PROGRAMS

TOPICS: Final = ("serving", "serving_costs")
ROWS: Final = {case.arguments["row"]: case for case in CASES if case.topic in TOPICS}
CONTENDER: Final = "axonrl_serving"


def with_sizes(case: Case, sizes: Mapping[str, Any]) -> Case:
    """A case with other sizes, where some are given."""
    given = {name: value for name, value in sizes.items() if value is not None}
    return dataclasses.replace(case, arguments={**case.arguments, "sizes": {**case.arguments["sizes"], **given}})


def tables(results: report.Results) -> str:
    """Goals, and all measurements."""
    wanted = [goal for goal in GOALS if goal.topic in TOPICS and results.get(goal.topic, goal.row, CONTENDER)]
    parts = [report.goals(results, wanted)]
    for topic in TOPICS:
        rows = results.values.get(topic, {})
        if rows:
            cells = [[row, report.spread(found[CONTENDER])] for row, found in rows.items()]
            parts.append(report.table([topic.replace("_", ": "), "median"], cells))
    conditions = ", ".join(f"{key} {value}" for key, value in results.machine.items())
    return "\n\n".join([*parts, f"Rounds: {results.repeats}; {conditions}."])


def main() -> int:
    """0, or 1 if a measurement failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(ROWS), choices=list(ROWS), help="rows to measure")
    parser.add_argument("--repeats", type=int, default=1, help="measurements of everything")
    parser.add_argument("--quick", action="store_true", help="briefly, with few agents, to see that everything works")
    parser.add_argument("--agents", type=int, help="agents that are loaded; default: 500")
    parser.add_argument("--asleep", type=int, help="agents that are asleep; default: 10,000")
    parser.add_argument("--recovered", type=int, help="agents that are recovered; default: 20")
    parser.add_argument("--records", type=int, help="records of each in its journal; default: 10,000")
    given = parser.parse_args()
    print(f"The load of the last minute is {load():.2f}.", file=sys.stderr)
    sizes = {
        "agents": {"number": given.agents},
        "asleep": {"number": given.asleep},
        "recovery": {"number": given.recovered, "records": given.records},
    }
    with tempfile.TemporaryDirectory() as programs:
        os.environ[PROGRAMS] = programs
        turns = [(with_sizes(ROWS[row], sizes.get(row, {})), CONTENDER) for row in given.only]
        results = report.Results(machine(), {}, {}, given.repeats, complete=False)
        take_turns(Runner(Path(), given.quick), turns, results)
    text = tables(results)
    if given.quick or any(value is not None for values in sizes.values() for value in values.values()):
        text = f"**Not in the sizes that the rows name, or too briefly: not to be quoted.**\n\n{text}"
    print(text)
    return int(bool(results.failures))


if __name__ == "__main__":
    sys.exit(main())
