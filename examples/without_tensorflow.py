"""A process without TensorFlow: one compiles the training program, another trains.

What trains runs LiteRT in place of TensorFlow: it starts within a second, in some
70 MB, and ends with the very weights that the Agent which compiled would have had.

    python examples/without_tensorflow.py --timesteps 20000
"""

import argparse
import subprocess
import sys

from axonrl import Agent, RunConfig
from axonrl.memories import ReplayMemory

PROGRAM = "compiled/cartpole"
ENV = "CartPole-v1"


def memory():
    """Both processes need one of the same settings."""
    return ReplayMemory(20_000, batch_size=64)


def compile_program(seeds):
    """Write the program, with initial weights for each seed."""
    agent = Agent("dqn", memory(), config=RunConfig(seed=0))
    agent.compile(PROGRAM, ENV, seeds=seeds)
    print("compiled, with TensorFlow:", "tensorflow" in sys.modules)


def train(seed, timesteps):
    """Train from the program alone."""
    config = RunConfig(seed=seed, progress=False)
    agent = Agent(None, memory(), config=config, compiled=PROGRAM)
    agent.train(ENV, first_update=500, update_frequency=2, timesteps=timesteps)
    found = agent.evaluate(ENV, episodes=20)["episode_return_mean"]
    loaded = "tensorflow" in sys.modules
    print(f"seed {seed}: {found:.1f}, with TensorFlow: {loaded}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timesteps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, help="only train, with this seed")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        train(arguments.seed, arguments.timesteps)
    else:
        compile_program(seeds=range(2))
        for seed in range(2):
            command = [sys.executable, __file__, "--seed", str(seed)]
            command += ["--timesteps", str(arguments.timesteps)]
            subprocess.run(command, check=True)
