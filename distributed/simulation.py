"""Simulated clusters: the real planner, with a virtual clock in place of processes.

Costs are measured or assumed. The simulation predicts timesteps per second, the age of weights when an unroll is
learned from, who waits for whom, and how long it takes until the actors of a lost node work again. It does not learn:
weights are version numbers, unrolls are sizes.
"""

from __future__ import annotations

import dataclasses
import functools
import statistics

import numpy as np

from .machines import Clock, Machine, Thread
from .on_ray_weights import PUBLISH_S
from .planner import DIED, READY, Death, Planner, Window
from .simulation_plan import Costs, Plan
from .unrolls import UnrollId


@dataclasses.dataclass
class Outcome:
    """Results of a simulation, measured after its first tenth.

    Args:
        timesteps_per_s: timesteps learned from, or counted, per second.
        updates_per_s: updates per second.
        lag_mean: updates between an unroll's weights and its use.
        lag_most: 99th percentile of the lag.
        learner_busy: share of the time spent on updates.
        driver_busy: share of the time spent on the driver's other work.
        actors_busy: share of the actors' time spent on unrolls.
        samples_per_insert: transitions learned from per transition collected.
        deaths: number of actors' deaths.
        recovery_s: from the loss of a node until all its actors work again; None without a loss.
        waiting_most: maximum number of unrolls waiting at the same time.
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
    """Simulates one training.

    Args:
        plan: the training.
        costs: the costs of its parts.
        seconds: virtual time.
        seed: for random times and deaths.
        lose_node_at: when the actors of one node die; None for never.
        pause: start and duration of a pause of the learner, such as a checkpoint.
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
        self._planner = Planner(plan.cluster, 0.0)
        self._clock = clock = Clock()
        self._from = seconds / 10
        self._nodes = [Machine(clock, plan.cores, plan.shared) for _ in range(plan.nodes)]
        self._own = self._nodes[0] if plan.together else Machine(clock, plan.cores, plan.shared)
        self._driver = Thread(self._own, clock, self._from)
        self._shards = [
            Thread(self._own if plan.together else Machine(clock, plan.cores, plan.shared), clock)
            for _ in range(plan.cluster.replay_shards)
        ]
        self._actors = [self._actor(index) for index in range(plan.cluster.actors)]
        self._acted = 0.0
        """Seconds used by actors that have ended."""
        self._link = [0.0] * plan.nodes
        self._version = self._published = 0
        self._publish_at = 0.0
        self._held, self._taken = [0] * plan.nodes, [0] * plan.cluster.actors
        self._versions: dict[UnrollId, int] = {}
        self._waiting: list[UnrollId] = []
        self._window = Window(plan.batch or 1, plan.cluster.queue)
        self._due = 0.0
        self._lags: list[int] = []
        self._learned = self._updated = self._waiting_most = self._deaths = 0
        self._learning = 0.0
        self._at_work = False
        self._lost_at, self._missing = lose_node_at, set[int]()
        self._recovered_at: float | None = None
        if lose_node_at is not None:
            clock.at(lose_node_at, self._lose_node)
        if pause is not None:
            clock.at(pause[0], self._driver.work, lambda: (pause[1], 0.0), _nothing)

    def _actor(self, index: int) -> Thread:
        return Thread(self._nodes[index % self._plan.nodes], self._clock, self._from)

    def run(self) -> Outcome:
        """Run the simulation to its end."""
        self._clock.at(0.0, self._tick)
        self._clock.run(self._end)
        measured, actors = self._end - self._from, self._plan.cluster.actors
        lags = self._lags or [0]
        recovery = None
        if self._lost_at is not None:
            recovery = (self._end if self._recovered_at is None else self._recovered_at) - self._lost_at
        samples = 1.0
        if self._plan.batch is None and self._learned:
            samples = self._updated * self._plan.batch_size / self._learned
        acted = self._acted + sum(thread.busy for thread in self._actors)
        return Outcome(
            timesteps_per_s=self._learned / measured,
            updates_per_s=self._updated / measured,
            lag_mean=statistics.fmean(lags),
            lag_most=float(np.percentile(lags, 99)),
            learner_busy=self._learning / measured,
            driver_busy=(self._driver.busy - self._learning) / measured,
            actors_busy=acted / measured / actors,
            samples_per_insert=samples,
            deaths=self._deaths,
            recovery_s=recovery,
            waiting_most=self._waiting_most,
        )

    # -- actors -------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        """One iteration of the driver: start, ask and supervise actors; repeated on each event, or after a second."""
        planner, clock = self._planner, self._clock
        for actor in planner.to_start(clock.now):
            clock.at(clock.now + self._costs.start_s, self._ready, actor.index, actor.incarnation)
        self._ask()
        for index, incarnation in planner.overdue(clock.now):
            self._die(index, incarnation)
        clock.at(clock.now + 1.0, self._tick)

    def _ready(self, index: int, incarnation: int) -> None:
        clock = self._clock
        if not self._planner.started(index, incarnation, clock.now):
            return
        self._acted += self._actors[index].busy
        self._actors[index] = self._actor(index)  # drops requests to the previous one
        if self._costs.deaths_per_hour:
            after = float(self._rng.exponential(3600 / self._costs.deaths_per_hour))
            clock.at(clock.now + after, self._die, index, incarnation)
        if index in self._missing:
            self._missing.remove(index)
            self._recovered_at = None if self._missing else clock.now
        self._ask()

    def _ask(self) -> None:
        if not self._planner.may_begin():
            return
        plan = self._plan
        in_flight = self._planner.in_flight()
        most = plan.cluster.actors * plan.cluster.in_flight
        room = 0 if self._waiting or self._at_work else most - in_flight
        if plan.batch is not None:
            room = self._window.room(len(self._waiting), in_flight, most)
        for unroll in self._planner.requests(max(room, 0), self._clock.now):
            begin, sent = functools.partial(self._begin, unroll), functools.partial(self._send, unroll)
            self._actors[unroll.actor].work(begin, sent)

    def _begin(self, unroll: UnrollId) -> tuple[float, float]:
        """Start an unroll; the newest weights are fetched once per node."""
        costs, node, now = self._costs, unroll.actor % self._plan.nodes, self._clock.now
        wait = 0.0
        if self._held[node] != self._published:
            self._held[node] = self._published
            self._link[node] = max(self._link[node], now) + costs.weights_bytes / costs.node_bytes_s
            wait = self._link[node] - now
        if self._taken[unroll.actor] != self._published:
            self._taken[unroll.actor] = self._published
            wait += costs.fetch_s
        self._versions[unroll] = self._published
        seconds = costs.unroll_s + costs.timestep_s * self._plan.timesteps
        return wait, seconds * float(np.exp(self._rng.normal(0.0, costs.noise)))

    def _send(self, unroll: UnrollId) -> None:
        clock, costs, node = self._clock, self._costs, unroll.actor % self._plan.nodes
        sent = costs.timestep_bytes * self._plan.timesteps / costs.node_bytes_s
        self._link[node] = max(self._link[node], clock.now) + sent
        if costs.ray_s:
            self._own.work(costs.ray_s, _nothing)
        clock.at(self._link[node] + costs.message_s, self._arrive, unroll)

    def _arrive(self, unroll: UnrollId) -> None:
        """Deliver an unroll to the driver, or to a shard, which notifies the driver."""
        if self._plan.batch is not None:
            self._receive(unroll)
        else:
            shard = self._shards[unroll.actor % len(self._shards)]
            lanes = -(-self._plan.cluster.actors // len(self._shards)) * self._plan.cluster.envs_per_actor
            seconds = self._costs.insert_s + self._costs.insert_lane_s * lanes
            shard.work(lambda: (0.0, seconds), lambda: self._receive(unroll))

    # -- the driver ---------------------------------------------------------------------------------------------------

    def _receive(self, unroll: UnrollId) -> None:
        self._driver.work(lambda: (0.0, self._costs.driver_s), lambda: self._take(unroll))

    def _take(self, unroll: UnrollId) -> None:
        version = self._versions.pop(unroll, 0)
        if not self._planner.answered(unroll, self._clock.now):
            return
        self._versions[unroll] = version
        self._waiting.append(unroll)
        self._waiting_most = max(self._waiting_most, len(self._waiting))
        self._learn()
        self._ask()

    def _learn(self) -> None:
        """Use one batch, or make the updates that one unroll requires."""
        plan = self._plan
        size = plan.batch or 1
        if self._at_work or len(self._waiting) < size:
            return
        self._at_work = True
        taken, self._waiting = self._waiting[:size], self._waiting[size:]
        self._due += 1.0 if plan.batch is not None else plan.timesteps / plan.update_frequency
        whole = int(self._due)
        self._due -= whole
        lags = [self._version - self._versions.pop(one) for one in taken]
        self._update(taken, whole, whole, lags)

    def _update(self, taken: list[UnrollId], left: int, whole: int, lags: list[int]) -> None:
        """Make the next due update. Its batch is drawn during the previous update."""
        if not left:
            self._learned_from(taken, whole, lags)
            return
        parts, began = 1 if self._plan.batch is not None else 2, 0.0

        def begin() -> tuple[float, float]:
            nonlocal began
            began = self._clock.now
            return 0.0, self._costs.update_s

        def learned() -> None:
            self._learning += max(self._clock.now - max(began, self._from), 0.0)
            self._version += 1
            self._publish()
            done()

        def done() -> None:
            nonlocal parts
            parts -= 1
            if not parts:
                self._update(taken, left - 1, whole, lags)

        self._driver.work(begin, learned)
        if self._plan.batch is None:
            shard = self._shards[int(self._rng.integers(len(self._shards)))]
            shard.work(lambda: (0.0, self._costs.sample_s), done)

    def _learned_from(self, taken: list[UnrollId], updates: int, lags: list[int]) -> None:
        self._at_work = False
        if self._clock.now > self._from:
            self._lags += lags
            self._learned += len(taken) * self._plan.timesteps
            self._updated += updates
        self._ask()
        self._learn()

    def _publish(self) -> None:
        """Publish the newest weights, now or when due."""
        clock = self._clock
        if self._published != self._version and clock.now >= self._publish_at:
            self._published, self._publish_at = self._version, clock.now + PUBLISH_S
            clock.at(self._publish_at, self._publish)

    # -- failures -----------------------------------------------------------------------------------------------------

    def _die(self, index: int, incarnation: int) -> None:
        if self._planner.ended(index, incarnation, Death(DIED, "it was killed", self._clock.now)):
            self._deaths += 1

    def _lose_node(self) -> None:
        for actor in self._planner.actors[:: self._plan.nodes]:
            if actor.status == READY:
                self._missing.add(actor.index)
                self._die(actor.index, actor.incarnation)


def _nothing() -> None:
    """Callback of work that is not awaited."""
