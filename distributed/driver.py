"""The learner's process: requests unrolls from actors, learns from them, and publishes weights."""

from __future__ import annotations

import dataclasses
import functools
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..core.errors import ArgumentError, ClusterError
from ..core.protocols import SpecTree
from ..environments.statistics import merge
from ..estimators.interrupts import IDLE
from ..estimators.interrupts import RUNNING as ATOMIC
from ..estimators.limits import Limits
from ..explorations import EpsilonGreedy
from .actor import ActorSpec
from .apex_epsilons import apex_epsilons
from .environment_recipes import EnvironmentRecipe
from .events import Backend, Collected, Event, Gone, Lost, NodeLostError, Started
from .inline import Inline
from .learner import Episodes, FromReplay, FromRollouts, LearnerInput
from .learner_memory import actors_of_shards, checked_resize
from .measurements import Measures
from .planner import DAMAGED, SILENT, Death, Planner
from .replay import NOTHING, Shard, ShardedReplay, ShardPlan
from .settings import RUNNING
from .unrolls import Request, nbytes_of, why_damaged

if TYPE_CHECKING:
    from ..estimators.model import Model
    from ..estimators.session import MonitoredSession
    from ..estimators.trainer import Trainer
    from ..policies.actor import ActorProgram
    from ..run_dir.snapshot import PolicySnapshot
    from .settings import Settings

logger = logging.getLogger("axonrl")
_LOOK_S: Final = 1.0
"""Seconds to wait for events before checking for overdue answers."""
_MEASURE_S: Final = 1.0
"""Seconds between two measurements."""


class Driver:
    """Trains from the unrolls of actors.

    Args:
        cluster: the settings.
        recipe: how actors make environments.
        session: receives events.
        trainer: owner of the state that is trained.
        model: the actors' policy.
        memory: the learner's memory.
        limits: when the run ends.
    """

    def __init__(
        self,
        cluster: Settings,
        recipe: EnvironmentRecipe,
        session: MonitoredSession,
        trainer: Trainer,
        model: Model,
        memory: Any,
        limits: Limits,
    ) -> None:
        self._cluster, self._recipe, self._session, self._limits = cluster, recipe, session, limits
        self._state = state = trainer.state()
        self._stepper = state.stepper
        self._transition: Mapping[str, SpecTree] = trainer.parts().transition
        self._program = _program(model, state.snapshot(), cluster.actor_runtime)
        self.planner = Planner(cluster, time.monotonic(), tuple(map(int, state.cluster.get("incarnations", ()))))
        self._round: list[Collected] = []
        self._saves = session.saves
        self._measured_at = time.perf_counter()
        self._wide = cluster.unroll * cluster.envs_per_actor
        self._epsilons = None
        if cluster.ladder is not None and type(self._program.predict.exploration) is EpsilonGreedy:
            every = apex_epsilons(cluster.environments, *cluster.ladder)
            self._epsilons = every.reshape(cluster.actors, cluster.envs_per_actor)
            session.cluster_exploration = float(every.mean())
        self._memory, shards = memory, memory if isinstance(memory, ShardedReplay) else None
        self._shards = shards
        self._measures = Measures(self.planner, self._wide, shards, self._epsilons)
        episodes = Episodes(session, cluster.envs_per_actor)
        self.backend: Backend
        kind, batch = (FromReplay, 1) if shards is not None else (FromRollouts, memory.size // self._wide)
        self.learning: LearnerInput = kind(session, self._stepper, cluster, batch, episodes, self._measures)

    def run(self) -> None:
        """Connect, and train until a limit is reached or a hook stops; always disconnect."""
        self.backend = self._connect()
        saves = False
        vars(self._cluster)[RUNNING] = self
        try:
            if self._shards is not None:
                self._shards.connect(self.backend.shards)
            self._train()
            saves = True
        except KeyboardInterrupt:
            saves = True
            raise
        except ClusterError as error:
            self._rescue(error)
            raise
        finally:
            vars(self._cluster).pop(RUNNING, None)
            self._close(saves)

    def _close(self, saves: bool) -> None:
        """Disconnect; Ctrl-C waits until the shards' contents are fetched. Without them there is nothing to save."""
        interrupts = self._session.loop.interrupts
        if interrupts.phase != IDLE:
            self.backend.close(saves=False)
            return
        interrupts.phase = ATOMIC
        self.backend.close(saves=saves)
        interrupts.release()

    def resize(self, actors: int) -> None:
        """See ``Cluster.resize``."""
        self.planner.resize(checked_resize(self._cluster, self._memory, actors), time.monotonic())
        self.learning.most = actors * self._cluster.in_flight

    def _rescue(self, error: ClusterError) -> None:
        """Try to save a last checkpoint after the cluster failed; shards are included if they still answer."""
        shards_gone = isinstance(error, NodeLostError) and self._shards is not None
        if self.planner.counts["accepted"] and not shards_gone:
            try:
                self._session.save_checkpoint()
            except Exception as failure:
                logger.warning("no last checkpoint could be saved: %s", failure)

    def _train(self) -> None:
        begun = False
        self._learn()  # updates left over by a run that was killed at an evaluation's checkpoint
        self._saves = self._session.saves  # no actor has begun before these checkpoints
        while self._session.stop_reason is None:
            self._start()
            begun = begun or self.planner.may_begin()
            if self._cluster.lockstep:
                self._ask_all()
            elif begun:
                self._ask()
            began = time.perf_counter()
            events = self.backend.wait(_LOOK_S)
            waited = time.perf_counter()
            self._session.timings.environment += waited - began
            for event in events:
                self._take(event)
            self._learn()
            now = time.monotonic()
            # Actors in this process act in turn: the last one's answer takes as long as those of all.
            for index, incarnation in () if self._cluster.backend == "inline" else self.planner.overdue(now):
                self._replace(Gone(index, incarnation, SILENT, "it did not answer in time"))
            if (why := self.planner.hopeless(now)) is not None:
                raise ClusterError(why)
            self._measure(waited - began, time.perf_counter() - waited)

    # -- actors -------------------------------------------------------------------------------------------------------

    def _connect(self) -> Backend:
        cluster, plans, width = self._cluster, [], self._cluster.envs_per_actor
        if self._shards is not None:
            for index, actors in enumerate(actors_of_shards(cluster)):
                part, length = self._shards.part(index), cluster.unroll
                plans.append(ShardPlan(part, self._transition, actors, width, index, self._seed, length))
        if cluster.backend == "inline":
            return Inline([*map(Shard, plans)])
        from .on_ray import OnRay

        return OnRay(cluster, plans, nbytes_of(self._transition, cluster.unroll, width))

    @property
    def _seed(self) -> int:
        return self._session.config.seed or 0

    def _start(self) -> None:
        cluster, planner = self._cluster, self.planner
        for actor in planner.to_end(time.monotonic()):
            self.backend.kill(actor.index)
        if not (starting := planner.to_start(time.monotonic())):
            return
        # The newest weights and statistics, as in a run resumed here: weights that are taken later bring their own
        # statistics, without what the first observations have added.
        version, weights = self._stepper.counters.global_step, self._stepper.executor.get_predict_weights()
        program = dataclasses.replace(self._program, version=version, weights=weights)
        for actor in starting:
            whole = None if self._shards is None else self._shards.whole
            made = ActorSpec(
                actor=actor.index,
                incarnation=actor.incarnation,
                program=program,
                environment=functools.partial(self._recipe.several, cluster.envs_per_actor),
                transition=self._transition,
                length=cluster.unroll,
                run_seed=self._seed,
                statistics=self._state.statistics,
                n_step=whole.n_step if whole is not None and whole.needs_td_error else None,
                discount=1.0 if whole is None else whole.discount,
                epsilons=None if self._epsilons is None else self._epsilons[actor.index % cluster.actors],
            )
            self.backend.start(made)
        self._state.cluster = {"incarnations": np.array(planner.incarnations()), **cluster.shape()}

    def _ask(self) -> None:
        planner, learning = self.planner, self.learning
        room = learning.room(planner.in_flight())
        if self._limits.timesteps is not None:
            left = self._limits.timesteps - self._stepper.counters.global_timestep
            needed = -(-left // learning.least) * learning.least  # a partial batch is never used: waiting would not end
            missing = needed - learning.waiting() - planner.in_flight() * self._wide
            room = min(room, -(-missing // self._wide))
        self._request(max(room, 0))

    def _ask_all(self) -> None:
        """Request an unroll from every actor, with the same weights, once the last round was used: for lockstep.

        After a checkpoint all actors restart, as they do in a run resumed from it.
        """
        planner = self.planner
        if self._session.saves != self._saves and not planner.in_flight():
            self._saves = self._session.saves
            self.learning.forget()
            for actor in planner.renew(time.monotonic()):
                self.backend.kill(actor.index)
            self._start()
        if planner.in_flight() or planner.alive() < self._cluster.actors:
            return
        self._request(self._cluster.actors)

    def _request(self, number: int) -> None:
        counters, progress = self._stepper.counters, self._stepper.progress
        for unroll in self.planner.requests(number, time.monotonic()):
            self.backend.ask(Request(unroll, counters.global_step, counters.global_timestep, progress))

    def _take(self, event: Event) -> None:
        now = time.monotonic()
        if isinstance(event, Gone):
            self._replace(event)
        elif isinstance(event, Started):
            if not self.planner.started(event.actor, event.incarnation, now):
                self.backend.kill(event.actor)
        elif isinstance(event, Collected):
            self._receive(event, now)
        elif isinstance(event, Lost):
            self.planner.lost(event.id, now)
        else:
            self._memory.held[event.shard] = NOTHING
            self.planner.counts["shards_lost"] += 1
            logger.warning("replay shard %d is lost, with its contents: %s", event.shard, event.message)
        if not self._cluster.lockstep or not self.planner.in_flight():
            for one in sorted(self._round, key=lambda one: one.head.id):
                self.learning.take(one)
            self._round.clear()

    def _receive(self, event: Collected, now: float) -> None:
        """Accept an unroll that arrived here or in a shard, if it is intact and expected."""
        made, unroll, cluster = event.head.id, event.unroll, self._cluster
        if event.inserted is not None:  # at once, even in lockstep: a later event may empty the shard
            self._memory.held[event.inserted.shard] = event.inserted.stored
        why = None
        if unroll is not None:
            why = why_damaged(unroll, self._transition, cluster.unroll, cluster.envs_per_actor)
        if why is not None:
            self._replace(Gone(made.actor, made.incarnation, DAMAGED, why))
        elif self.planner.answered(made, now):
            self._round.append(event)
            if event.head.learnt and self._state.statistics:
                self._state.statistics = merge(self._state.statistics, event.head.learnt)

    def _replace(self, gone: Gone) -> None:
        if self.planner.ended(gone.actor, gone.incarnation, Death(gone.kind, gone.message, time.monotonic())):
            self.planner.counts["damaged"] += gone.kind == DAMAGED
            self.backend.kill(gone.actor)
            logger.warning("actor %d %s: %s", gone.actor, gone.kind, gone.message)

    def _measure(self, waited: float, worked: float) -> None:
        self._measures.passed(waited, worked)
        if (now := time.perf_counter()) - self._measured_at > _MEASURE_S:
            self._measured_at = now
            if numbers := self._measures.read():
                self._session.timings.distributed = numbers

    # -- learning -----------------------------------------------------------------------------------------------------

    def _learn(self) -> None:
        for work in self.learning.due():
            before, began = self._stepper.counters.global_step, time.monotonic()
            self._session.run_guarded(work, self.learning.learn_pending)
            if (blind := time.monotonic() - began - _LOOK_S) > 0:  # an evaluation, say
                self.planner.paused(blind)
            step = self._stepper.counters.global_step
            if step > before:
                self.planner.moved(time.monotonic())
                weights = self._stepper.executor.get_predict_weights()
                self.backend.publish(step, weights, self._state.statistics)
            if self._session.stop_reason is not None:
                return
            if not self._cluster.lockstep:
                self._ask()  # actors must not idle until all batches are used
            elif self._session.saves != self._saves:
                return  # a run resumed from this checkpoint has no unrolls either


def _program(model: Model, policy: PolicySnapshot, runtime: str) -> ActorProgram:
    try:
        return model.actor(policy, runtime)
    except ValueError as error:
        hint = "" if runtime != "litert" else ". Cluster(actor_runtime='tensorflow') loads TensorFlow in every actor"
        raise ArgumentError(
            f"actors cannot act with this model: {error}{hint}", "Cluster.actor_runtime", runtime
        ) from error
