"""Costs of a compiled program: from process start to the first update, memory, and further learners and seeds.

``python -m axonrl.benchmarks.compiled [--repeats N] [--quick]`` prints a table. Goals: the first update within 0.6 s of
the start of the process, 90 MB resident; ten learners in one process at most 5 MB each beyond their memories.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

CASES: Final[dict[str, dict[str, Any]]] = {
    "DQN CartPole 2x64": {
        "model": "dqn",
        "env": "CartPole-v1",
        "params": {},
        "memory": "ReplayMemory",
        "arguments": {"size": 10_000, "batch_size": 64},
    },
    "PPO CartPole 2x64, 8 copies": {
        "model": "ppo",
        "env": "CartPole-v1",
        "copies": 8,
        "params": {},
        "memory": "BatchMemory",
        "arguments": {"size": 1024, "batch_size": 1024},
    },
    "SAC Pendulum 2x64": {
        "model": "sac",
        "env": "Pendulum-v1",
        "params": {"hidden": [64, 64]},
        "memory": "ReplayMemory",
        "arguments": {"size": 10_000, "batch_size": 64},
    },
}
LEARNERS: Final = 10
SEEDS: Final = 65


def compiled(case: dict[str, Any], directory: Path, seeds: int) -> dict[str, float]:
    """Compile, in this process; returns seconds: of TensorFlow's import, of all of it, and of each of further seeds."""
    begin = time.perf_counter()
    import tensorflow as tf  # noqa: F401

    loaded = time.perf_counter()
    from .. import Agent, RunConfig, memories
    from ..core import registry
    from ..environments import make
    from ..estimators.compilation import add_seeds

    memory = getattr(memories, case["memory"])(**case["arguments"])
    config = RunConfig(seed=0, progress=False)
    agent = Agent(registry.find("model_fn", case["model"]), memory, directory / "run", config, case["params"])
    env: Any = make(case["env"], case.get("copies"))
    agent.compile(directory / "compiled", env, seeds=range(8))
    done = time.perf_counter()
    env.close()
    add_seeds(directory / "compiled", range(100, 101))
    one = time.perf_counter()
    add_seeds(directory / "compiled", range(101, 101 + seeds))
    many = time.perf_counter()
    # Both calls load the initialisers and compare them for a seed that is there.
    return {"import": loaded - begin, "compile": done - loaded, "seed": ((many - one) - (one - done)) / (seeds - 1)}


def first_update(case: dict[str, Any], directory: Path, started: float) -> dict[str, float]:
    """Train until the first update; returns the seconds since ``started`` and the largest resident MB until then."""
    from .. import Agent, RunConfig, memories
    from ..environments import make
    from ..hooks import Hook

    found: dict[str, float] = {}

    class Noting(Hook):
        def after_update(self, session: Any, facts: Any) -> None:
            if not found:
                found.update(seconds=time.monotonic() - started, megabytes=resident("VmHWM"))

    memory = getattr(memories, case["memory"])(**case["arguments"])
    agent = Agent(
        None, memory, directory / "trained", RunConfig(seed=3, progress=False), compiled=directory / "compiled"
    )
    agent.train(make(case["env"], case.get("copies")), 100, 1, hooks=Noting(), steps=1)
    return found


def learners(case: dict[str, Any], directory: Path) -> dict[str, float]:
    """Further steppers in one process, after a first: MB of each, and milliseconds to make it.

    Their memories are empty, and take nothing from the machine before they are filled.
    """
    from .. import memories
    from ..estimators.limits import UpdateSchedule
    from ..estimators.stepper import Stepper

    def one(seed: int) -> Stepper:
        memory = getattr(memories, case["memory"])(**case["arguments"])
        lanes = case.get("copies", 1)
        return Stepper.load(directory / "compiled", memory, seed=seed % 8, lanes=lanes, schedule=UpdateSchedule(100, 1))

    kept = [one(0)]
    before, begin = resident("VmRSS"), time.perf_counter()
    kept += [one(seed) for seed in range(LEARNERS)]
    seconds, after = time.perf_counter() - begin, resident("VmRSS")
    return {"megabytes": (after - before) / LEARNERS, "milliseconds": 1e3 * seconds / LEARNERS}


def resident(what: str) -> float:
    """The resident memory of this process, in MB (Linux): ``VmRSS`` now, ``VmHWM`` the largest so far."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) * 1024 / 1e6


def _child(what: str, name: str, directory: Path, *quick: str) -> dict[str, float]:
    command = [sys.executable, "-m", "axonrl.benchmarks.compiled", *quick, "--child", what, name, str(directory)]
    ran = subprocess.run([*command, str(time.monotonic())], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure every case, each in processes of its own, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a case, once and briefly, to see that everything works")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        what, name, directory, started = arguments.child
        case, folder = CASES[name], Path(directory)
        if what == "compiled":
            print(json.dumps(compiled(case, folder, 2 if arguments.quick else SEEDS)))
        elif what == "first_update":
            print(json.dumps(first_update(case, folder, float(started))))
        else:
            print(json.dumps(learners(case, folder)))
        return
    print("| case | compile | each further seed | first update | resident then | each further learner |")
    print("|---|---|---|---|---|---|")
    quick = ["--quick"] if arguments.quick else []
    for name in [*CASES][:1] if arguments.quick else CASES:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            made = _child("compiled", name, folder, *quick)
            runs = []
            for repeat in range(1 if arguments.quick else arguments.repeats):
                (folder / "trained").rename(folder / f"trained-{repeat}") if repeat else None
                runs.append(_child("first_update", name, folder))
            more = _child("learners", name, folder)
        seconds = sorted(run["seconds"] for run in runs)
        print(
            f"| {name} | {made['import']:.1f} s TensorFlow, {made['compile']:.1f} s | {made['seed']:.2f} s"
            f" | {statistics.median(seconds):.2f} s ({seconds[0]:.2f} to {seconds[-1]:.2f})"
            f" | {max(run['megabytes'] for run in runs):.0f} MB"
            f" | {more['megabytes']:.1f} MB, {more['milliseconds']:.1f} ms |",
            flush=True,
        )


if __name__ == "__main__":
    main()
