"""What many seeds cost: ``python -m axonrl.benchmarks.seeds [--repeats 3] [--seeds 8] [--timesteps 10000]``.

Trains ``dqn_cartpole``, evaluations included, in processes of their own: one seed alone, with the program compiled
before, without its picture and the files of trackers; the same as ``axonrl run --seeds 1``, and all seeds, as many at a
time as there are processors, with both. Prints the medians of the seconds from the start of the first process to the
end of the last one, the seconds of processors, and ratios to the first row. The goal of the project is a ratio of at
most 4.6 for 8 seeds on two processors. What is compiled once is a row of its own.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from axonrl.experiments.config.schema import ExperimentFile, load
from axonrl.experiments.config.shipped import experiment_file
from axonrl.experiments.searches import runs
from axonrl.experiments.searches.seeds import Seeds, prepare
from axonrl.experiments.searches.worker import Request, Task

from .processes import AXONRL

NAME = "dqn_cartpole"
GOAL = "4.6 for 8 seeds on 2 processors"


def axonrl(place: Path, *arguments: str) -> None:
    """Run a command of axonrl in a folder."""
    done = subprocess.run([*AXONRL, *arguments], cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"axonrl {' '.join(arguments)} failed:\n{done.stderr}")


def ready(compiled: Path, place: Path, experiment: ExperimentFile, seeds: list[int]) -> Path:
    """A folder in which nothing has begun, and all is compiled."""
    folder = place / "runs" / NAME
    prepare(folder, experiment.model_copy(update={"seeds": seeds}), resume=False)
    shutil.copytree(compiled, folder / runs.COMPILED)
    return folder


def alone(group: Path) -> None:
    """One seed, in a process without anything around it."""
    file = str(group / Seeds.file)
    task = Task(str(group), Seeds.file, Seeds.noun, NAME, "0" * 32, "return", [0], [file], ["axonrl"])
    module = "axonrl.experiments.searches.worker"
    command = [sys.executable, "-m", module, json.dumps(dataclasses.asdict(task))]
    lines = [dataclasses.asdict(Request(0, {}, 0, [runs.COMPILED])), {"end": True}]
    given = "".join(json.dumps(line) + "\n" for line in lines).encode()
    done = subprocess.run(command, input=given, capture_output=True, check=False)
    last = done.stdout.splitlines()[-1]
    if json.loads(last)["outcome"]["status"] != runs.FINISHED:
        raise RuntimeError(f"the seed alone: {last!r}")


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds, and those of processors in children that have ended."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - begin, used


def main() -> None:
    """Measure in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="how often everything is measured")
    parser.add_argument("--seeds", type=int, default=8, help="how many")
    parser.add_argument("--timesteps", type=int, default=10_000, help="of each")
    arguments = parser.parse_args()
    limit, seeds = f"train.max_timesteps={arguments.timesteps}", list(range(arguments.seeds))
    ways = {"one seed alone": [0], "--seeds 1": [0], f"--seeds {len(seeds)}": seeds}
    experiment = load(experiment_file(NAME), sets=dict([limit.split("=")]))[0]
    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary, "source")
        source.mkdir()
        compiling = timed(lambda: axonrl(source, "compile", NAME, "-o", "compiled", "--seeds", str(len(seeds))))
        for repeat in range(arguments.repeats):
            for name, wanted in ways.items():
                place = Path(temporary, f"{repeat}-{name.replace(' ', '-')}")
                group = ready(source / "compiled", place, experiment, wanted)
                if name == "one seed alone":
                    seconds = timed(functools.partial(alone, group))
                else:
                    seconds = timed(functools.partial(axonrl, place, "run", NAME, "--resume", "--set", limit))
                found.setdefault(name, []).append(seconds)
                print(f"{name}: {seconds[0]:.2f} s", file=sys.stderr)
                shutil.rmtree(place)
    base = statistics.median(seconds for seconds, _ in found["one seed alone"])
    print(f"| {NAME}, {arguments.timesteps:,} timesteps | seconds | of processors | ratio |")
    print("|---|---|---|---|")
    for name, times in found.items():
        seconds, used = (statistics.median(values) for values in zip(*times, strict=True))
        print(f"| {name} | {seconds:.2f} | {used:.2f} | {seconds / base:.2f} |")
    print(f"| compiling, once | {compiling[0]:.2f} | {compiling[1]:.2f} | |")
    print(f"\nGoal: {GOAL}.")


if __name__ == "__main__":
    main()
