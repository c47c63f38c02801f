"""Many seeds and a plot: two settings, the mean of each and how sure it is.

Starting it again, with more seeds too, trains only what is missing.

    python examples/many_seeds.py --seeds 3 --timesteps 30000
"""

import argparse
import csv

import matplotlib.pyplot as plt
import numpy as np

from axonrl import Agent, RunConfig
from axonrl.environments import make
from axonrl.hooks import EvaluationHook
from axonrl.memories import BatchMemory
from axonrl.models import ppo
from axonrl.run_dir.statistics import interval, intervals


def train(learning_rate, seed, timesteps):
    """One run, evaluated five times on its way: timesteps and mean returns."""
    folder = f"runs/many_seeds/{learning_rate}/seed-{seed}"
    params = {"learning_rate": learning_rate, "epochs": 4}
    config = RunConfig(seed=seed, progress=False)
    agent = Agent(ppo.model_fn, BatchMemory(512), folder, config, params)
    env = make("CartPole-v1", num_envs=8, vectorization="native")
    hook = EvaluationHook(timesteps // 5, episodes=10, env="CartPole-v1")
    agent.train(env, max_timesteps=timesteps, hooks=hook)
    with open(f"{folder}/evaluations.csv") as file:
        rows = list(csv.DictReader(file))
    returns = [float(row["episode_return_mean"]) for row in rows]
    return [int(row["global_timestep"]) for row in rows], returns


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--timesteps", type=int, default=30_000)
    arguments = parser.parse_args()
    for learning_rate in (3e-4, 1e-3):
        seeds = range(arguments.seeds)
        runs = [train(learning_rate, seed, arguments.timesteps) for seed in seeds]
        timesteps = runs[0][0]
        returns = np.array([found for _, found in runs])  # [seeds, evaluations]
        mean, low, high = intervals(returns)
        plt.plot(timesteps, mean, label=f"learning rate {learning_rate}")
        plt.fill_between(timesteps, low, high, alpha=0.2)
        last = interval(returns[:, -1])
        found = f"{last.value:.1f} ({last.low:.1f} to {last.high:.1f})"
        print(f"{learning_rate}: {found}")
    plt.xlabel("timesteps")
    plt.ylabel("return: mean over seeds, 95 % interval")
    plt.legend()
    plt.savefig("many_seeds.png")
    print("wrote many_seeds.png")
