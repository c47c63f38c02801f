"""The roles as Ray processes: actors, the store of weights, replay shards; on one machine or several."""

from __future__ import annotations

import dataclasses
import logging
import secrets
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..core.errors import ClusterError
from ..core.protocols import Array, State
from ..policies.actor import ActorProgram
from .actor import ActorSpec
from .events import Collected, Event, Gone, Started
from .on_ray_shards import RayShards
from .on_ray_weights import PUBLISH_S, RayWeights
from .planner import DIED, RAISED
from .ray_connection import Connection, DiskFullError, refusing_full_disk
from .replay import ShardPlan
from .roles import ActorProcess, Raised, Ready, ShardProcess, WeightStore, versions
from .settings import Settings
from .unrolls import Request

logger = logging.getLogger("axonrl")
_IDLE_S: Final = 0.1
"""Seconds to sleep when no request is open."""
_PLACED_S: Final = 5.0
"""Ray usually starts a process sooner if a processor is free."""
_LOOK_S: Final = 1.0
_SAY_S: Final = 60.0
"""Seconds between two warnings about processes that have not started."""
_FETCH_S: Final = 60.0
"""Timeout for fetching ready results, possibly from another node."""


@dataclasses.dataclass
class _Actor:
    """An incarnation of an actor, and its outstanding answers, oldest first.

    An answer is a reference; with shards, one to the head and one to the unroll.
    """

    handle: Any
    incarnation: int
    since: float
    created: Any
    """Ready when the process is."""
    pid: int | None = None
    answers: deque[tuple[Any, Any]] = dataclasses.field(default_factory=deque)


class OnRay:
    """Actors as processes of a Ray cluster.

    Args:
        settings: see :class:`Settings`.
        plans: replay shards; empty if unrolls go to the driver.
        nbytes: size of an unroll.

    Raises:
        ArgumentError: Ray is not installed, or the cluster cannot be joined or is too small.
        ClusterError: no cluster could be started.
    """

    def __init__(self, settings: Settings, plans: Sequence[ShardPlan] = (), nbytes: int = 0) -> None:
        self._settings = settings
        self._connection = Connection(settings, len(plans), nbytes)
        self._run = secrets.token_hex(4)
        self._actors: dict[int, _Actor] = {}
        self._events: list[Event] = []
        self._program: tuple[ActorProgram, Any] | None = None
        self._placing: Any = None
        self._begun = self._say_at = time.monotonic()
        every, prefetch = (0.0, 0) if settings.lockstep else (PUBLISH_S, settings.prefetch)
        timeout = settings.unroll_timeout_s
        try:
            self._weights = RayWeights(lambda: self._remote(WeightStore, "weights", num_cpus=0).remote(), every)
            launch, await_created = self._launch_shard, self._await_shards
            self.shards = RayShards(plans, launch, await_created, prefetch, timeout) if plans else None
            """Replay shards; None if unrolls go to the driver."""
        except BaseException:
            self._connection.close()
            raise

    # -- making -------------------------------------------------------------------------------------------------------

    def _remote(self, role: type, name: str, **options: Any) -> Any:
        """Make a factory for processes of a role."""
        import ray

        # Restarts by Ray would go unnoticed, and repeat calls that may have run.
        once = {"max_restarts": 0, "max_task_retries": 0}
        unique = f"axonrl-{self._run}-{name}-{secrets.token_hex(2)}"
        return ray.remote(role).options(name=unique, **once, **options)

    def _launch_shard(self, plan: ShardPlan, incarnation: int) -> Any:
        options = {"num_cpus": self._settings.shard_cpus, "scheduling_strategy": "SPREAD"}
        return self._remote(ShardProcess, f"shard-{plan.shard}", **options).remote(plan, incarnation)

    def _strategy(self, actor: int) -> Any:
        from ray.util import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        settings = self._settings
        if settings.placement != "strict_spread":
            return {"spread": "SPREAD", "pack": "DEFAULT"}[settings.placement]
        if self._placing is None:
            bundles = [{"CPU": settings.actor_cpus}] * settings.actors
            self._placing = placement_group(bundles, "STRICT_SPREAD", name=f"axonrl-{self._run}")
        return PlacementGroupSchedulingStrategy(self._placing, placement_group_bundle_index=actor)

    @refusing_full_disk()
    def start(self, made: ActorSpec) -> None:
        """Start a process, and build an actor in it."""
        import ray

        self.kill(made.actor)
        if self._program is None or self._program[0] is not made.program:
            self._program = made.program, ray.put(made.program)
        # Our own cluster has processors for this many actors; later ones share them.
        later = self._connection.is_local and made.actor >= self._settings.actors
        cpus = 0 if later else self._settings.actor_cpus
        options = {"num_cpus": cpus, "scheduling_strategy": self._strategy(made.actor)}
        process = self._remote(ActorProcess, f"actor-{made.actor}-{made.incarnation}", **options).remote()
        alone: Any = dataclasses.replace(made, program=None)  # type: ignore[arg-type]
        created = process.__ray_ready__.remote()
        actor = self._actors[made.actor] = _Actor(process, made.incarnation, time.monotonic(), created)
        actor.answers.append((process.begin.remote(alone, self._program[1], self._weights.store), None))

    # -- asking and waiting -------------------------------------------------------------------------------------------

    def ask(self, request: Request) -> None:
        """Send a request to the actor."""
        actor = self._actors.get(request.id.actor)
        if actor is None or actor.incarnation != request.id.incarnation:
            return
        if self.shards is None:
            actor.answers.append((actor.handle.collect.remote(request), None))
        else:
            head, unroll = actor.handle.collect_apart.options(num_returns=2).remote(request)
            actor.answers.append((head, unroll))

    def publish(self, version: int, weights: Mapping[str, Array], statistics: State | None = None) -> None:
        """Send weights to the store, now or soon."""
        self._weights.pending = version, weights, statistics
        self._flush()
        if self._settings.lockstep:
            self._weights.arrive()

    def _flush(self) -> None:
        if (store := self._weights.flush()) is not None:
            for actor in self._actors.values():
                actor.handle.take_from.remote(store)

    def wait(self, timeout: float) -> Sequence[Event]:
        """Wait for the oldest answer of any actor, and return all events that have arrived."""
        import ray

        self._connection.check()
        self._flush()
        self._warn_of_pending()
        if self._weights.pending is not None:
            timeout = min(timeout, PUBLISH_S)
        oldest = [actor.answers[0][0] for actor in self._actors.values() if actor.answers]
        inserts = [] if self.shards is None else self.shards.waited_for()
        ready: set[Any] = set()
        if not oldest and not inserts:
            time.sleep(min(timeout, _IDLE_S))
        elif ray.wait([*oldest, *inserts], timeout=0 if self._events else timeout)[0]:
            every = [reference for actor in self._actors.values() for reference, _ in actor.answers] + inserts
            ready.update(ray.wait(every, num_returns=len(every), timeout=0)[0])
        self._take(ready)
        if self.shards is not None:
            self._events += self.shards.arrived(ready)
        events, self._events = self._events, []
        return events

    def _warn_of_pending(self) -> None:
        """Warn once a minute about processes that Ray has not started: a shared cluster may have no free processor."""
        import ray

        now, settings = time.monotonic(), self._settings
        if now < self._say_at or self._connection.is_local:
            return
        self._say_at = now + _LOOK_S
        pending = [
            (f"actor {index}", actor.created)
            for index, actor in self._actors.items()
            if actor.pid is None and now - actor.since > _PLACED_S
        ]
        if self.shards is not None and now - self._begun > _PLACED_S:
            pending += self.shards.created()
        placed = ray.wait([one for _, one in pending], num_returns=len(pending), timeout=0)[0] if pending else []
        names = [name for name, created in pending if created not in placed]
        if not names:
            return
        self._say_at = now + _SAY_S
        untyped: Any = ray
        available, total = (one.get("CPU", 0.0) for one in (untyped.available_resources(), untyped.cluster_resources()))
        wanted = [settings.shard_cpus if name.startswith("shard") else settings.actor_cpus for name in names]
        none = "no processor of the Ray cluster is free" if available < min(wanted) else "Ray is slow"
        logger.warning(
            "%s: %s have not started. They need %g processors; %g of %g are free. They start when others end; this run"
            " ends if nothing moves for %g s (stall_timeout_s)",
            none,
            " and ".join(names),
            sum(wanted),
            available,
            total,
            settings.stall_timeout_s,
        )

    def _take(self, ready: set[Any]) -> None:
        """Take the answers that have arrived, in order for each actor, in one fetch."""
        found = []
        for index, actor in self._actors.items():
            while actor.answers and actor.answers[0][0] in ready:
                found.append((index, actor, *actor.answers.popleft()))
        values = _fetch_results([reference for _, _, reference, _ in found])
        for (index, actor, _, unroll), value in zip(found, values, strict=True):
            if self._actors.get(index) is actor:
                self._receive(index, actor, unroll, value)

    def _receive(self, index: int, actor: _Actor, unroll: Any, value: Any) -> None:
        if isinstance(value, Exception):
            self.kill(index)
            self._events.append(Gone(index, actor.incarnation, *_why(value)))
        elif isinstance(value, Raised):
            self.kill(index)
            self._events.append(Gone(index, actor.incarnation, RAISED, value.message))
        elif isinstance(value, Ready):
            if value.versions != versions():
                self.kill(index)
                message = f"its node has {value.versions}, and the learner's has {versions()}"
                self._events.append(Gone(index, actor.incarnation, RAISED, message))
            else:
                logger.debug("actor %d, incarnation %d is process %d", index, actor.incarnation, value.pid)
                actor.pid = value.pid
                self._events.append(Started(index, actor.incarnation))
        elif self.shards is None:
            self._events.append(Collected(value))
        else:
            self.shards.insert(value.id, unroll)

    def processes(self) -> dict[str, int]:
        """Reported process ids of all roles, by name: ``actor 0``, ``shard 0``, ``raylet``, ..."""
        actors = {f"actor {index}": actor.pid for index, actor in self._actors.items() if actor.pid is not None}
        shards = {} if self.shards is None else self.shards.processes()
        return {**actors, **shards, **self._connection.processes()}

    def _await_shards(self) -> None:
        until = time.monotonic() + self._settings.stall_timeout_s
        while self.shards is not None and not self.shards.are_created(timeout=1.0):
            self._warn_of_pending()
            if time.monotonic() > until:
                raise ClusterError(f"Ray did not start the replay shards within {self._settings.stall_timeout_s:g} s")

    # -- ending -------------------------------------------------------------------------------------------------------

    def kill(self, actor: int) -> None:
        """End an actor's process, and drop its requests."""
        import ray

        if (gone := self._actors.pop(actor, None)) is not None:
            ray.kill(gone.handle)

    def close(self, *, saves: bool) -> None:
        """End all processes of this run, and the cluster if we started it."""
        import ray

        try:
            if self._connection.is_whole:  # a dead cluster cannot end its processes
                for actor in list(self._actors):
                    self.kill(actor)
                if self.shards is not None:
                    self.shards.close(saves=saves and self._settings.save_replay)
                ray.kill(self._weights.store)
                if self._placing is not None:
                    ray.util.remove_placement_group(self._placing)
        finally:
            self._program = None  # in the object store, possibly in one file with objects already released
            self._connection.close()


def _fetch_results(references: list[Any]) -> list[Any]:
    """Fetch ready results; an error takes the place of each that failed."""
    import ray

    if not references:
        return []
    try:
        values: list[Any] = ray.get(references, timeout=_FETCH_S)
    except ray.exceptions.RayError:
        return [_value_or_error(reference) for reference in references]
    return values


def _value_or_error(reference: Any) -> Any:
    import ray

    try:
        return ray.get(reference, timeout=_FETCH_S)
    except ray.exceptions.RayError as error:
        return error


def _why(error: Exception) -> tuple[str, str]:
    """Explain why an incarnation ended: its kind, and a message."""
    import ray

    if isinstance(error, ray.exceptions.OutOfDiskError):
        return RAISED, str(DiskFullError())
    if isinstance(error, ray.exceptions.RayTaskError):
        return RAISED, f"{type(error.cause).__name__}: {error.cause}"
    return DIED, str(error).partition("\n")[0]
