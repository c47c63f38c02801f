"""Contenders of ``distributed.py``, and what was measured of them as Markdown."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping
from typing import Any, Final

from .report import MISSING, machine_and_versions, number, spread, table, times

CORES: Final = 2


@dataclasses.dataclass(frozen=True)
class Contender:
    """A library with a setting.

    Args:
        family: whom it is compared with: ``"IMPALA"`` or ``"DQN"``.
        title: its name in the results.
        module: in ``distributing/``.
        arguments: the arguments of its process.
    """

    family: str
    title: str
    module: str
    arguments: Mapping[str, Any]

    @property
    def is_ours(self) -> bool:
        return self.module == "axonrl"


def _ours(family: str, name: str) -> dict[str, Contender]:
    def one(title: str, actors: int, backend: str) -> Contender:
        arguments = {"algorithm": family, "actors": actors, "backend": backend}
        return Contender(family, f"axonrl, {name}, {title}", "axonrl", arguments)

    return {
        f"axonrl-{name}-1": one("1 actor", 1, "ray"),
        f"axonrl-{name}-2": one("2 actors", 2, "ray"),
        f"axonrl-{name}-inline": one("inline", 1, "inline"),
    }


def _rllib(algorithm: str, runners: int, setting: str = "", **arguments: Any) -> Contender:
    family = "DQN" if algorithm == "DQN" else "IMPALA"
    plural = {0: "the driver samples", 1: "1 runner"}.get(runners, f"{runners} runners")
    title = ", ".join(filter(None, ["RLlib", algorithm, setting, plural]))
    return Contender(family, title, "rllib", {"algorithm": algorithm, "runners": runners, **arguments})


_WAITS: Final = {"wait_s": 0.1}
CONTENDERS: Final = {
    **_ours("IMPALA", "IMPALA"),
    **{f"rllib-IMPALA-{n}": _rllib("IMPALA", n) for n in (1, 2)},
    **{f"rllib-IMPALA-waits-{n}": _rllib("IMPALA", n, "waits for samples", **_WAITS) for n in (1, 2)},
    **{f"rllib-IMPALA-learner-{n}": _rllib("IMPALA", n, "a learner process", learners=1) for n in (1, 2)},
    **{f"rllib-APPO-{n}": _rllib("APPO", n, "waits for samples", **_WAITS) for n in (1, 2)},
    **_ours("DQN", "Ape-X"),
    "rllib-DQN-1": _rllib("DQN", 1),
    "rllib-DQN-0": _rllib("DQN", 0),
}
"""Contenders by the names that ``--only`` searches, in the order of measurement."""
COLUMNS: Final = {
    "sampled": "sampled per s",
    "trained": "trained per s",
    "updates": "updates per s",
    "lag": "lag, updates",
    "memory": "memory, MB",
    "processes": "processes",
    "actors wait": "actors wait",
    "learner waits": "learner waits",
}


@dataclasses.dataclass
class Results:
    """All measurements, as in ``distributed.json``.

    Args:
        machine: the machine and the date.
        versions: the versions of packages, by the name of the environment.
        rounds: measurements of each contender.
        warm_up: seconds.
        seconds: the seconds of the window.
        bare: timesteps per second of one process that only steps the environment; one per round.
        values: by contender, the quantities of each round.
        failures: contender, round, and the last lines of output.
    """

    machine: Mapping[str, str]
    versions: Mapping[str, Mapping[str, str]]
    rounds: int
    warm_up: float
    seconds: float
    bare: list[float] = dataclasses.field(default_factory=list)
    values: dict[str, list[dict[str, float]]] = dataclasses.field(default_factory=dict)
    failures: list[dict[str, str]] = dataclasses.field(default_factory=list)

    def get(self, contender: str | None, quantity: str) -> list[float]:
        """The measurements of a quantity; empty where there are none."""
        found = self.values.get(contender, []) if contender is not None else []
        return [one[quantity] for one in found if quantity in one]

    def median(self, contender: str | None, quantity: str) -> float | None:
        """The median of all rounds."""
        found = self.get(contender, quantity)
        return statistics.median(found) if found else None

    def best(self, names: Iterable[str]) -> str | None:
        """The contender that trained on most timesteps."""
        rated = [(rate, name) for name in names if (rate := self.median(name, "trained")) is not None]
        return max(rated)[1] if rated else None


def ratio(a: float | None, b: float | None) -> float | None:
    """None where a number is missing, or there is nothing to divide by."""
    return None if a is None or not b else a / b


@dataclasses.dataclass(frozen=True)
class Goal:
    """``quantity`` of the best of ours, against RLlib's best of ``algorithm``: a ratio at least, or at most."""

    algorithm: str
    quantity: str
    bound: float
    at_least: bool

    def met(self, found: float | None) -> str:
        if found is None:
            return "not measured"
        return "met" if (found >= self.bound if self.at_least else found <= self.bound) else "**not met**"


GOALS: Final = (
    *(Goal(one, quantity, 3.0, True) for one in ("IMPALA", "APPO", "DQN") for quantity in ("sampled", "trained")),
    *(Goal(one, "memory", 1 / 3, False) for one in ("IMPALA", "APPO", "DQN")),
    Goal("IMPALA", "lag", 1.0, False),
)


def bests(results: Results, algorithm: str) -> tuple[str | None, str | None]:
    """Our best on Ray, and RLlib's best of an algorithm."""
    family = "DQN" if algorithm == "DQN" else "IMPALA"
    ours = [n for n, c in CONTENDERS.items() if c.is_ours and c.family == family and c.arguments["backend"] == "ray"]
    peers = [n for n, c in CONTENDERS.items() if not c.is_ours and c.arguments["algorithm"] == algorithm]
    return results.best(ours), results.best(peers)


def goals(results: Results) -> str:
    """Goals, and what was measured."""
    rows = []
    for goal in GOALS:
        ours, peer = bests(results, goal.algorithm)
        found = ratio(results.median(ours, goal.quantity), results.median(peer, goal.quantity))
        pair = " against ".join(CONTENDERS[one].title if one else MISSING for one in (ours, peer))
        wanted = f"{'at least' if goal.at_least else 'at most'} {goal.bound:.3g}x"
        rows.append([COLUMNS[goal.quantity], pair, wanted, times(found), goal.met(found)])
    return table(["", "ratio of medians", "wanted", "measured", "goal"], rows)


def cost_of_ray(results: Results) -> str:
    """Ray against the same roles in one process."""
    rows = []
    for name in ("IMPALA", "Ape-X"):
        inline = results.median(f"axonrl-{name}-inline", "trained")
        shares = [ratio(results.median(f"axonrl-{name}-{n}", "trained"), inline) for n in (1, 2)]
        rows.append([name, *map(times, shares)])
    return table(["trained timesteps on Ray, against inline", "1 actor", "2 actors"], rows)


def measurements_of(results: Results, family: str) -> str:
    """All contenders of a kind."""
    bare = statistics.median(results.bare) if results.bare else None
    rows = []
    for name, contender in CONTENDERS.items():
        if contender.family != family or name not in results.values:
            continue
        cells = [spread(found) if (found := results.get(name, one)) else MISSING for one in COLUMNS]
        efficiency = ratio(results.median(name, "sampled"), None if bare is None else bare * CORES)
        rows.append([contender.title, *cells, MISSING if efficiency is None else f"{efficiency:.1%}"])
    return table(["", *COLUMNS.values(), "efficiency"], rows)


def failures(results: Results) -> str:
    """Failed measurements, and processes that ended badly or left others behind."""
    found = [f"{CONTENDERS[one['contender']].title}: {one['error']}" for one in results.failures]
    found += [
        f"{CONTENDERS[name].title}: {quantity} {', '.join(f'{one:g}' for one in values)}"
        for name in results.values
        for quantity in ("exit code", "left behind")
        if any(values := results.get(name, quantity))
    ]
    return "\n\n".join(f"```\n{one}\n```" for one in found) if found else "Nothing failed."


def how(results: Results) -> str:
    """Text about the measurement."""
    bare = number(statistics.median(results.bare)) if results.bare else MISSING
    return (
        f"CartPole-v1 on {CORES} cores. Contenders run in turn, each in a process of its own that starts its other"
        f" processes, and are measured for {results.seconds:g} s, after {results.warm_up:g} s of warm-up that begins"
        " with the first update; every process has one thread for computing. A cell is the median of"
        f" {results.rounds} round{'s' * (results.rounds > 1)}, with the smallest and the largest value. The best"
        " contender is the one that trained on most timesteps. Memory is the proportional set size of all"
        " processes, including Ray's daemons, with an object store of 256 MiB; axonrl's programs are in its cache, and"
        " its learner loads no TensorFlow. Lag is the number of updates by which"
        " the weights that act are behind those that learn. IMPALA: 16 environments per process, unrolls of 50"
        " timesteps, updates of 800, 2x64 tanh with the value on the same layers, V-trace clipped at 1, Adam at"
        " 5e-4. RLlib adds a row for every episode and unroll, and counts it as trained on. DQN: double, dueling,"
        " 3-step, batches of 64 from 50,000 prioritized transitions, an update for every 8 timesteps; RLlib makes"
        " up to a fifth fewer updates, because its environments step once more in a sample in which one was reset."
        " Efficiency is the number of timesteps sampled, as a share of those that two processes take that only step"
        f" the environment ({bare} per second each)."
    )


def markdown(results: Results) -> str:
    """The page."""
    parts = [
        how(results),
        goals(results),
        measurements_of(results, "IMPALA"),
        measurements_of(results, "DQN"),
        cost_of_ray(results),
    ]
    return "\n\n".join([*parts, machine_and_versions(results.machine, results.versions), failures(results)])
