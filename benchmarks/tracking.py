"""What tracking costs a run: ``python benchmarks/tracking.py [--repeats 5] [--quick]``.

Trains ``dqn_cartpole`` untracked, tracked in the run folder alone, and tracked on a server that hangs, refuses
connections or answers 500; in turn, several times over, each run in a process of its own. Prints the least and the
median of the seconds of training, their ratios to those of the untracked run, and how much longer the exit took than
the untracked one's, at most. The goals of the project are a ratio of at most 1.05, and 10 s. Other work on a machine
only ever adds to the seconds, so the least of many is what a run costs; the medians say how noisy the machine is.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from axonrl.tests.misbehaving_server import HANGS, REFUSES, MisbehavingServer

UNTRACKED = "untracked"
SERVERS: dict[str, str | int] = {"hanging server": HANGS, "refusing server": REFUSES, "server answers 500": 500}
KINDS = (UNTRACKED, "tracked in the run folder", *SERVERS)
QUICK_KINDS = (UNTRACKED, "hanging server")
TIMESTEPS, QUICK_TIMESTEPS = 50_000, 2_000


@contextlib.contextmanager
def environment(kind: str, home: str) -> Iterator[dict[str, str]]:
    """The environment variables of a run, and the server that it is tracked on, while the context is open."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("POLYAXON_")}
    own |= {"HOME": home, "TF_CPP_MIN_LOG_LEVEL": "3"}
    if kind == UNTRACKED:
        yield own | {"POLYAXON_NO_OP": "true"}
    elif kind in SERVERS:
        with MisbehavingServer(SERVERS[kind]) as server:
            yield own | {"POLYAXON_HOST": server.host}
    else:
        yield own


def measure(kind: str, timesteps: int) -> tuple[float, float]:
    """Seconds of training, as the run reports them, and those from the end of training to that of the process."""
    with tempfile.TemporaryDirectory() as folder, environment(kind, folder) as variables:
        command = [sys.executable, __file__, "--run", str(timesteps)]
        done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
        ended = time.time()
    if done.returncode:
        raise RuntimeError(f"{kind}: the run failed:\n{done.stderr}")
    seconds, trained = json.loads(done.stdout.splitlines()[-1])
    return seconds, ended - trained


def run(timesteps: int) -> None:
    """One run in this process; prints the seconds of its training, and when that ended."""
    from axonrl.experiments.config.schema import load
    from axonrl.experiments.config.shipped import experiment_file
    from axonrl.experiments.running import runner
    from axonrl.hooks import Hook

    class Clock(Hook):
        """When training began and ended."""

        def begin(self, session: object, facts: object) -> None:
            self.began = time.time()

        def end(self, session: object, facts: object) -> None:
            self.ended = time.time()

    sets = {"train.max_timesteps": str(timesteps), "evaluate": "null", "hooks": "[]"}
    experiment, document = load(experiment_file("dqn_cartpole"), sets=sets)
    clock = Clock()
    runner.run(experiment, document, Path("run"), hooks=[clock])
    print(json.dumps([clock.ended - clock.began, clock.ended]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="how often everything is measured")
    parser.add_argument(
        "--quick", action="store_true", help="two of them, once and briefly, to see that everything works"
    )
    parser.add_argument("--run", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        return run(arguments.run)
    kinds = QUICK_KINDS if arguments.quick else KINDS
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    for repeat in range(1 if arguments.quick else arguments.repeats):
        # Who is first differs from turn to turn: a machine grows slower as it grows warm.
        for kind in (*kinds[repeat % len(kinds) :], *kinds[: repeat % len(kinds)]):
            found[kind].append(measure(kind, QUICK_TIMESTEPS if arguments.quick else TIMESTEPS))
            print(f"{kind}: {found[kind][-1][0]:.3f} s, {found[kind][-1][1]:.1f} s to the exit", file=sys.stderr)
    print("| dqn_cartpole | least, s | to untracked | median, s | to untracked | exit delayed by, s |")
    print("|---|---|---|---|---|---|")
    ways = (min, statistics.median)
    base = [way(seconds for seconds, _ in found[UNTRACKED]) for way in ways]
    for kind, runs in found.items():
        own = [way(seconds for seconds, _ in runs) for way in ways]
        cells = [f"{mine:.2f} | {mine / theirs:.3f}" for mine, theirs in zip(own, base, strict=True)]
        delay = max(late for _, late in runs) - min(late for _, late in found[UNTRACKED])
        print(f"| {kind} | {' | '.join(cells)} | {delay:.1f} |")
    return None


if __name__ == "__main__":
    main()
