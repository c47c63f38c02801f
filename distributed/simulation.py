"""What a cluster would do: the planner of a real training, with a virtual clock in place of processes.

Costs are numbers that were measured, or assumed. The simulation answers how many timesteps per second there would be,
how old weights would be when a fragment is learned from, who would wait for whom, and how long it takes until a lost
node's actors work again. It knows no learning: weights are version numbers, fragments are sizes.

    python -m axonrl.distributed.simulation --actors 10 100 1000 --nodes 32
"""

from __future__ import annotations

import argparse
import dataclasses
import heapq
import itertools
import statistics
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from .fragments import FragmentId
from .planner import DIED, READY, Death, Planner, Rules

_RECOVERED: Final = 0.95
"""Of the actors that worked before a node was lost."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds and bytes of the parts of a training.

    Args:
        timestep_s: of one environment in an actor: acting, stepping, and what is around it.
        message_s: of a fragment, from the end of its last timestep to the driver, beside its bytes.
        timestep_bytes: what a timestep takes in a fragment.
        node_bytes_s: bytes per second that a node can send or receive.
        driver_s: the driver's own time for a fragment: asking, taking, putting batches together.
        update_s: of an update; with the time to publish weights.
        weights_bytes: that each node fetches for each version its actors take.
        start_s: until a new actor is ready.
        noise: standard deviation of the logarithm of each actor's time for a fragment.
        deaths_per_hour: of an actor.
    """

    timestep_s: float
    message_s: float = 1e-3
    timestep_bytes: float = 64.0
    node_bytes_s: float = 1.25e9
    driver_s: float = 2e-4
    update_s: float = 3e-3
    weights_bytes: float = 5e4
    start_s: float = 2.0
    noise: float = 0.1
    deaths_per_hour: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """A training to be simulated.

    Args:
        rules: of the planner.
        fragment: timesteps of an environment in a fragment, T.
        envs_per_actor: N.
        batch: fragments of a rollout, K; None for replay.
        queue: batches that may wait.
        update_frequency: timesteps for each update, with replay.
        batch_size: transitions of an update, with replay.
        nodes: that actors are on, in turn; the learner has one of its own.
    """

    rules: Rules
    fragment: int
    envs_per_actor: int
    batch: int | None = 1
    queue: int = 4
    update_frequency: int = 4
    batch_size: int = 64
    nodes: int = 1

    @property
    def timesteps(self) -> int:
        """Of a fragment."""
        return self.fragment * self.envs_per_actor


@dataclasses.dataclass
class Outcome:
    """What was measured in a simulation, after its first tenth.

    Args:
        timesteps_per_s: learned from, or counted.
        updates_per_s: of the learner.
        lag_mean: updates from the weights that acted to the use of a fragment.
        lag_most: the 99th percentile.
        learner_busy: share of the time in which it updates.
        driver_busy: share of the time of the driver's own work, updates left out.
        actors_busy: share of the actors' time.
        samples_per_insert: transitions learned from for each one made.
        deaths: of actors.
        recovery_s: from the loss of a node until nearly as many actors work as before; None without a loss.
        waiting_most: fragments that ever waited at the same time.
    """

    timesteps_per_s: float
    updates_per_s: float
    lag_mean: float
    lag_most: float
    learner_busy: float
    driver_busy: float
    actors_busy: float
    samples_per_insert: float
    deaths: int
    recovery_s: float | None
    waiting_most: int


class Simulation:
    """One training.

    Args:
        plan: what is trained.
        costs: what each part takes.
        seconds: of virtual time.
        seed: of what is drawn: times and deaths.
        lose_node_at: when the actors of one node die; None for never.
        pause: when the learner pauses, and for how long: a checkpoint.
    """

    def __init__(
        self,
        plan: Plan,
        costs: Costs,
        seconds: float,
        *,
        seed: int = 0,
        lose_node_at: float | None = None,
        pause: tuple[float, float] | None = None,
    ) -> None:
        self._plan, self._costs, self._end = plan, costs, seconds
        self._rng = np.random.default_rng(seed)
        self._planner = Planner(plan.rules, 0.0)
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = itertools.count()
        self._now = 0.0
        self._free = [0.0] * plan.rules.actors
        """When each actor will have made what it was asked for."""
        self._link = [0.0] * plan.nodes
        self._version, self._held = 0, [0] * plan.nodes
        self._versions: dict[FragmentId, int] = {}
        self._waiting: list[FragmentId] = []
        self._driver_free = 0.0
        self._due = 0.0
        self._from = seconds / 10
        self._lags: list[int] = []
        self._busy = {"learner": 0.0, "driver": 0.0, "actors": 0.0}
        self._learned = self._updated = self._waiting_most = self._deaths = 0
        self._waking = False
        self._lost_at, self._before = lose_node_at, 0
        self._recovered_at: float | None = None
        if lose_node_at is not None:
            self._at(lose_node_at, self._lose_node)
        if pause is not None:
            self._at(pause[0], self._pause, pause[1])

    def run(self) -> Outcome:
        """To the end."""
        self._at(0.0, self._tick)
        while self._events and self._events[0][0] <= self._end:
            self._now, _, event, arguments = heapq.heappop(self._events)
            event(*arguments)
        measured, actors = self._end - self._from, self._plan.rules.actors
        lags = self._lags or [0]
        recovery = None
        if self._lost_at is not None:
            recovery = (self._end if self._recovered_at is None else self._recovered_at) - self._lost_at
        return Outcome(
            timesteps_per_s=self._learned / measured,
            updates_per_s=self._updated / measured,
            lag_mean=statistics.fmean(lags),
            lag_most=float(np.percentile(lags, 99)),
            learner_busy=self._busy["learner"] / measured,
            driver_busy=self._busy["driver"] / measured,
            actors_busy=self._busy["actors"] / measured / actors,
            samples_per_insert=self._samples_per_insert(),
            deaths=self._deaths,
            recovery_s=recovery,
            waiting_most=self._waiting_most,
        )

    def _samples_per_insert(self) -> float:
        if self._plan.batch is not None or not self._learned:
            return 1.0
        return self._updated * self._plan.batch_size / self._learned

    # -- time ---------------------------------------------------------------------------------------------------------

    def _at(self, when: float, event: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self._events, (when, next(self._order), event, arguments))

    def _spend(self, part: str, begin: float, end: float, share: float = 1.0) -> None:
        self._busy[part] += max(min(end, self._end) - max(begin, self._from), 0.0) * share

    def _drive(self, seconds: float, part: str) -> float:
        """The driver's process is one thread; returns when it is done."""
        begin = max(self._now, self._driver_free)
        self._driver_free = begin + seconds
        self._spend(part, begin, self._driver_free)
        return self._driver_free

    # -- events -------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        """The driver's loop: start, ask, look after actors; again when something comes, or after a second."""
        planner = self._planner
        for actor in planner.to_start(self._now):
            self._at(self._now + self._costs.start_s, self._ready, actor.index, actor.incarnation)
        self._ask()
        for index, incarnation in planner.overdue(self._now):
            self._die(index, incarnation)
        self._at(self._now + 1.0, self._tick)

    def _ready(self, index: int, incarnation: int) -> None:
        if not self._planner.started(index, incarnation, self._now):
            return
        self._free[index] = self._now
        if self._costs.deaths_per_hour:
            after = float(self._rng.exponential(3600 / self._costs.deaths_per_hour))
            self._at(self._now + after, self._die, index, incarnation)
        alive = self._planner.alive()
        if self._lost_at is not None and self._recovered_at is None and self._now > self._lost_at:
            self._recovered_at = self._now if alive >= _RECOVERED * self._before else None
        self._ask()

    def _ask(self) -> None:
        if not self._planner.may_begin():
            return
        plan, costs = self._plan, self._costs
        in_flight = self._planner.in_flight()
        room = plan.rules.actors * plan.rules.in_flight - in_flight
        if plan.batch is not None:
            room = (plan.queue + 1) * plan.batch - len(self._waiting) - in_flight
        for fragment in self._planner.requests(max(room, 0), self._now):
            index = fragment.actor
            node = index % plan.nodes
            begin = max(self._free[index], self._now)
            if self._held[node] != self._version:  # once for all actors of a node
                self._held[node] = self._version
                self._link[node] = max(self._link[node], begin) + costs.weights_bytes / costs.node_bytes_s
            takes = costs.timestep_s * plan.timesteps * float(np.exp(self._rng.normal(0.0, costs.noise)))
            self._free[index] = done = begin + takes
            self._spend("actors", begin, done)
            self._at(begin, self._begin, fragment)
            self._at(done, self._send, fragment)

    def _begin(self, fragment: FragmentId) -> None:
        self._versions[fragment] = self._version

    def _send(self, fragment: FragmentId) -> None:
        node, costs = fragment.actor % self._plan.nodes, self._costs
        sent = costs.timestep_bytes * self._plan.timesteps / costs.node_bytes_s
        self._link[node] = max(self._link[node], self._now) + sent
        self._at(self._link[node] + costs.message_s, self._arrive, fragment)

    def _arrive(self, fragment: FragmentId) -> None:
        version = self._versions.pop(fragment, 0)
        if not self._planner.answered(fragment, self._now):
            return
        self._versions[fragment] = version
        self._waiting.append(fragment)
        self._waiting_most = max(self._waiting_most, len(self._waiting))
        self._drive(self._costs.driver_s, "driver")
        self._ask()
        self._wake()

    def _wake(self) -> None:
        """The learner looks as soon as its thread is free."""
        if not self._waking:
            self._waking = True
            self._at(max(self._now, self._driver_free), self._learn)

    def _learn(self) -> None:
        """One batch, or the updates that one fragment makes due."""
        plan, self._waking = self._plan, False
        if self._driver_free > self._now:
            self._wake()
            return
        size = plan.batch or 1
        if len(self._waiting) < size:
            return
        taken, self._waiting = self._waiting[:size], self._waiting[size:]
        self._due += 1.0 if plan.batch is not None else plan.timesteps / plan.update_frequency
        whole = int(self._due)
        self._due -= whole
        lags = [self._version - self._versions.pop(one) for one in taken]
        self._at(self._drive(whole * self._costs.update_s, "learner"), self._learned_from, taken, whole, lags)

    def _learned_from(self, taken: list[FragmentId], updates: int, lags: list[int]) -> None:
        self._version += updates
        if self._now > self._from:
            self._lags += lags
            self._learned += len(taken) * self._plan.timesteps
            self._updated += updates
        self._ask()
        self._wake()

    def _die(self, index: int, incarnation: int) -> None:
        if self._planner.ended(index, incarnation, Death(DIED, "it was killed", self._now)):
            self._deaths += 1

    def _lose_node(self) -> None:
        self._before = self._planner.alive()
        for actor in self._planner.actors[:: self._plan.nodes]:
            if actor.status == READY:
                self._die(actor.index, actor.incarnation)

    def _pause(self, seconds: float) -> None:
        self._drive(seconds, "driver")


def table(plans: Sequence[tuple[str, Plan, Costs]], seconds: float) -> str:
    """Outcomes as a Markdown table."""
    rows = [
        "| training | timesteps/s | updates/s | samples per insert | lag, mean and 99 % | learner busy | driver busy |"
        " actors busy |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, plan, costs in plans:
        found = Simulation(plan, costs, seconds).run()
        rows.append(
            f"| {name} | {found.timesteps_per_s:,.0f} | {found.updates_per_s:,.0f} | {found.samples_per_insert:.2f} |"
            f" {found.lag_mean:.1f}, {found.lag_most:.0f} | {found.learner_busy:.0%} | {found.driver_busy:.0%} |"
            f" {found.actors_busy:.0%} |"
        )
    return "\n".join(rows)


def main() -> None:
    """Print a table for several numbers of actors."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--actors", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    costs = Costs(timestep_s=1e-5)
    plans = [
        (
            f"IMPALA, {actors} actors",
            Plan(
                rules=Rules(actors=actors),
                fragment=50,
                envs_per_actor=16,
                batch=max(actors // 4, 1),
                nodes=min(given.nodes, actors),
            ),
            costs,
        )
        for actors in given.actors
    ]
    print(table(plans, given.seconds))


if __name__ == "__main__":
    main()
