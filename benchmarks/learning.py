"""How well the shipped experiments learn: one run per seed, and a row of a Markdown table for each experiment.

    python benchmarks/learning.py dqn_cartpole --seeds 5
    python benchmarks/learning.py dqn_acrobot dqn_lunarlander --seeds 3

A run is what ``axonrl run`` does; its folder is kept below ``runs/learning``, and a seed whose folder holds a finished
run is read, not run again. The interval is that of Student's t for the mean over seeds.
"""

import argparse
import csv
import json
import math
import statistics
import subprocess
import sys
from pathlib import Path

RUNS = Path("runs") / "learning"
STUDENT_T = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 10: 2.262}
"""Two-sided 95 % points for the mean of so many seeds."""


def run(experiment: str, seed: int) -> dict[str, float]:
    """The evaluation of one seed: trains first where that has not been done."""
    folder = RUNS / f"{experiment}-{seed}"
    result = folder / "result.json"
    axonrl = [str(Path(sys.executable).with_name("axonrl"))]
    if not result.exists():
        command = [*axonrl, "run", experiment, "--set", f"seed={seed}", "--model-dir", str(folder)]
        resume = ["--resume"] if folder.exists() else []
        subprocess.run([*command, *resume], check=True, stdout=subprocess.DEVNULL)
        evaluated = subprocess.run(
            [*axonrl, "evaluate", str(folder), "--json"], check=True, stdout=subprocess.PIPE, text=True
        )
        result.write_text(evaluated.stdout)
    return dict(json.loads(result.read_text()))


def last_row(experiment: str, seed: int) -> dict[str, str]:
    """The last episode of a run."""
    with (RUNS / f"{experiment}-{seed}" / "episodes.csv").open(newline="") as file:
        return list(csv.DictReader(file))[-1]


def row(experiment: str, seeds: int) -> str:
    """Mean over seeds with its interval, every seed's return, and the timesteps."""
    results = [run(experiment, seed) for seed in range(seeds)]
    returns = [result["episode_return_mean"] for result in results]
    mean = statistics.mean(returns)
    margin = STUDENT_T[seeds] * statistics.stdev(returns) / math.sqrt(seeds) if seeds in STUDENT_T else math.nan
    each = ", ".join(f"{value:.1f}" for value in returns)
    timesteps = max(int(last_row(experiment, seed)["global_timestep"]) for seed in range(seeds))
    episodes = int(results[0]["episodes"])
    return f"| {experiment} | {mean:.1f} ± {margin:.1f} | {each} | {episodes} | {timesteps:,} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="+", help="names of shipped experiments")
    parser.add_argument("--seeds", type=int, default=5, choices=sorted(STUDENT_T), help="seeds 0, 1, ...")
    arguments = parser.parse_args()
    rows = [row(experiment, arguments.seeds) for experiment in arguments.experiments]
    print("| experiment | return, mean and 95 % interval over seeds | of each seed | episodes | last episode ends at |")
    print("|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
