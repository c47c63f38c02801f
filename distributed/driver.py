"""The learner's process: asks actors for fragments, learns from them, and publishes weights."""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..contracts import SpecTree
from ..errors import ArgumentError, ClusterError
from ..estimators.lanes import Lanes
from ..estimators.limits import Goal, Limits, Schedule
from ..facts import EpisodeStats, TimestepFacts
from .backends.events import Backend, Collected, Event, Gone, Started
from .backends.inline import Inline
from .collecting import Collecting
from .fragments import Fragment, Request, side_by_side, why_damaged
from .ladder import ladder
from .planner import DAMAGED, SILENT, Death, Planner
from .recipes import Recipe, recipe_of, refuse_unsuitable

if TYPE_CHECKING:
    from ..estimators.model import Model
    from ..estimators.session import MonitoredSession
    from ..estimators.state import TrainingState
    from ..estimators.trainer import Trainer
    from .cluster import Cluster

logger = logging.getLogger("axonrl")
_LOOK_S: Final = 1.0
"""How long nothing may happen before overdue answers are looked for."""


def train(
    cluster: Cluster,
    trainer: Trainer,
    model: Model,
    env: Any,
    hooks: Sequence[Any],
    schedule: Schedule,
    goal: Goal,
) -> None:
    """As ``Agent.train`` with a cluster.

    Raises:
        ArgumentError: the environment, the memory or the model cannot be used in a cluster; says what can.
        ClusterError: actors cannot work, or nothing moves any more.
    """
    recipe, memory = recipe_of(env), trainer.needed_memory()
    if not memory.fills_and_empties:
        raise ArgumentError("a cluster trains with a BatchMemory", "memory", memory)
    with contextlib.ExitStack() as closing:
        opened = recipe.several(1)
        closing.callback(opened.close)
        refuse_unsuitable(recipe, opened)
        wide = cluster.fragment * cluster.envs_per_actor
        size = int(getattr(memory, "size", 0))
        if size % wide:
            raise ArgumentError(
                f"the size of the memory must be a multiple of a fragment's {cluster.fragment} * {cluster.envs_per_actor}"
                f" timesteps (Cluster.fragment, Cluster.envs_per_actor), got size={size}",
                "memory",
                size,
            )
        spaces = opened.observation_space, opened.action_space
        lanes = Lanes(*spaces, size // cluster.fragment, source=recipe.one() if not isinstance(env, str) else env)
        over = trainer.over(lanes, hooks, schedule, endless=not goal.is_given)
        session = closing.enter_context(over)
        limits = goal.limits(session)
        if (reason := limits.reached(session)) is not None:
            logger.info("nothing to train: %s", reason)
            return
        backend = _backend(cluster)
        closing.callback(backend.close)
        with session.monitored(limits):
            state, transition = trainer.state(), trainer.transition()
            Driver(cluster, recipe, session, state, model, transition, backend, limits, size // wide).run()


def _backend(cluster: Cluster) -> Backend:
    if cluster.backend == "inline":
        return Inline()
    raise ArgumentError("Ray is not there yet", "Cluster.backend", cluster.backend)


class Driver:
    """Training from the fragments of actors.

    Args:
        cluster: the settings.
        recipe: of the environments.
        session: is told what happens.
        state: what is trained.
        model: what actors act with.
        transition: specs of one environment's transition.
        backend: where they are.
        limits: where the run ends.
        batch: fragments in a batch, K.
    """

    def __init__(
        self,
        cluster: Cluster,
        recipe: Recipe,
        session: MonitoredSession,
        state: TrainingState,
        model: Model,
        transition: Mapping[str, SpecTree],
        backend: Backend,
        limits: Limits,
        batch: int,
    ) -> None:
        self._cluster, self._recipe, self._session, self._state = cluster, recipe, session, state
        self._backend, self._limits, self._batch = backend, limits, batch
        self._stepper = state.stepper
        self._planner = Planner(cluster.rules(), time.monotonic(), tuple(state.cluster.get("incarnations", ())))
        self._waiting: list[Fragment] = []
        self._program = model.actor(state.snapshot())
        self._transition = transition
        self._begun = False
        self._asked = self._stepper.counters.global_timestep
        """Timesteps that were taken or asked for."""
        self._losses: dict[tuple[int, int], tuple[int, float]] = {}
        self._loss_sum, self._updates = 0.0, 0
        self._epsilons = None
        if cluster.ladder is not None:
            every = ladder(cluster.actors * cluster.envs_per_actor, *cluster.ladder)
            self._epsilons = every.reshape(cluster.actors, cluster.envs_per_actor)

    def run(self) -> None:
        """Until a limit is reached, or a hook asks to stop."""
        session, planner = self._session, self._planner
        while session.stop_reason is None:
            now = time.monotonic()
            for actor in planner.to_start(now):
                self._backend.start(self._made(actor.index, actor.incarnation))
            self._state.cluster = {"incarnations": np.array([actor.incarnation for actor in planner.actors])}
            self._begun = self._begun or planner.may_begin()
            if self._begun:
                self._ask(now)
            for event in self._backend.wait(_LOOK_S):
                self._take(event)
            self._learn()
            now = time.monotonic()
            for index, incarnation in planner.overdue(now):
                self._give_up(Gone(index, incarnation, SILENT, "it did not answer in time"), now)
            if (why := planner.hopeless(now)) is not None:
                raise ClusterError(why)

    # -- asking -------------------------------------------------------------------------------------------------------

    def _made(self, actor: int, incarnation: int) -> Collecting:
        cluster = self._cluster
        return Collecting(
            actor=actor,
            incarnation=incarnation,
            program=self._program,
            environment=functools.partial(self._recipe.several, cluster.envs_per_actor),
            transition=self._transition,
            length=cluster.fragment,
            run_seed=self._session.config.seed or 0,
            epsilons=None if self._epsilons is None else self._epsilons[actor],
        )

    def _ask(self, now: float) -> None:
        planner, batch = self._planner, self._batch
        room = (self._cluster.queue + 1) * batch - len(self._waiting) - planner.in_flight()
        wide = self._cluster.fragment * self._cluster.envs_per_actor
        counters = self._stepper.counters
        if self._limits.timesteps is not None:
            left = self._limits.timesteps - counters.global_timestep - (len(self._waiting) + planner.in_flight()) * wide
            room = min(room, -(-left // wide))
        for fragment in planner.requests(max(room, 0), now):
            progress = self._stepper.progress
            request = Request(fragment, counters.global_step, counters.global_timestep, progress)
            self._backend.ask(request)

    # -- taking -------------------------------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        now = time.monotonic()
        if isinstance(event, Started):
            if not self._planner.started(event.actor, event.incarnation, now):
                self._backend.kill(event.actor)
        elif isinstance(event, Gone):
            self._give_up(event, now)
        elif isinstance(event, Collected):
            self._take_fragment(event.fragment, now)

    def _take_fragment(self, fragment: Fragment, now: float) -> None:
        made = fragment.head.id
        why = why_damaged(fragment, self._transition, self._cluster.fragment, self._cluster.envs_per_actor)
        if why is not None:
            self._give_up(Gone(made.actor, made.incarnation, DAMAGED, why), now)
        elif self._planner.answered(made, now):
            self._waiting.append(fragment)

    def _give_up(self, gone: Gone, now: float) -> None:
        if self._planner.ended(gone.actor, gone.incarnation, Death(gone.kind, gone.message, now)):
            self._backend.kill(gone.actor)
            logger.warning("actor %d %s: %s", gone.actor, gone.kind, gone.message)

    # -- learning -----------------------------------------------------------------------------------------------------

    def _learn(self) -> None:
        while len(self._waiting) >= self._batch and self._session.stop_reason is None:
            step, oldest = self._stepper.counters.global_step, self._cluster.max_lag
            if oldest is not None:
                fresh = [one for one in self._waiting if step - one.head.version <= oldest]
                self._planner.counts["stale"] += len(self._waiting) - len(fresh)
                self._waiting = fresh
                if len(fresh) < self._batch:
                    return
            taken, self._waiting = self._waiting[: self._batch], self._waiting[self._batch :]
            self._session.guarded(lambda taken=taken: self._store_and_learn(taken))
            self._planner.moved(time.monotonic())
            self._backend.publish(self._stepper.counters.global_step, self._stepper.executor.get_predict_weights())

    def _store_and_learn(self, fragments: Sequence[Fragment]) -> None:
        """One batch: its timesteps are stored and counted, its episodes told, and what is due is learned."""
        stepper, monitor = self._stepper, self._session.monitor
        rows = side_by_side(fragments)
        for t in range(self._cluster.fragment):
            stepper.store(_at(rows, t))
        now = time.perf_counter()
        listeners = monitor.listeners(now, now, now)
        if listeners:
            names = ("observation", "action", "reward", "terminated", "truncated", "next_observation")
            facts = TimestepFacts(*(rows[name] for name in names))
            monitor.tell(listeners, *facts[:2], facts[2:5], facts.next_observation)
        monitor.learn()
        for fragment in fragments:
            head = fragment.head
            for one in head.episodes:
                environment = head.id.actor * self._cluster.envs_per_actor + one.environment
                monitor.counted(
                    EpisodeStats(
                        one.episode_return,
                        one.length,
                        one.terminated,
                        one.truncated,
                        float("nan"),
                        float(head.exploration[one.environment]),
                        one.seconds,
                        environment,
                    )
                )


def _at(tree: Any, t: int) -> Any:
    return {key: _at(value, t) for key, value in tree.items()} if isinstance(tree, dict) else tree[t]
