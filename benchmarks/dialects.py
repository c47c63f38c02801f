"""Tables of how agents of other libraries' interfaces learn, and of what their timesteps cost."""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from .report import fill_page, table

LAST: Final = 20
"""Episodes whose mean return counts."""


class Programs(NamedTuple):
    """Programs that are run.

    Args:
        learn: by name: from a seed and a number of timesteps, None for the program's own, to returns of episodes.
        timesteps: by name: the program's own.
        measured: by name: from a number of timesteps to the seconds of one; the first is what others are compared with.
        wanted: the mean return that every seed should reach.
    """

    learn: Mapping[str, Callable[[int, int | None], list[float]]]
    timesteps: Mapping[str, int]
    measured: Mapping[str, Callable[[int], float]]
    wanted: float


def learning(programs: Programs, names: Sequence[str], wanted: Sequence[int], timesteps: int | None) -> str:
    """A table of the mean returns of each program's last episodes."""
    rows = []
    for name in names:
        means = []
        for seed in wanted:
            began = time.perf_counter()
            returns = programs.learn[name](seed, timesteps)
            mean = statistics.fmean(returns[-LAST:])
            tenths = [returns[k * len(returns) // 10 : (k + 1) * len(returns) // 10] for k in range(10)]
            curve = [round(statistics.fmean(part)) if part else 0 for part in tenths]
            print(f"{name} {seed}: {mean:.1f} in {time.perf_counter() - began:.0f} s, {curve}", flush=True)
            means.append(mean)
        shown = ", ".join(f"{mean:.1f}" for mean in means)
        above = "yes" if min(means) > programs.wanted else "**no**"
        rows.append([name, shown, f"{timesteps or programs.timesteps[name]:,}", above])
    header = [
        "program",
        f"mean return of the last {LAST} episodes, seeds {', '.join(map(str, wanted))}",
        "timesteps",
        f"all above {programs.wanted:g}",
    ]
    return table(header, rows)


def speed(measured: Mapping[str, Callable[[int], float]], timesteps: int, rounds: int) -> str:
    """A table of microseconds of a timestep, measured in turn."""
    found: dict[str, list[float]] = {name: [] for name in measured}
    for _ in range(rounds):
        for name, measure in measured.items():
            found[name].append(measure(timesteps) * 1e6)
            print(f"{name}: {found[name][-1]:.1f} us", flush=True)
    core = statistics.median(next(iter(found.values())))
    rows = [
        [name, f"{statistics.median(x):.1f} ({min(x):.1f} to {max(x):.1f})", f"{statistics.median(x) / core:.2f}x"]
        for name, x in found.items()
    ]
    return table(["CartPole-v1", f"us of a timestep, median of {rounds}", "against `Agent.train`"], rows)


def main(module: str, about: str, programs: Programs, arguments: Sequence[str] | None) -> None:
    """The command line of such a benchmark."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["learning", "speed"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 101, 102], help="of learning")
    names = list(programs.learn)
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="programs of learning")
    parser.add_argument("--timesteps", type=int, help="in place of each program's own, or of 20,000 for speed")
    parser.add_argument("--rounds", type=int, default=5, help="of speed")
    parser.add_argument("--page", type=Path, help="the Markdown page whose table is replaced")
    given: Any = parser.parse_args(arguments)
    if given.what == "speed":
        print(f"1-minute load: {os.getloadavg()[0]:.2f}")
        text = speed(programs.measured, given.timesteps or 20_000, given.rounds)
    else:
        text = learning(programs, given.only, given.seeds, given.timesteps)
    print(text)
    if given.page is not None:
        page = given.page.read_text("utf-8")
        given.page.write_text(fill_page(page, f"benchmarks/{module}.py, {given.what}", text), "utf-8")
