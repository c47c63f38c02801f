"""The learner's process: requests unrolls from actors, learns from them, and publishes weights."""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..core.errors import ArgumentError, ClusterError
from ..core.protocols import SpecTree
from ..environments.merged_statistics import merged
from ..estimators.experience_sources import Lanes
from ..estimators.limits import Goal, Limits, UpdateSchedule
from ..explorations import EpsilonGreedy
from ..hooks.hook import Hooks
from .actor import ActorSpec
from .apex_epsilons import apex_epsilons
from .environment_recipes import EnvironmentRecipe, recipe_of, refuse_unsuitable
from .events import Collected, Event, Gone, Lost, NodeLostError, Started
from .inline import Inline
from .learner import Episodes, FromReplay, FromRollouts, LearnerInput
from .learner_memory import actors_of_shards, checked_resize, make_learner_memory
from .measurements import Measures
from .planner import DAMAGED, SILENT, Death, Planner
from .replay import ShardedReplay, ShardPlan
from .settings import RUNNING
from .unrolls import Request, nbytes_of, why_damaged

if TYPE_CHECKING:
    from ..estimators.model import Model
    from ..estimators.session import MonitoredSession
    from ..estimators.state import TrainingState
    from ..estimators.stepper import Stepper
    from ..estimators.trainer import Trainer
    from ..policies.actor import ActorProgram
    from ..run_dir.snapshot import PolicySnapshot
    from .settings import Settings

logger = logging.getLogger("axonrl")
_SHAPE: Final = ("actors", "envs_per_actor", "unroll", "replay_shards")
_LOOK_S: Final = 1.0
"""Seconds to wait for events before checking for overdue answers."""
_MEASURE_S: Final = 1.0
"""Seconds between two measurements."""


def train(
    cluster: Settings,
    trainer: Trainer,
    model: Model,
    env: Any,
    hooks: Hooks,
    schedule: UpdateSchedule,
    goal: Goal,
) -> None:
    """Train as ``Agent.train`` with a cluster.

    Raises:
        ArgumentError: the environment, memory or model cannot be used in a cluster; the message says what can.
        ClusterError: actors cannot work, or the training has stalled.
    """
    recipe, memory = recipe_of(env), make_learner_memory(cluster, trainer.needed_memory())
    with contextlib.ExitStack() as closing:
        opened = recipe.several(1)
        closing.callback(opened.close)
        refuse_unsuitable(recipe, opened)
        number = cluster.actors * cluster.envs_per_actor
        if not isinstance(memory, ShardedReplay):
            number = memory.size // cluster.unroll
        source = env if isinstance(env, str) else opened.env
        lanes = Lanes(opened.observation_space, opened.action_space, number, source=source, like=opened)
        if isinstance(memory, ShardedReplay):
            closing.enter_context(trainer.using(memory))
        session = closing.enter_context(trainer.over(lanes, hooks, schedule, endless=not goal.is_given))
        if (limits := session.limits_of(goal)) is None:
            return
        if not cluster.lockstep:
            trainer.mark_not_exact("unrolls of a cluster are used in order of arrival; Cluster(lockstep=True) is exact")
        if (why := _other_cluster(trainer.state(), cluster)) is not None:
            trainer.mark_not_exact(why)
        _leave_out_rollout(trainer.state().stepper)
        with session.monitored(limits):
            Driver(cluster, recipe, session, trainer, model, memory, limits).run()


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
        self._transition: Mapping[str, SpecTree] = trainer.transition()
        self._program = _program(model, state.snapshot(), cluster.actor_runtime)
        self.planner = Planner(cluster.rules(), time.monotonic(), _incarnations(state.cluster))
        self._round: list[Collected] = []
        self._saves = session.saves
        self._measured_at = time.perf_counter()
        self._wide = cluster.unroll * cluster.envs_per_actor
        self._epsilons = None
        if cluster.ladder is not None and type(self._program.predict.exploration) is EpsilonGreedy:
            every = apex_epsilons(cluster.actors * cluster.envs_per_actor, *cluster.ladder)
            self._epsilons = every.reshape(cluster.actors, cluster.envs_per_actor)
            session.explores_by = float(every.mean())
        self._measures = Measures(
            self.planner, self._wide, memory if isinstance(memory, ShardedReplay) else None, self._epsilons
        )
        episodes = Episodes(session, cluster.envs_per_actor)
        self._memory = memory
        self._whole = memory.whole if isinstance(memory, ShardedReplay) else None
        self.backend: Any = None
        self.learning: LearnerInput
        if isinstance(memory, ShardedReplay):
            most = cluster.actors * cluster.in_flight
            self.learning = FromReplay(session, self._stepper, memory, most, self._wide, episodes, self._measures)
        else:
            batch = memory.size // self._wide
            counts = self.planner.counts
            self.learning = FromRollouts(session, self._stepper, cluster, batch, counts, episodes, self._measures)

    def run(self) -> None:
        """Connect, and train until a limit is reached or a hook stops; always disconnect."""
        self.backend = self._connected(self._memory)
        saves = False
        vars(self._cluster)[RUNNING] = self
        try:
            if isinstance(self._memory, ShardedReplay):
                self._memory.connect(self.backend)
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
            self.backend.close(saves=saves)

    def resize(self, actors: int) -> None:
        """See ``Cluster.resize``."""
        self.planner.resize(checked_resize(self._cluster, self._memory, actors), time.monotonic())
        self.learning.most = actors * self._cluster.in_flight

    def _rescue(self, error: ClusterError) -> None:
        """Try to save a last checkpoint after the cluster failed; shards are included if they still answer."""
        shards_gone = isinstance(error, NodeLostError) and isinstance(self._memory, ShardedReplay)
        if self.planner.counts["accepted"] and not shards_gone:
            try:
                self._session.save_checkpoint()
            except Exception as failure:
                logger.warning("no last checkpoint could be saved: %s", failure)

    def _train(self) -> None:
        begun = False
        self._learn()  # updates left over by a run that was killed at an evaluation's checkpoint
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
            self._look_after()
            self._measure(waited - began, time.perf_counter() - waited)

    # -- actors -------------------------------------------------------------------------------------------------------

    def _connected(self, memory: Any) -> Any:
        cluster, plans = self._cluster, []
        if isinstance(memory, ShardedReplay):
            for index, actors in enumerate(actors_of_shards(cluster)):
                width, seed = cluster.envs_per_actor, self._seed
                part, length = memory.part(index), cluster.unroll
                plans.append(ShardPlan(part, self._transition, actors, width, index, seed, length))
        if cluster.backend == "inline":
            return Inline([plan.make() for plan in plans])
        from .on_ray import OnRay

        return OnRay(cluster, plans, nbytes_of(self._transition, cluster.unroll, cluster.envs_per_actor))

    @property
    def _seed(self) -> int:
        return self._session.config.seed or 0

    def _start(self) -> None:
        cluster, planner = self._cluster, self.planner
        for actor in planner.to_end(time.monotonic()):
            self.backend.kill(actor.index)
        for actor in planner.to_start(time.monotonic()):
            whole = self._whole
            made = ActorSpec(
                actor=actor.index,
                incarnation=actor.incarnation,
                program=self._program,
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
        self._state.cluster = {"incarnations": np.array(planner.incarnations()), **_shape(cluster)}

    def _ask(self) -> None:
        planner, counters, learning = self.planner, self._stepper.counters, self.learning
        room = learning.room(planner.in_flight())
        if self._limits.timesteps is not None:
            left = self._limits.timesteps - counters.global_timestep
            needed = -(-left // learning.least) * learning.least  # a partial batch is never used: waiting would not end
            missing = needed - learning.waiting() - planner.in_flight() * self._wide
            room = min(room, -(-missing // self._wide))
        progress = self._stepper.progress
        for unroll in planner.requests(max(room, 0), time.monotonic()):
            self.backend.ask(Request(unroll, counters.global_step, counters.global_timestep, progress))

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
        counters, progress = self._stepper.counters, self._stepper.progress
        for unroll in planner.requests(self._cluster.actors, time.monotonic()):
            self.backend.ask(Request(unroll, counters.global_step, counters.global_timestep, progress))

    def _take(self, event: Event) -> None:
        now = time.monotonic()
        if isinstance(event, Gone):
            self._give_up(event)
        elif isinstance(event, Started):
            if not self.planner.started(event.actor, event.incarnation, now):
                self.backend.kill(event.actor)
        elif isinstance(event, Collected):
            self._receive(event, now)
        elif isinstance(event, Lost):
            self.planner.lost(event.id, now)
        else:
            self._memory.emptied(event.shard)
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
            self._memory.filled(event.inserted.shard, event.inserted.stored)
        why = None
        if unroll is not None:
            why = why_damaged(unroll, self._transition, cluster.unroll, cluster.envs_per_actor)
        if why is not None:
            self._give_up(Gone(made.actor, made.incarnation, DAMAGED, why))
        elif self.planner.answered(made, now):
            self._round.append(event)
            if event.head.learnt and self._state.statistics:
                self._state.statistics = merged(self._state.statistics, event.head.learnt)

    def _give_up(self, gone: Gone) -> None:
        if self.planner.ended(gone.actor, gone.incarnation, Death(gone.kind, gone.message, time.monotonic())):
            self.planner.counts["damaged"] += gone.kind == DAMAGED
            self.backend.kill(gone.actor)
            logger.warning("actor %d %s: %s", gone.actor, gone.kind, gone.message)

    def _look_after(self) -> None:
        now = time.monotonic()
        for index, incarnation in self.planner.overdue(now):
            self._give_up(Gone(index, incarnation, SILENT, "it did not answer in time"))
        if (why := self.planner.hopeless(now)) is not None:
            raise ClusterError(why)

    def _measure(self, waited: float, worked: float) -> None:
        self._measures.passed(waited, worked)
        if (now := time.perf_counter()) - self._measured_at > _MEASURE_S:
            self._measured_at = now
            if numbers := self._measures.read():
                self._session.timings.distributed = numbers

    # -- learning -----------------------------------------------------------------------------------------------------

    def _learn(self) -> None:
        for work in self.learning.due():
            before = self._stepper.counters.global_step
            self._session.guarded(work)
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


def _shape(cluster: Settings) -> dict[str, int]:
    """Settings that determine a run in lockstep."""
    return {name: getattr(cluster, name) for name in _SHAPE}


def _other_cluster(state: TrainingState, cluster: Settings) -> str | None:
    """Say how this cluster changes a resumed run; None if it does not."""
    before, timestep = state.cluster, state.counters.global_timestep
    if not before:
        return f"it ran in one process until timestep {timestep}; its running episodes end there" if timestep else None
    now = _shape(cluster)
    changed = [f"{name} ({before[name]} -> {now[name]})" for name in _SHAPE if before.get(name, now[name]) != now[name]]
    if not changed:
        return None
    return f"its cluster changed at timestep {timestep}: {', '.join(changed)}; all actors begin new episodes"


def _leave_out_rollout(stepper: Stepper) -> None:
    """Drop the partial rollout of a single-process run, unless it can be learned from."""
    memory = stepper.memory
    if memory.is_rollout and not stepper.pending_updates and len(memory):
        logger.warning("%d timesteps of a partial rollout are dropped: a cluster fills whole rollouts", len(memory))
        memory.clear()


def _incarnations(state: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(int(one) for one in state.get("incarnations", ()))
