"""Offline, then online: learn from stored episodes, then in the environment.

The file could be an expert's or a robot's. Here a half-trained policy writes it,
which takes random actions at times, so that the file shows more than one way.

    python examples/offline_then_online.py --timesteps 10000 --updates 5000
"""

import argparse

from axonrl import Agent, RunConfig
from axonrl.memories import ReplayMemory
from axonrl.models import cql, dqn

ENV = "CartPole-v1"


def score(agent):
    """The mean return of 20 greedy episodes."""
    return agent.evaluate(ENV, episodes=20)["episode_return_mean"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timesteps", type=int, default=10_000)
    parser.add_argument("--updates", type=int, default=5_000, help="offline")
    arguments = parser.parse_args()
    online = {"first_update": 500, "update_frequency": 2}
    config = RunConfig(seed=0)

    memory = ReplayMemory(20_000, batch_size=64)
    teacher = Agent(dqn.model_fn, memory, config=config)
    teacher.train(ENV, **online, timesteps=arguments.timesteps)
    found = teacher.record(
        "episodes.npz", ENV, timesteps=arguments.timesteps, epsilon=0.3
    )
    print(f"in the file: {found['episode_return_mean']:.1f}")

    agent = Agent(cql.model_fn, ReplayMemory(50_000, batch_size=64), config=config)
    agent.learn("episodes.npz", ENV, steps=arguments.updates)
    print(f"offline, after {agent.global_step:,} updates: {score(agent):.1f}")

    agent.train(ENV, **online, timesteps=arguments.timesteps)
    print(f"online, after {agent.global_timestep:,} timesteps: {score(agent):.1f}")
