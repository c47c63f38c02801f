"""Plan of an ApexExecutor's run, from its arguments: environment, agent, and schedule of learning."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Mapping
from typing import Any, Final

from ......core.checks import physical_memory
from ......memories.columns import nbytes
from ....agents.traced import arrays_of, lows_of, specs_of
from ....environments.gymnasium_adapter import EnvironmentFactory, sendable
from ....processing.exploration import EpsilonExploration, make_exploration
from ....spaces import Space, space_of
from ....specs.agent_tables import SUFFIXES
from ....specs.agents import bind, kind_of, read_spec
from ....specs.normal import normal_form
from ....specs.ray_spec import RAY, read_ray_spec
from ....utils.rlgraph_errors import RLGraphWarning, mapping, refuse, translate_errors, unknown_at_once

WHERE: Final = "ApexExecutor"
LADDER: Final = (0.4, 7.0)
"""Base and power of the workers' epsilons."""
_MIN_SAMPLES: Final = 1000
_BUFFERS: Final = ("buffer_enabled", "buffer_size")
"""Keys of ``observe_spec`` without effect: unrolls are stored as they arrive."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """Settings of a run.

    Args:
        executor: all keys of ``executor_spec``.
        worker: all keys of ``worker_spec``.
        replay: all keys of ``apex_replay_spec``.
        factory: makes environments.
        state_space: space of the environment's states.
        seen: space of preprocessed states.
        action_space: space of the actions.
        form: the agent's normal form.
    """

    executor: Mapping[str, Any]
    worker: Mapping[str, Any]
    replay: Mapping[str, Any]
    factory: EnvironmentFactory
    state_space: Space
    seen: Space
    action_space: Space
    form: Mapping[str, Any]

    @property
    def workers(self) -> int:
        """Number of processes that act."""
        return int(self.executor["num_sample_workers"])

    @property
    def width(self) -> int:
        """Environments per worker."""
        return int(self.worker["num_worker_environments"])

    @property
    def has_ladder(self) -> bool:
        """Does each environment have its own constant epsilon?"""
        return bool(self.worker["ray_constant_exploration"] and self.worker["worker_executes_exploration"])

    def cluster(self, backend: str, address: str | None) -> dict[str, Any]:
        """Arguments of :class:`axonrl.distributed.Cluster`."""
        executor, shards = self.executor, self.executor["num_replay_workers"]
        return {
            "actors": self.workers,
            "envs_per_actor": self.width,
            "unroll": -(-executor["num_worker_samples"] // self.width),
            "backend": backend,
            "address": None if backend == "inline" else address,
            "replay_shards": shards,
            "in_flight": executor["env_interaction_task_depth"],
            "prefetch": min(executor["learn_queue_size"], executor["replay_sampling_task_depth"] * shards),
            "shard_cpus": executor["num_cpus_per_replay_actor"],
            "actor_cpus": self.worker["num_cpus"] or executor["num_cpus_per_worker"] or 1.0,
            "ladder": LADDER if self.has_ladder else None,
        }

    def lanes(self) -> list[int]:
        """Environments that fill each part of the memory."""
        shards = self.executor["num_replay_workers"]
        return [len(range(shard, self.workers, shards)) * self.width for shard in range(shards)]

    @property
    def capacity(self) -> int:
        """The capacity of ``memory_spec``, at most the records that fit in half of this machine's memory."""
        wanted, machine = int(self.form["memory_spec"]["capacity"]), physical_memory()
        return wanted if machine is None else min(wanted, machine // 2 // nbytes(arrays_of(self.seen.flat())))

    @property
    def size(self) -> int:
        """Size of the memory: :attr:`capacity`, rounded up to equal parts and lanes."""
        lanes = self.lanes()
        unit = len(lanes) * math.lcm(*lanes)
        return -(-self.capacity // unit) * unit

    @property
    def first_update(self) -> int:
        """Timesteps before the first update; RLGraphError if the memory, or a part of it, cannot hold a batch."""
        update, place = self.form["update_spec"], f"{RAY}['apex_replay_spec']"
        capacity, following = self.capacity, self.form["observe_spec"]["n_step"] - 1
        lanes, batch, given = self.lanes(), update["batch_size"], self.replay["min_sample_memory_size"]
        least = batch + following * max(lanes)
        if self.size // len(lanes) < least:
            problem = f"must be at least {least} for each of the {len(lanes)} num_replay_workers, so that each has"
            refuse(f"{place}['memory_spec']['capacity']", f"{problem} a batch of {batch}; got {capacity}", capacity)
        if given is not None and given > capacity:
            problem = f"must be at most the capacity, {capacity}; got {given}"
            refuse(f"{place}['min_sample_memory_size']", problem, given)
        wanted = min(_MIN_SAMPLES, capacity) if given is None else given
        return int(max(wanted, batch + following * sum(lanes), update["steps_before_update"]))

    @property
    def update_frequency(self) -> int:
        """Timesteps between two updates."""
        return int(self.form["update_spec"]["update_interval"] // self.form["update_spec"]["update_steps"])

    def epsilon(self) -> Any:
        """Epsilon of workers without constant epsilons: a number, or the spec of a decay in JSON.

        Raises:
            RLGraphError: it is invalid, or needed and missing.
        """
        place = f"{WHERE}: exploration_spec"
        made = make_exploration(place, self.form["exploration_spec"], self.action_space.flat())
        if made is None and not self.has_ladder:
            refuse(place, "is missing: workers need it without ray_constant_exploration", None)
        return made.epsilon.spec if isinstance(made, EpsilonExploration) else LADDER[0]

    def params(self) -> dict[str, Any]:
        """Model params, as JSON."""
        update, action = self.form["update_spec"], self.action_space.flat()[""]
        return {
            "form": self.form,
            "states": {name: spec.to_json() for name, spec in specs_of(self.seen.flat()).items()},
            "shape": list(action.shape),
            "low": lows_of(action).tolist(),
            "categories": action.num_categories,
            "sync_period": -(-update["sync_interval"] // update["batch_size"]),
            "epsilon": self.epsilon(),
        }


def read_plan(environment_spec: Any, agent_config: Any) -> Plan:
    """The plan for arguments of ApexExecutor, which are not changed. An environment is made and closed again.

    Raises:
        RLGraphError: an argument is invalid, or does not fit another.
    """
    arguments = read_spec(f"{WHERE}: agent_config", agent_config)
    kind = arguments.get("type", "apex")
    if not isinstance(kind, str) or kind_of(f"{WHERE}: type", kind) != "apex":
        refuse(f"{WHERE}: type", f"must be 'apex', got {kind!r:.200}", kind)
    execution = dict(mapping(f"{WHERE}: execution_spec", arguments.get("execution_spec") or {}))
    ignored: list[str] = []
    with unknown_at_once():
        with translate_errors():
            parts = read_ray_spec(execution.pop("ray_spec", None), ignored)
        ignored += [f"observe_spec[{name!r}]" for name in _BUFFERS if name in (arguments.get("observe_spec") or {})]
        memory, steps = parts.pop("agent").values()
        if memory is not None:
            ignored += ["memory_spec (apex_replay_spec has one)"] if arguments.get("memory_spec") is not None else []
            arguments["memory_spec"] = memory
        own = arguments.get("n_step")
        if steps not in (None, 1) and own not in (None, 1, steps):
            refuse(f"{WHERE}: n_step", f"is {own}, but n_step_adjustment is {steps}: give only one of them", own)
        own = (own or 1) if steps in (None, 1) else steps
        arguments |= {"type": "apex", "execution_spec": execution, "n_step": own}
        factory = _factory(environment_spec, arguments.get("preprocessing_spec"), parts["worker_spec"]["frame_skip"])
        spaces, seen = _spaces(factory)
        for name, space in spaces.items():
            given = arguments.pop(name, None)
            if given is not None and space_of(f"{WHERE}: {name}", given) != space:
                refuse(f"{WHERE}: {name}", f"is {given!r}, and the environment has {space!r}: leave it out", given)
        bound = bind("apex", WHERE, (arguments,), spaces)
        form = normal_form("apex", WHERE, bound, seen, spaces["action_space"])
    own_parts = parts["executor_spec"], parts["worker_spec"], parts["apex_replay_spec"]
    plan = Plan(*own_parts, factory, spaces["state_space"], seen, spaces["action_space"], form)
    _check(plan)
    _warn_of_no_effect(plan, ignored)
    return plan


def _spaces(factory: EnvironmentFactory) -> tuple[dict[str, Space], Space]:
    """Spaces of states and actions by argument, and of preprocessed states."""
    env: Any = factory()
    try:
        return {name: getattr(env.environment, name) for name in ("state_space", "action_space")}, env.state_space
    finally:
        env.close()


def _factory(spec: Any, preprocessing: Any, frame_skip: int) -> EnvironmentFactory:
    if isinstance(spec, str) and spec.endswith(SUFFIXES):  # workers may be on other machines
        spec = read_spec(f"{WHERE}: environment_spec", spec)
    spec = sendable(f"{WHERE}: environment_spec", spec)
    return EnvironmentFactory(spec, sendable(f"{WHERE}: preprocessing_spec", preprocessing), frame_skip, WHERE)


def _check(plan: Plan) -> None:
    """Check that the plan fits axonrl's memory and schedule."""
    update = plan.form["update_spec"]
    if not update["do_updates"]:
        refuse(f"{WHERE}: update_spec['do_updates']", "must be True: an executor learns", False)
    if update["update_mode"] != "time_steps":
        problem = "must be 'time_steps': an executor's workers end episodes at any time"
        refuse(f"{WHERE}: update_spec['update_mode']", problem, update["update_mode"])
    every, steps = update["update_interval"], update["update_steps"]
    if every % steps:
        problem = f"must divide update_interval, {every}, because updates run one at a time; got {steps}"
        refuse(f"{WHERE}: update_spec['update_steps']", problem, steps)
    plan.epsilon()
    if plan.capacity < (wanted := plan.form["memory_spec"]["capacity"]):
        text = f"memory_spec['capacity'] is reduced from {wanted:,} to {plan.capacity:,} records"
        warnings.warn(f"{WHERE}: {text}, which fill half of this machine's memory", RLGraphWarning, stacklevel=4)
    _ = plan.first_update


def _warn_of_no_effect(plan: Plan, ignored: list[str]) -> None:
    form, names = plan.form, list(ignored)
    names += [f"{part}['directory']" for part in ("saver_spec", "summary_spec") if form[part]["directory"]]
    names += [name for name in ("store_last_memory_batch", "store_last_q_table") if form[name]]
    if plan.has_ladder and form["exploration_spec"]:
        names.append("exploration_spec (worker_spec['ray_constant_exploration'] is True)")
    if names:
        warnings.warn(f"{WHERE}: ignored: {', '.join(names)}", RLGraphWarning, stacklevel=4)
