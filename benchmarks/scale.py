"""Calibrate the simulation on this machine, then simulate clusters: ``python -m axonrl.benchmarks.scale``.

With ``--measure`` it trains with 1, 2 and 4 actors on an idle machine and keeps the measurements in ``scale.json``. The
cost of each part follows from these runs; with these costs it simulates the same runs, then clusters of 32 nodes.
``--write`` writes the tables and the picture of ``docs/scale.md``; otherwise the tables are only printed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from ..distributed import Cluster
from ..distributed.simulation import Outcome, Simulation
from ..distributed.simulation_plan import Costs, Plan
from .machine import load, machine
from .report import fill_page, table
from .run import MAX_LOAD, last_line
from .scaling import SIZES, UPDATE_FREQUENCY

RUNS: Final = Path(__file__).resolve().with_name("scale.json")
DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
ACTORS: Final = (1, 2, 4)
CORES: Final = 2
NODES, NODE_CORES = 32, 32
MANY: Final = (10, 100, 1000)
COLOURS: Final = ("#1f5fa8", "#d9591c", "#2f855a", "#7b3fa0", "#b7791f", "#6b7280")
TITLES: Final = {"impala": "IMPALA", "apex": "Ape-X"}
MESSAGE_S: Final = 5e-4
"""Half of a round trip between two processes of Ray."""
ATARI: Final = Costs(
    timestep_s=1e-3,
    message_s=2e-3,
    ray_s=1e-3,
    timestep_bytes=7056,
    driver_s=1e-3,
    update_s=10e-3,
    insert_s=5e-3,
    sample_s=10e-3,
    weights_bytes=13.2e6,
    start_s=5.0,
)
"""Assumed: 4 frames of an emulator and the forward pass for them 1 ms, each screen of 84 x 84 sent once, a learner that
takes 10 ms for 512 transitions or 640 timesteps, and weights of 13.2 MB."""


def measure_training(algorithm: str, actors: int, warm_up: float, seconds: float) -> dict[str, float]:
    """A training on this machine."""
    arguments = {"algorithm": algorithm, "actors": actors, "warm_up": warm_up, "seconds": seconds}
    found: dict[str, float] = last_line([sys.executable, "-m", "axonrl.benchmarks.scaling", json.dumps(arguments)], 1)
    return found


Runs = Mapping[str, Sequence[Mapping[str, float]]]
"""Runs of each algorithm, with each number of actors."""


def busy_speed(every: Runs) -> float:
    """Speed of a processor while all are busy: the time of a timestep of IMPALA with one actor over that with most."""
    runs = every["impala"]
    return runs[0]["timestep_s"] / runs[-1]["timestep_s"]


def costs_of(algorithm: str, every: Runs) -> Costs:
    """Costs of each part on idle processors, from the run with one actor; a shard's from a line over its environments.

    A single actor of IMPALA always has a request, so the rest of its time is spent waiting for weights.
    """
    runs, alone = every[algorithm], every["impala"][0]
    names = ("timestep_s", "update_s", "driver_s", "ray_s")
    fetch_s = math.prod(SIZES["impala"]) * (1 / alone["timesteps_per_s"] - alone["timestep_s"])
    length, width = SIZES[algorithm]
    slope, start = np.polyfit([width * actors for actors in ACTORS], [run["sample_s"] for run in runs], 1)
    updates = length * width / UPDATE_FREQUENCY
    return Costs(
        message_s=MESSAGE_S,
        fetch_s=max(fetch_s, 0.0),
        sample_s=max(float(start), 0.0) * busy_speed(every),
        insert_lane_s=max(float(slope), 0.0) * updates * busy_speed(every),
        **{name: runs[0][name] for name in names},
    )


def local(algorithm: str, actors: int, speed: float, shards: int = 1) -> Plan:
    """The plan of a measured run."""
    length, width = SIZES[algorithm]
    return Plan(
        cluster=Cluster(actors=actors, unroll=length, envs_per_actor=width, replay_shards=shards),
        batch=None if algorithm == "apex" else 1,
        update_frequency=UPDATE_FREQUENCY,
        cores=CORES,
        shared=speed,
        together=True,
    )


def calibration(every: Runs, seconds: float) -> tuple[str, dict[str, Costs]]:
    """A table of what was measured and what is simulated, and the costs of each algorithm."""
    head = ["training", "actors", "timesteps/s, measured", "simulated", "difference", "lag, measured", "simulated"]
    rows, found = [], {}
    for algorithm, title in TITLES.items():
        found[algorithm] = costs = costs_of(algorithm, every)
        for actors, run in zip(ACTORS, every[algorithm], strict=True):
            outcome = Simulation(local(algorithm, actors, busy_speed(every)), costs, seconds).run()
            difference = outcome.timesteps_per_s / run["timesteps_per_s"] - 1
            speeds = f"{run['timesteps_per_s']:,.0f}", f"{outcome.timesteps_per_s:,.0f}", f"{difference:+.0%}"
            rows.append([title, str(actors), *speeds, f"{run['lag_mean']:.1f}", f"{outcome.lag_mean:.1f}"])
    return table(head, rows), found


def costs_table(costs: Mapping[str, Costs]) -> str:
    """Costs of the parts, in microseconds."""
    names = {
        "timestep_s": "a timestep of one environment, in an actor",
        "driver_s": "an unroll, in the driver",
        "update_s": "an update",
        "sample_s": "a batch, in a shard",
        "insert_lane_s": "an unroll, in a shard, for each environment of the shard",
        "ray_s": "an unroll, in Ray's processes and threads",
        "fetch_s": "newer weights, which an actor waits for without a processor",
    }
    rows = [[title, *(_microseconds(getattr(costs[key], name)) for key in TITLES)] for name, title in names.items()]
    return table(["microseconds of a processor for", *TITLES.values()], rows)


def _microseconds(seconds: float) -> str:
    return "-" if not seconds else f"{seconds * 1e6:,.1f}" if seconds < 1e-4 else f"{seconds * 1e6:,.0f}"


def large(algorithm: str, actors: int, *, atari: bool) -> Plan:
    """A plan for several nodes."""
    nodes, shards = min(NODES, actors), min(8, actors)
    if not atari:
        plan = local(algorithm, actors, 1.0, shards)
        return dataclasses.replace(plan, nodes=nodes, cores=NODE_CORES, together=False)
    return Plan(
        cluster=Cluster(actors=actors, unroll=20, envs_per_actor=16, replay_shards=shards),
        batch=None if algorithm == "apex" else 2,
        update_frequency=10 * actors,  # 100 updates per second where actors are never held up
        batch_size=512,
        nodes=nodes,
        cores=NODE_CORES,
    )


def many(costs: Mapping[str, Costs], seconds: float) -> tuple[str, list[tuple[str, int, Outcome]]]:
    """A table of simulated clusters."""
    head = ["training", "actors", "timesteps/s", "updates/s", "samples per insert", "lag, mean and 99 %"]
    head += ["learner busy", "driver busy", "actors busy"]
    head += ["a lost node is back after", "unrolls that wait after a pause of 10 s"]
    rows, found = [], []
    for atari in (False, True):
        for algorithm, title in TITLES.items():
            name = f"{title}, {'Atari' if atari else 'CartPole'}"
            for actors in MANY:
                plan = large(algorithm, actors, atari=atari)
                taken = dataclasses.replace(ATARI if atari else costs[algorithm], deaths_per_hour=1.0)
                one = Simulation(plan, taken, seconds).run()
                lost = Simulation(plan, taken, seconds, lose_node_at=seconds / 2).run()
                paused = Simulation(plan, taken, seconds, pause=(seconds / 2, 10.0)).run()
                found.append((name, actors, one))
                speeds = f"{one.timesteps_per_s:,.0f}", f"{one.updates_per_s:,.0f}", f"{one.samples_per_insert:.2f}"
                shares = (f"{share:.0%}" for share in (one.learner_busy, one.driver_busy, one.actors_busy))
                lag, back = f"{one.lag_mean:.1f}, {one.lag_most:.0f}", f"{lost.recovery_s:.1f} s"
                rows.append([name, f"{actors:,}", *speeds, lag, *shares, back, str(paused.waiting_most)])
    return table(head, rows), found


def draw(path: Path, found: Sequence[tuple[str, int, Outcome]]) -> None:
    """Timesteps per second over the number of actors, and who is busy."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    speed, busy = figure.subplots(1, 2)
    for colour, name in zip(COLOURS, dict.fromkeys(name for name, _, _ in found), strict=False):
        outcomes = [(actors, one) for title, actors, one in found if title == name]
        actors = [actors for actors, _ in outcomes]
        speed.loglog(actors, [one.timesteps_per_s for _, one in outcomes], "o-", color=colour, label=name)
        learner = [100 * (one.learner_busy + one.driver_busy) for _, one in outcomes]
        busy.semilogx(actors, learner, "o-", color=colour, label=name)
    speed.set(xlabel="actors", ylabel="timesteps/s", title="simulated, 32 nodes")
    busy.set(xlabel="actors", ylabel="learner's process busy, %", ylim=(0, 105))
    speed.legend(frameon=False, fontsize=8)
    for axes in (speed, busy):
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xticks(MANY, [f"{number:,}" for number in MANY])
        axes.minorticks_off()
    figure.savefig(path, dpi=120, metadata={"Software": None})


def main() -> None:
    """Measure if asked to, simulate, and print or write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--warm-up", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument(
        "--simulated",
        type=float,
        default=120.0,
        help="virtual seconds of a large cluster; half of them of this machine",
    )
    parser.add_argument("--measure", action="store_true", help="anew; else what benchmarks/scale.json has")
    parser.add_argument("--write", action="store_true", help="the tables and the picture of docs/scale.md")
    given = parser.parse_args()
    if given.measure and load() > MAX_LOAD:
        sys.exit(f"the load is {load():.2f}; at most {MAX_LOAD} is wanted for what is measured")
    if given.measure:
        before = machine()
        runs = {
            algorithm: [measure_training(algorithm, actors, given.warm_up, given.seconds) for actors in ACTORS]
            for algorithm in TITLES
        }
        RUNS.write_text(json.dumps({"machine": before, "runs": runs}, indent=1) + "\n", encoding="utf-8")
    kept = json.loads(RUNS.read_text(encoding="utf-8"))
    facts = kept["machine"]
    tables: dict[str, str] = {}
    tables["calibration"], costs = calibration(kept["runs"], given.simulated / 2)
    tables["costs"] = costs_table(costs)
    tables["many"], found = many(costs, given.simulated)
    tables["machine"] = f"{facts['date']}, {facts['cores']} cores ({facts['processor']}), {facts['memory']}. While both"
    tables["machine"] += f" are busy, each has {busy_speed(kept['runs']):.0%} of the speed that it has alone."
    for text in tables.values():
        print(text, end="\n\n")
    if given.write:
        page = DOCS / "scale.md"
        text = page.read_text(encoding="utf-8")
        for name, found_table in tables.items():
            text = fill_page(text, f"benchmarks/scale.py, {name}", found_table)
        page.write_text(text, encoding="utf-8")
        draw(DOCS / "images" / "scale.png", found)


if __name__ == "__main__":
    main()
