"""Measure axonrl and its peers in turn and write the results: ``make bench``.

    python -m axonrl.benchmarks.run --peers . [--only dqn act] [--repeats 3] [--quick] [--draft]

A complete run needs an idle machine and writes ``RESULTS.md`` and ``results.json`` to ``benchmarks/``. Parts, quick
runs and drafts go to ``runs/benchmarks/``, whatever the load.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import report
from .cases import CASES, QUICK, UPDATES, Case
from .machine import load, machine
from .topics import CONTENDERS, ENVIRONMENTS, TOPICS

HERE = Path(__file__).resolve().parent
TIMEOUT_SECONDS = 600
MAX_LOAD = 0.5
"""Highest 1-minute load of the machine at which a complete run may start."""
LAST_LINES, LAST_COLUMNS = 5, 200
VERSIONS = "import json; from axonrl.benchmarks.machine import versions; print(json.dumps(versions()))"


class MeasurementError(Exception):
    """A process failed; the message is the last lines of its output."""


def environment(threads: int) -> dict[str, str]:
    """Environment variables that limit the threads of every library."""
    names = ("OMP", "MKL", "OPENBLAS", "NUMEXPR")
    variables = {f"{name}_NUM_THREADS": str(threads) for name in names}
    variables |= {f"TF_NUM_{name}_THREADS": str(threads) for name in ("INTRAOP", "INTEROP")}
    variables |= {"NPROC": str(threads), "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}
    variables |= {"TF_CPP_MIN_LOG_LEVEL": "3"}
    if threads == 1:
        variables["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    return {**os.environ, **variables}


def last_line(command: Sequence[str], threads: int) -> Any:
    """Run a process in an empty folder and parse its last line as JSON; MeasurementError if it fails or times out."""
    with tempfile.TemporaryDirectory() as folder:
        done = run_process(command, Path(folder), threads)
    if done.returncode:
        raise MeasurementError(last_said(f"status {done.returncode}", done.stderr))
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise MeasurementError(last_said("it printed no result", done.stderr)) from None


def run_process(
    command: Sequence[str], folder: Path, threads: int, seconds: float = TIMEOUT_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Run a process in a folder to its end, whatever its status; MeasurementError if it times out."""
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env=environment(threads),
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise MeasurementError(f"no result after {seconds:g} s") from None


def last_said(what: str, errors: str) -> str:
    """A message with the last lines of the output, their paths cut to file names."""
    said = [line for line in errors.splitlines() if line.strip()][-LAST_LINES:]
    return "\n".join([what, *(re.sub(r"(?<!\w)/(?:[\w.+~-]+/)+", "", line)[:LAST_COLUMNS] for line in said)])


@dataclasses.dataclass(frozen=True)
class Runner:
    """Starts measurements.

    Args:
        peers: the folder of the peers' environments.
        quick: reduce timesteps and seconds.
    """

    peers: Path
    quick: bool

    def measure(self, case: Case, contender: str) -> dict[str, Any]:
        """Quantities, by name."""
        arguments = json.dumps(shorter(case.arguments) if self.quick else dict(case.arguments))
        command = [self._python(contender), "-m", "axonrl.benchmarks.measure", contender, case.topic, arguments]
        found: dict[str, Any] = last_line(command, case.threads)
        return found

    def _python(self, contender: str) -> str:
        for venv, contenders in ENVIRONMENTS.items():
            if contender in contenders:
                return str(python_in(self.peers, venv))
        return sys.executable

    def missing(self) -> dict[str, str]:
        """Peers that are not installed, each with its environment."""
        missing = [venv for venv in ENVIRONMENTS if not stamp_in(self.peers, venv).exists()]
        return {contender: venv for venv in missing for contender in ENVIRONMENTS[venv]}

    def versions(self) -> dict[str, dict[str, str]]:
        """Versions in all environments."""
        there = [venv for venv in ENVIRONMENTS if venv not in self.missing().values()]
        pythons = {"axonrl's": sys.executable, **{venv: str(python_in(self.peers, venv)) for venv in there}}
        return {name: last_line([python, "-c", VERSIONS], 1) for name, python in pythons.items()}

    def install_costs(self) -> dict[str, dict[str, float]]:
        """Seconds to install the peers' environments, and their megabytes."""
        found = {}
        for venv in ENVIRONMENTS:
            if stamp_in(self.peers, venv).exists():
                seconds = Path(self.peers, venv, "seconds").read_text()
                size = sum(path.lstat().st_size for path in (self.peers / venv).rglob("*"))
                found[venv] = {"seconds": float(seconds), "megabytes": size / 1e6}
        return found


def shorter(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a quick run."""
    cut = {name: shorter(value) if isinstance(value, Mapping) else value for name, value in arguments.items()}
    return {**cut, **{name: QUICK[name] for name in arguments if name in QUICK}}


def python_in(peers: Path, venv: str) -> Path:
    """An environment's Python. Not resolved: it is a link, and finds its packages beside it."""
    return Path(peers, venv, "bin", "python").absolute()


def stamp_in(peers: Path, venv: str) -> Path:
    """The file that ``make`` leaves in a complete environment."""
    return Path(peers, venv, "installed-bench")


def loud(line: str) -> None:
    print(f"\n*** {line} ***\n", file=sys.stderr, flush=True)


def run(runner: Runner, topics: Sequence[str], repeats: int) -> report.Results:
    """Measure everything ``repeats`` times; failures are recorded, and the rest continues."""
    results = report.Results(
        machine=machine(),
        versions=runner.versions(),
        executors={},
        repeats=repeats,
        complete=False,
        installed=runner.install_costs(),
    )
    missing = runner.missing()
    for contender, venv in missing.items():
        case = Case("everything", (contender,))
        error = MeasurementError(f"{venv} is not installed; `make bench` says why")
        results.failures.append(_failure(case, contender, 1, error))
        loud(f"{CONTENDERS[contender]} is skipped: {error}")
    wanted = [(case, contender) for case in CASES if case.topic in topics for contender in case.contenders]
    turns = [(case, contender) for case, contender in wanted if contender not in missing]
    try:
        results.executors = runner.measure(Case("executors", (), {"networks": UPDATES}), "axonrl_agent")
    except MeasurementError as error:
        results.failures.append(_failure(Case("executors", ()), "axonrl_agent", 1, error))
    take_turns(runner, turns, results)
    return results


def take_turns(runner: Runner, turns: Sequence[tuple[Case, str]], results: report.Results) -> None:
    """Measure all in turn, as often as ``results`` says."""
    for repeat in range(1, results.repeats + 1):
        for turn, (case, contender) in enumerate(turns, start=1):
            where = f"[{repeat}/{results.repeats}, {turn}/{len(turns)}] {case.row(case.topic)}, {contender}"
            began = time.monotonic()
            try:
                found = runner.measure(case, contender)
            except MeasurementError as error:
                results.failures.append(_failure(case, contender, repeat, error))
                loud(f"{where}: failed: {error}")
                continue
            for quantity, value in found.items():
                results.add(case.topic, case.row(quantity), contender, value)
            numbers = ", ".join(f"{name} {report.number(value)}" for name, value in found.items())
            print(f"{where}: {numbers} ({time.monotonic() - began:.0f} s)", flush=True)


def _failure(case: Case, contender: str, repeat: int, error: Exception) -> dict[str, str]:
    return {
        "contender": contender,
        "case": case.row(case.topic),
        "repeat": str(repeat),
        "error": str(error),
    }


def write(results: report.Results, folder: Path) -> None:
    """``results.json`` and ``RESULTS.md``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(dataclasses.asdict(results), indent=1) + "\n", encoding="utf-8")
    (folder / "RESULTS.md").write_text(report.markdown(results), encoding="utf-8")
    print(f"\n{report.goals(results)}\n\nWrote {os.path.relpath(folder)}/RESULTS.md")


def main(current_load: Callable[[], float] = load) -> int:
    """0, or 1 if a measurement failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=".", help="the folder of the peers' environments, .venv-bench and so on")
    parser.add_argument("--only", nargs="+", default=list(TOPICS), choices=list(TOPICS), help="topics to measure")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of everything")
    parser.add_argument("--quick", action="store_true", help="once and briefly, to see that everything works")
    parser.add_argument("--draft", action="store_true", help="write to runs/benchmarks/, whatever the load")
    arguments = parser.parse_args()
    if arguments.repeats < 1:
        parser.error(f"--repeats must be at least 1, got {arguments.repeats}")
    peers = Path(arguments.peers)
    if not any(stamp_in(peers, venv).exists() for venv in ENVIRONMENTS):
        parser.error(f"there are no environments of peers in {arguments.peers}: make bench installs them")
    is_part = arguments.quick or arguments.draft or set(arguments.only) != set(TOPICS)
    if not is_part and (found := current_load()) > MAX_LOAD:
        parser.error(
            f"the machine is busy: its 1-minute load is {found:.2f}, and RESULTS.md needs at most {MAX_LOAD:g}."
            " Wait, or use --draft to write to runs/benchmarks/ instead"
        )
    began = time.monotonic()
    runner = Runner(peers, arguments.quick)
    results = run(runner, arguments.only, 1 if arguments.quick else arguments.repeats)
    results.complete = not is_part
    write(results, HERE.parent / "runs" / "benchmarks" if is_part else HERE)
    print(f"{time.monotonic() - began:.0f} s")
    return int(bool(results.failures))


if __name__ == "__main__":
    sys.exit(main())
