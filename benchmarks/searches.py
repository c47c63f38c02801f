"""Share of a search that is training: ``python -m axonrl.benchmarks.searches [--trials 200] [--timesteps 10000]``.

Runs a search of ``dqn`` on CartPole over learning rates and epsilons, as ``axonrl run --jobs 2``, and prints the
seconds of the whole command, those that trials spent in training, and their share of the time of all jobs. The goal of
the project is 90 % for 200 trials on two processors. Nothing is evaluated at the end of a trial: that is no training.
The first of the trials loads TensorFlow and compiles the program that all of them share.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

from .processes import AXONRL

SEARCH = """\
name: search
seed: 0
params: {learning_rate: 1e-3, epsilon: 0.1}
environment: {id: CartPole-v1}
agent:
  model_fn: dqn
  params: {hidden: [64, 64], learning_rate: "${learning_rate}", epsilon: "${epsilon}"}
  memory: {kind: replay, size: 10000, batch_size: 32}
train: {first_update: 100, update_frequency: 2, max_timesteps: %(timesteps)d}
evaluate: null
matrix:
  kind: random
  numRuns: %(trials)d
  params:
    learning_rate: {kind: loguniform, value: [-9, -5]}
    epsilon: {kind: uniform, value: [0.05, 0.3]}
"""
GOAL = "90 % for 200 trials on 2 processors"


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200, help="how many")
    parser.add_argument("--timesteps", type=int, default=10_000, help="of each")
    parser.add_argument("--jobs", type=int, default=2, help="trials at a time")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        Path(temporary, "search.yml").write_text(SEARCH % vars(arguments))
        command = [*AXONRL, "run", "search.yml", "--jobs", str(arguments.jobs), "--json"]
        begin = time.perf_counter()
        done = subprocess.run(command, cwd=temporary, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - begin
        if done.returncode:
            raise RuntimeError(f"the search failed:\n{done.stderr}")
        programs = len([*Path(temporary).glob("runs/search/programs/*/program.json")])
    trials = [trial for point in json.loads(done.stdout)["points"] for trial in point["trials"]]
    trained = sum(trial["seconds"] for trial in trials)
    print("| trials | timesteps of each | programs | jobs | seconds | in training | share |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    share = f"{trained / (seconds * arguments.jobs):.1%}"
    numbers = f"{programs} | {arguments.jobs} | {seconds:.1f} | {trained:.1f} | {share}"
    print(f"| {len(trials)} | {arguments.timesteps:,} | {numbers} |")
    print(f"\nGoal: {GOAL}.")


if __name__ == "__main__":
    main()
