"""How well and how fast agents of Tensorforce's interface learn CartPole, and what act and observe cost.

    python -m axonrl.benchmarks.tensorforce learning --seeds 100-102 --page docs/migrating_from_tensorforce.md
    python -m axonrl.benchmarks.tensorforce speed --page docs/migrating_from_tensorforce.md

A table replaces the one below the line of the page that holds the command.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from .learning import insert, seeds
from .report import table

LAST: Final = 20
"""Episodes whose mean return counts."""
WANTED: Final = 150.0


class Trial(NamedTuple):
    """An agent and how long it may learn."""

    timesteps: int
    arguments: dict[str, Any]


TRIALS: Final[dict[str, Trial]] = {
    "quickstart": Trial(
        200_000,
        {
            "agent": "tensorforce",
            "memory": 10_000,
            "update": {"unit": "timesteps", "batch_size": 64},
            "optimizer": {"type": "adam", "learning_rate": 1e-3},
            "policy": {"network": "auto"},
            "objective": "policy_gradient",
            "reward_estimation": {"horizon": 20, "discount": 0.99},
        },
    ),
    "ppo": Trial(100_000, {"agent": "ppo", "batch_size": 10}),
    "dqn": Trial(
        50_000,
        {
            "agent": "dqn",
            "memory": 10_000,
            "batch_size": 32,
            "update_frequency": 4,
            "learning_rate": 1e-3,
            "target_sync_frequency": 100,
            "start_updating": 500,
            "exploration": {
                "type": "decaying",
                "unit": "timesteps",
                "decay": "linear",
                "initial_value": 1.0,
                "final_value": 0.05,
                "decay_steps": 10_000,
            },
        },
    ),
    "vpg": Trial(100_000, {"agent": "vpg", "batch_size": 10, "learning_rate": 5e-3}),
    "a2c": Trial(
        100_000,
        {
            "agent": "a2c",
            "batch_size": 32,
            "learning_rate": 1e-3,
            "horizon": 15,
            "critic_optimizer": {"type": "adam", "learning_rate": 3e-3},
        },
    ),
}


def learn(name: str, seed: int, timesteps: int | None = None) -> tuple[float, list[float]]:
    """The mean return of the last episodes, and the returns of all."""
    from .. import environments
    from ..interfaces.tensorforce import Runner

    trial = TRIALS[name]
    with environments.make("CartPole-v1", None) as env:
        env.reset(seed=seed)  # the interface has no seeds of environments; those that follow draw from the same one
        environment = {"environment": "gym", "level": env}
        runner = Runner(agent={**trial.arguments, "seed": seed}, environment=environment, max_episode_timesteps=500)
        runner.run(num_timesteps=timesteps or trial.timesteps, use_tqdm=False)
        runner.close()
    returns = [float(x) for x in runner.episode_rewards]
    return statistics.fmean(returns[-LAST - 1 : -1]), returns  # the last one was cut


def learning(names: Sequence[str], wanted: Sequence[int], timesteps: int | None) -> str:
    """A table of the mean returns of each agent's last episodes."""
    rows = []
    for name in names:
        means = []
        for seed in wanted:
            began = time.perf_counter()
            mean, returns = learn(name, seed, timesteps)
            tenths = [returns[k * len(returns) // 10 : (k + 1) * len(returns) // 10] for k in range(10)]
            curve = [round(statistics.fmean(part)) if part else 0 for part in tenths]
            print(f"{name} {seed}: {mean:.1f} in {time.perf_counter() - began:.0f} s, {curve}", flush=True)
            means.append(mean)
        shown = ", ".join(f"{mean:.1f}" for mean in means)
        rows.append(
            [name, shown, f"{timesteps or TRIALS[name].timesteps:,}", "yes" if min(means) > WANTED else "**no**"]
        )
    spelled = ", ".join(map(str, wanted))
    header = [
        "agent",
        f"mean return of the last {LAST} episodes, seeds {spelled}",
        "timesteps",
        f"all above {WANTED:g}",
    ]
    return table(header, rows)


def of_core(timesteps: int) -> float:
    """Seconds of a timestep of ``Agent.train``: a policy gradient with the quickstart's network and batches."""
    from .. import Agent, RunConfig
    from ..memories import BatchMemory
    from ..models import a2c

    with tempfile.TemporaryDirectory() as folder:
        config = RunConfig(seed=0, progress=False, save_checkpoints_secs=None)
        params = {"hidden": [64, 64], "activation": "tanh", "learning_rate": 1e-3}
        agent = Agent(a2c.model_fn, BatchMemory(size=64, batch_size=64, discount=0.99), folder, config, params)
        agent.train("CartPole-v1", timesteps=WARM_UP, hooks=[])
        began = time.perf_counter()
        agent.train("CartPole-v1", timesteps=timesteps, hooks=[])
        return (time.perf_counter() - began) / timesteps


def quickstart(**more: Any) -> tuple[Any, Any]:
    """The quickstart's agent and its environment."""
    from ..interfaces.tensorforce import Agent, Environment

    environment = Environment.create(environment="gym", level="CartPole-v1")
    return Agent.create(environment=environment, seed=0, **{**TRIALS["quickstart"].arguments, **more}), environment


def program(timesteps: int) -> float:
    """Seconds of a timestep of the quickstart's program."""
    agent, environment = quickstart()

    def loop(end: int) -> None:
        while agent.timesteps < end:
            states, terminal = environment.reset(), 0
            while terminal == 0:
                actions = agent.act(states=states)
                states, terminal, reward = environment.execute(actions=actions)
                agent.observe(terminal=terminal, reward=reward)

    loop(WARM_UP)
    first, began = agent.timesteps, time.perf_counter()
    loop(first + timesteps)
    return (time.perf_counter() - began) / int(agent.timesteps - first)


def calls(timesteps: int) -> float:
    """Seconds of an act and an observe of the quickstart's agent, updates left out."""
    agent, environment = quickstart(update={"unit": "timesteps", "batch_size": 64, "frequency": "never"})
    states = environment.reset()

    def loop(count: int) -> None:
        for t in range(count):
            agent.act(states=states)
            agent.observe(terminal=t % 200 == 199, reward=1.0)

    loop(WARM_UP)
    began = time.perf_counter()
    loop(timesteps)
    return (time.perf_counter() - began) / timesteps


WARM_UP: Final = 2_000
MEASURED: Final[Mapping[str, Callable[[int], float]]] = {
    "`Agent.train`, A2C of the same network and batches": of_core,
    "`act` and `observe` alone, without updates": calls,
    "the quickstart's program": program,
}


def speed(timesteps: int, rounds: int) -> str:
    """A table of microseconds of a timestep, measured in turn."""
    found: dict[str, list[float]] = {name: [] for name in MEASURED}
    for _ in range(rounds):
        for name, measure in MEASURED.items():
            found[name].append(measure(timesteps) * 1e6)
            print(f"{name}: {found[name][-1]:.1f} us", flush=True)
    core = statistics.median(next(iter(found.values())))
    rows = [
        [name, f"{statistics.median(x):.1f} ({min(x):.1f} to {max(x):.1f})", f"{statistics.median(x) / core:.2f}x"]
        for name, x in found.items()
    ]
    return table(["CartPole-v1", f"us of a timestep, median of {rounds}", "against `Agent.train`"], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["learning", "speed"])
    parser.add_argument("--seeds", type=seeds, default=[100, 101, 102], help="of learning")
    parser.add_argument("--only", nargs="+", choices=list(TRIALS), default=list(TRIALS), help="agents of learning")
    parser.add_argument("--timesteps", type=int, help="in place of each agent's own, or of 20,000 for speed")
    parser.add_argument("--rounds", type=int, default=5, help="of speed")
    parser.add_argument("--page", type=Path, help="the Markdown page whose table is replaced")
    given: Any = parser.parse_args(arguments)
    if given.what == "speed":
        print(f"1-minute load: {os.getloadavg()[0]:.2f}")
        text = speed(given.timesteps or 20_000, given.rounds)
    else:
        text = learning(given.only, given.seeds, given.timesteps)
    print(text)
    if given.page is not None:
        command = f"python -m axonrl.benchmarks.tensorforce {' '.join(sys.argv[1:])}"
        given.page.write_text(insert(given.page.read_text("utf-8"), command, text), "utf-8")


if __name__ == "__main__":
    main()
