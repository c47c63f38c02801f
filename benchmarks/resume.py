"""Kill the same small run in axonrl and its peers, resume it, and compare with an undisturbed run.

    python -m axonrl.benchmarks.resume --peers . [--only axonrl sb3] [--points 20] [--jobs 2]

``make bench-resume`` installs the peers and does so. A complete run writes its table into ``docs/resume.md``; a part of
it only prints it. Nothing is timed, so the machine may be busy.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np

from .report import fill_page, table
from .resuming.child import EVERY, TIMESTEPS
from .run import MeasurementError, last_said, loud, python_in, run_process
from .settings import Array

HERE: Final = Path(__file__).resolve().parent
PAGE: Final = HERE.parent / "docs" / "resume.md"
LIBRARIES: Final = {"axonrl": "axonrl", "sb3": "Stable-Baselines3", "torchrl": "TorchRL"}
"""Modules of ``resuming/``, and their names."""
VENVS: Final = {"sb3": ".venv-bench", "torchrl": ".venv-bench-torchrl"}
PACKAGES: Final = {"axonrl": "axonrl", "sb3": "stable-baselines3", "torchrl": "torchrl"}
POINTS: Final = 20
WRITING: Final = 4
"""Kills in a timestep for each one while a checkpoint is written."""
TIMEOUT_SECONDS: Final = 300
PARTS: Final = {
    "weights": "weights, target network and optimizer",
    "memory": "memory",
    "counters": "counters and epsilon",
    "generators": "random generators",
    "environment": "environment",
    "curve": "return of every episode",
}

State = Mapping[str, Array]


def differing(a: State, b: State) -> set[str]:
    """The parts in which two states differ, in a single bit, in a shape or in a name.

    Args:
        a: arrays by name; a name is that of the part, a slash and what it is.
        b: likewise.
    """
    names = set(a) | set(b)
    return {name.partition("/")[0] for name in names if name not in a or name not in b or not _same(a[name], b[name])}


def _same(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def farthest(a: State, b: State) -> float:
    """The largest difference of two weights of the same name."""
    names = [name for name in a if name.startswith("weights/") and name in b and a[name].shape == b[name].shape]
    numbers = [name for name in names if a[name].dtype.kind == "f" and a[name].size]
    return max((float(np.abs(a[name] - b[name]).max()) for name in numbers), default=0.0)


@dataclasses.dataclass(frozen=True)
class Killed:
    """A run that was killed and resumed.

    Args:
        kind: ``"timestep"`` or ``"write"``.
        number: the number of the timestep, or of the change of a checkpoint's files.
        first: the timestep from which it went on.
        unreadable: newer checkpoints that could not be read.
        loaded: parts that were other than those that had been saved; None if it began anew.
        ended: parts that were other than the undisturbed run's, at the end.
        distance: the distance of the weights at the end.
    """

    kind: str
    number: int
    first: int
    unreadable: int
    loaded: set[str] | None
    ended: set[str]
    distance: float


@dataclasses.dataclass(frozen=True)
class Found:
    """Findings about a library: its version, whether it repeats itself, and its killed runs."""

    version: str
    repeated: set[str]
    killed: list[Killed]


def points(number: int, writes: int) -> list[tuple[str, int]]:
    """When to kill: timesteps between the first checkpoint and the end, and changes of checkpoints' files.

    Args:
        number: how many timesteps.
        writes: changes of checkpoints' files in an undisturbed run.
    """
    timesteps = np.linspace(EVERY + EVERY / 50, TIMESTEPS - EVERY / 50, number).astype(int).tolist()
    changes = np.linspace(0.3 * writes, 0.95 * writes, number // WRITING).astype(int).tolist()
    return [*(("timestep", one) for one in timesteps), *(("write", one) for one in changes)]


@dataclasses.dataclass(frozen=True)
class Trial:
    """Runs of one library."""

    library: str
    python: str
    folder: Path

    def child(self, folder: Path, *fatal: object) -> dict[str, Any]:
        """One process; what it printed last, or nothing if it was to be killed.

        Raises:
            MeasurementError: it failed, or was to be killed and was not.
        """
        folder.mkdir(exist_ok=True)
        module = "axonrl.benchmarks.resuming.child"
        command = [self.python, "-m", module, self.library, str(folder), *map(str, fatal)]
        done = run_process(command, folder, 1, TIMEOUT_SECONDS)
        if done.returncode not in ((-signal.SIGKILL, -signal.SIGXFSZ) if fatal else (0,)):
            raise MeasurementError(last_said(f"{self.library} {fatal}: status {done.returncode}", done.stderr))
        found: dict[str, Any] = {} if fatal else json.loads(done.stdout.splitlines()[-1])
        return found

    def kill_and_resume(self, kind: str, number: int, undisturbed: Path) -> Killed:
        """Kill a run, resume it, and compare."""
        folder = self.folder / f"{kind}-{number}"
        self.child(folder, kind, number)
        found = self.child(folder)
        loaded = None
        if found["from"]:
            loaded = differing(read(undisturbed / f"saved-{found['from']}.npz"), read(folder / "loaded.npz"))
        expected, end = read(undisturbed / "end.npz"), read(folder / "end.npz")
        print(f"{self.library}: killed at {kind} {number}, resumed from {found['from']}", flush=True)
        return Killed(
            kind,
            number,
            found["from"],
            found.get("unreadable", 0),
            loaded,
            differing(expected, end),
            farthest(expected, end),
        )


def read(path: Path) -> State:
    """Arrays of a file."""
    with np.load(path) as file:
        return {name: file[name] for name in file}


def measure(library: str, python: str, number: int, pool: ThreadPoolExecutor) -> Found:
    """All runs of a library."""
    version = f"from importlib.metadata import version; print(version({PACKAGES[library]!r}))"
    said = subprocess.run([python, "-c", version], capture_output=True, text=True, check=False)
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(library, python, Path(folder))
        undisturbed, again = Path(folder, "undisturbed"), Path(folder, "again")
        first, _ = pool.map(trial.child, (undisturbed, again))
        repeated = differing(read(undisturbed / "end.npz"), read(again / "end.npz"))
        when = points(number, first["writes"])
        killed = list(pool.map(lambda one: trial.kill_and_resume(one[0], one[1], undisturbed), when))
    return Found(said.stdout.strip(), repeated, killed)


def markdown(found: Mapping[str, Found]) -> str:
    """The table of ``docs/resume.md``."""

    def row(name: str, cell: Any) -> list[str]:
        return [name, *(cell(one) for one in found.values())]

    def number(one: Found, kind: str) -> int:
        return sum(killed.kind == kind for killed in one.killed)

    def equal(part: str, when: str) -> Any:
        def cell(one: Found) -> str:
            differing = [getattr(killed, when) for killed in one.killed if getattr(killed, when) is not None]
            return f"{sum(part not in parts for parts in differing)} of {len(differing)}"

        return cell

    rows = [
        row("version", lambda one: one.version),
        row("an undisturbed run, repeated, gives the same bits", lambda one: "no" if one.repeated else "yes"),
        row("killed by SIGKILL in a timestep, and resumed", lambda one: str(number(one, "timestep"))),
        row("killed while writing a checkpoint, and resumed", lambda one: str(number(one, "write"))),
        row("newest checkpoint unreadable after the kill", lambda one: str(sum(k.unreadable > 0 for k in one.killed))),
    ]
    after = [part for part in PARTS if part != "curve"]
    rows += [row(f"equal after loading: {PARTS[part]}", equal(part, "loaded")) for part in after]
    rows += [row(f"equal at the end: {PARTS[part]}", equal(part, "ended")) for part in PARTS]
    rows += [row("largest difference of a weight at the end", lambda one: f"{max(k.distance for k in one.killed):.2g}")]
    return table(["", *(LIBRARIES[library] for library in found)], rows)


def main() -> int:
    """0, or 1 if a library is missing or failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=".", help="the folder of the peers' environments, .venv-bench and so on")
    parser.add_argument("--only", nargs="+", default=list(LIBRARIES), choices=list(LIBRARIES), help="libraries")
    parser.add_argument("--points", type=int, default=POINTS, help="how often each is killed in a timestep")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    arguments = parser.parse_args()
    found, missing = {}, []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for library in arguments.only:
            venv = VENVS.get(library)
            python = python_in(Path(arguments.peers), venv) if venv else Path(sys.executable)
            if not python.exists():
                missing.append(f"{venv} is not installed: make bench-resume installs it")
            else:
                try:
                    found[library] = measure(library, str(python), arguments.points, pool)
                    continue
                except MeasurementError as error:
                    missing.append(str(error))
            loud(f"{LIBRARIES[library]} is skipped: {missing[-1]}")
    text = markdown(found)
    print(f"\n{text}")
    if set(found) == set(LIBRARIES) and arguments.points == POINTS:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(fill_page(page, "benchmarks/resume.py", text), encoding="utf-8")
        print(f"\nWrote docs/{PAGE.name}")
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
