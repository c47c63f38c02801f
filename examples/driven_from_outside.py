"""Driven from outside: a simulation that asks for actions when it needs them.

Two tanks lose water, each at a pace of its own. The simulation owns the loop: it
asks whenever the float of a tank moves, and says later what came of it.

    python examples/driven_from_outside.py --timesteps 20000
"""

import argparse
import heapq

import numpy as np
from gymnasium.spaces import Box, Discrete

from axonrl import Agent, RunConfig
from axonrl.memories import ReplayMemory
from axonrl.models import dqn

OBSERVATIONS, VALVE = Box(0, 1, (2,), np.float32), Discrete(2)  # closed, open


def simulate(controller, timesteps, paces=(0.7, 1.1)):
    """Run both tanks side by side; yields how far a level was from a half."""
    generator = np.random.default_rng(0)
    levels = generator.uniform(0, 1, len(paces))
    calls = [(pace, tank) for tank, pace in enumerate(paces)]  # when, and who
    valves = {}
    for _ in range(timesteps):
        if controller.session.stop_reason is not None:
            return
        now, tank = heapq.heappop(calls)
        heapq.heappush(calls, (now + paces[tank], tank))
        if tank in valves:  # what came of its last action
            flow = 0.1 * valves[tank] - 0.05 * paces[tank]
            levels[tank] = np.clip(levels[tank] + flow, 0, 1)
        error = abs(levels[tank] - 0.5)
        seen = np.array([levels[tank], paces[tank] / 2], np.float32)
        if tank in valves:
            controller.observe(-error, False, False, seen, lane=tank)
        valves[tank] = int(controller.act(seen, lane=tank))
        yield error


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timesteps", type=int, default=20_000)
    arguments = parser.parse_args()
    epsilon = {"kind": "linear", "start": 1.0, "stop": 0.02, "duration": 5_000}
    memory, config = ReplayMemory(20_000, batch_size=64), RunConfig(seed=0)
    agent = Agent(dqn.model_fn, memory, config=config, params={"epsilon": epsilon})
    schedule = {"first_update": 200, "update_frequency": 2}
    with agent.interact(OBSERVATIONS, VALVE, lanes=2, **schedule) as controller:
        errors = list(simulate(controller, arguments.timesteps))
    tenth = max(1, len(errors) // 10)
    print(f"distance from a half, at first: {np.mean(errors[:tenth]):.3f}")
    print(f"distance from a half, at last: {np.mean(errors[-tenth:]):.3f}")
