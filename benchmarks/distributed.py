"""Measure axonrl's training by several processes against RLlib's: ``make bench-distributed``.

    python -m axonrl.benchmarks.distributed --peers . [--rounds 3] [--warm-up 15] [--seconds 60] [--only DQN] [--draft]

Contenders take turns, each in a process of its own with all that it starts. A complete run needs an idle machine, and
writes ``benchmarks/distributed.json`` and the tables of ``docs/distributed.md``; parts and drafts go to
``runs/benchmarks/``, whatever the load.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from .distributed_report import CONTENDERS, Contender, Results, markdown
from .machine import load, machine
from .processes import MARK, Process, end, pss, tree
from .report import fill_page, number
from .run import MAX_LOAD, VERSIONS, MeasurementError, environment, last_line, last_said, loud, python_in

HERE: Final = Path(__file__).resolve().parent
PAGE: Final = HERE.parent / "docs" / "distributed.md"
VENV: Final = ".venv-bench-rllib"
WARM_UP, SECONDS, ROUNDS = 15.0, 60.0, 3
START_SECONDS: Final = 180
"""More than that for starting and ending is too long."""
LOOKS: Final = (0.6, 0.75, 0.9)
"""When memory is looked at, as shares of the window."""
BARE_TIMESTEPS: Final = 500_000


@dataclasses.dataclass(frozen=True)
class Runner:
    """Starts measurements.

    Args:
        peers: the folder of the peers' environments.
        warm_up: seconds before the window.
        seconds: the seconds of the window.
        cache: the folder of axonrl's cache of programs.
    """

    peers: Path
    warm_up: float
    seconds: float
    cache: Path

    def python(self, contender: Contender) -> str:
        """The Python of its environment."""
        return sys.executable if contender.is_ours else str(python_in(self.peers, VENV))

    def measure(self, contender: Contender) -> dict[str, float]:
        """Quantities, by name.

        Raises:
            MeasurementError: it failed, or took too long.
        """
        arguments = {**contender.arguments, "warm_up": self.warm_up, "seconds": self.seconds}
        module = f"axonrl.benchmarks.distributing.{contender.module}"
        command = [self.python(contender), "-m", module, json.dumps(arguments)]
        with tempfile.TemporaryDirectory() as folder, Path(folder, "errors").open("w+") as errors:
            mark = Path(folder).name
            # Ray writes a token and RLlib its results into the home folder.
            env = {**environment(1), "HOME": folder, "RAY_USAGE_STATS_ENABLED": "0", MARK: mark}
            env["AXONRL_CACHE"] = str(self.cache)
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, cwd=folder, env=env, text=True)
            seen: set[Process] = set()
            try:
                found = self._follow(process, mark, seen)
            except MeasurementError as error:
                seen |= tree(process.pid, mark)  # nobody has waited for it, so its number is its own
                errors.seek(0)
                raise MeasurementError(last_said(str(error), errors.read())) from None
            finally:
                left = end(seen, mark)
                process.communicate()
        found["left behind"] = left
        return found

    def _follow(self, process: subprocess.Popen[str], mark: str, seen: set[Process]) -> dict[str, float]:
        assert process.stdout is not None
        until = time.monotonic() + START_SECONDS + self.warm_up + self.seconds
        window = json.loads(_line(process.stdout, until))["window"]
        began, memory = time.monotonic(), []
        for share in LOOKS:
            time.sleep(max(0.0, began + share * window - time.monotonic()))
            now = tree(process.pid, mark)
            seen |= now
            memory.append((pss(now), len(now)))
        found: dict[str, float] = json.loads(_line(process.stdout, until))
        try:
            found["exit code"] = process.wait(max(1.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise MeasurementError("it did not end") from None
        found["memory"], found["processes"] = sorted(memory)[len(memory) // 2]
        return found


def _line(output: IO[str], until: float) -> str:
    """The next line; MeasurementError at the end of the output, or where none comes in time."""
    ready, _, _ = select.select([output], [], [], max(0.0, until - time.monotonic()))
    if not ready:
        raise MeasurementError("it said nothing in time")
    line = output.readline()
    if not line:
        raise MeasurementError("it ended without a result")
    return line


def run(runner: Runner, contenders: Mapping[str, Contender], rounds: int) -> Results:
    """Measure all in turn, ``rounds`` times; failures are recorded, and the rest continues."""
    versions = {"axonrl's": sys.executable, VENV: str(python_in(runner.peers, VENV))}
    results = Results(
        machine=machine(),
        versions={name: last_line([python, "-c", VERSIONS], 1) for name, python in versions.items()},
        rounds=rounds,
        warm_up=runner.warm_up,
        seconds=runner.seconds,
    )
    bare = [sys.executable, "-m", "axonrl.benchmarks.measure", "gymnasium", "environment"]
    for contender in contenders.values():
        if contender.is_ours:  # so that all measured runs find their programs in the cache
            with contextlib.suppress(MeasurementError):  # it is said in its turn
                dataclasses.replace(runner, warm_up=0.0, seconds=1.0).measure(contender)
    for turned in range(1, rounds + 1):
        results.bare.append(last_line([*bare, json.dumps({"timesteps": BARE_TIMESTEPS})], 1)["timesteps per second"])
        for turn, (name, contender) in enumerate(contenders.items(), start=1):
            where, began = f"[{turned}/{rounds}, {turn}/{len(contenders)}] {contender.title}", time.monotonic()
            try:
                found = runner.measure(contender)
            except MeasurementError as error:
                results.failures.append({"contender": name, "round": str(turned), "error": str(error)})
                loud(f"{where}: failed: {error}")
                continue
            results.values.setdefault(name, []).append(found)
            numbers = ", ".join(f"{quantity} {number(value)}" for quantity, value in found.items())
            print(f"{where}: {numbers} ({time.monotonic() - began:.0f} s)", flush=True)
    return results


def write(results: Results, *, complete: bool) -> None:
    """The numbers, and the tables where they are read."""
    text = markdown(results)
    folder = HERE if complete else HERE.parent / "runs" / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "distributed.json").write_text(json.dumps(dataclasses.asdict(results), indent=1) + "\n", encoding="utf-8")
    if complete:
        page = fill_page(PAGE.read_text(encoding="utf-8"), "benchmarks/distributed.py", text)
        PAGE.write_text(page, encoding="utf-8")
    else:
        (folder / "DISTRIBUTED.md").write_text(f"# Distributed training\n\n{text}\n", encoding="utf-8")
    where = "docs/distributed.md" if complete else f"{os.path.relpath(folder)}/DISTRIBUTED.md"
    print(f"\n{text}\n\nWrote {where}")


def main(arguments: Sequence[str] | None = None, current_load: Callable[[], float] = load) -> int:
    """0, or 1 if a measurement failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=".", help="the folder of the peers' environments")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="measurements of everything")
    parser.add_argument("--warm-up", type=float, default=WARM_UP, help="seconds before the measured ones")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="seconds that are measured")
    parser.add_argument("--only", nargs="+", metavar="TEXT", help="contenders whose names have one of these texts")
    parser.add_argument("--draft", action="store_true", help="write to runs/benchmarks/, whatever the load")
    given: Any = parser.parse_args(arguments)
    if given.rounds < 1 or given.warm_up < 0 or given.seconds <= 0:
        parser.error("--rounds must be at least 1, --warm-up at least 0, and --seconds above 0")
    peers = Path(given.peers)
    if not python_in(peers, VENV).exists():
        parser.error(f"{VENV} is not in {given.peers}: make bench-distributed installs it")
    chosen = {name: one for name, one in CONTENDERS.items() if any(text in name for text in given.only or [""])}
    if not chosen:
        parser.error(f"--only {' '.join(given.only)}: there are {', '.join(CONTENDERS)}")
    complete = not given.draft and len(chosen) == len(CONTENDERS)
    if complete and (found := current_load()) > MAX_LOAD:
        parser.error(
            f"the machine is busy: its 1-minute load is {found:.2f}, and results need at most {MAX_LOAD:g}."
            " Wait, or use --draft to write to runs/benchmarks/ instead"
        )
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as cache:
        results = run(Runner(peers, given.warm_up, given.seconds, Path(cache)), chosen, given.rounds)
    write(results, complete=complete)
    print(f"{time.monotonic() - began:.0f} s")
    return int(bool(results.failures))


if __name__ == "__main__":
    sys.exit(main())
