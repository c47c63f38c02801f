"""Meaning of an ApexExecutor's arguments: an environment, an agent's form, and when and how it learns."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ....agents.traced import specs_of
from ....environments.gymnasium_adapter import EnvironmentFactory, sendable
from ....processing.exploration import EpsilonExploration, make_exploration
from ....spaces import Space, space_of
from ....specs.agent_tables import SUFFIXES
from ....specs.agents import bind, kind_of, read_spec
from ....specs.normal import normal_form
from ....specs.ray_spec import LADDER, WHERE, RaySpec, agreed_steps, read_ray_spec
from ....utils.rlgraph_errors import RLGraphWarning, mapping, refuse, unknown_at_once

_BUFFERS: Final = ("buffer_enabled", "buffer_size")
"""Keys of ``observe_spec`` beside ``n_step``: unrolls are stored as they come."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """Settings of a run.

    Args:
        ray: what ``ray_spec`` means.
        factory: makes environments.
        state_space: of the environment's states.
        seen: of preprocessed states.
        action_space: of actions.
        form: the agent's normal form.
    """

    ray: RaySpec
    factory: EnvironmentFactory
    state_space: Space
    seen: Space
    action_space: Space
    form: Mapping[str, Any]

    @property
    def first_update(self) -> int:
        """Timesteps before the first update; RLGraphError if the memory could not fill a batch."""
        update = self.form["update_spec"]
        capacity, n_step = self.form["memory_spec"]["capacity"], self.form["observe_spec"]["n_step"]
        return self.ray.first_update(capacity, update["batch_size"], n_step, update["steps_before_update"])

    @property
    def update_frequency(self) -> int:
        """Timesteps between two updates."""
        return int(self.form["update_spec"]["update_interval"] // self.form["update_spec"]["update_steps"])

    def epsilon(self) -> Any:
        """Epsilon of workers that have no ladder: a number, or the spec of a decay in JSON.

        Raises:
            RLGraphError: it is invalid, or missing where it is needed.
        """
        place = f"{WHERE}: exploration_spec"
        made = make_exploration(place, self.form["exploration_spec"], self.action_space.flat())
        if made is None and not self.ray.has_ladder:
            refuse(place, "is missing: workers without ray_constant_exploration follow it", None)
        return made.epsilon.spec if isinstance(made, EpsilonExploration) else LADDER[0]

    def params(self) -> dict[str, Any]:
        """Model params, as JSON."""
        update, action = self.form["update_spec"], self.action_space.flat()[""]
        return {
            "form": self.form,
            "states": {name: spec.to_json() for name, spec in specs_of(self.seen.flat()).items()},
            "shape": list(action.shape),
            "low": np.broadcast_to(action.bounds[0], action.shape).tolist(),
            "categories": getattr(action, "num_categories"),  # noqa: B009
            "sync_period": -(-update["sync_interval"] // update["batch_size"]),
            "epsilon": self.epsilon(),
        }


def read_plan(environment_spec: Any, agent_config: Any) -> Plan:
    """The plan that arguments of ApexExecutor mean; they stay as they are. An environment is made and closed again.

    Raises:
        RLGraphError: an argument is invalid, or does not fit another.
    """
    arguments = read_spec(f"{WHERE}: agent_config", agent_config)
    kind = arguments.get("type", "apex")
    if not isinstance(kind, str) or kind_of(f"{WHERE}: type", kind) != "apex":
        refuse(f"{WHERE}: type", f"must be 'apex', got {kind!r:.200}", kind)
    execution = dict(mapping(f"{WHERE}: execution_spec", arguments.get("execution_spec") or {}))
    with unknown_at_once():
        ray = read_ray_spec(execution.pop("ray_spec", None))
        ignored = [*ray.ignored, *_ignored(arguments, ray)]
        memory = arguments.get("memory_spec") if ray.memory is None else ray.memory
        n_step = agreed_steps(arguments.get("n_step"), ray) or 1
        arguments |= {"type": "apex", "execution_spec": execution, "memory_spec": memory, "n_step": n_step}
        factory = _factory(environment_spec, arguments.get("preprocessing_spec"), ray)
        spaces, seen = _spaces(factory)
        for name, space in spaces.items():
            given = arguments.pop(name, None)
            if given is not None and space_of(f"{WHERE}: {name}", given) != space:
                refuse(f"{WHERE}: {name}", f"is {given!r}, and the environment has {space!r}: leave it out", given)
        bound = bind("apex", WHERE, (arguments,), spaces)
        form = normal_form("apex", WHERE, bound, seen, spaces["action_space"])
    plan = Plan(ray, factory, spaces["state_space"], seen, spaces["action_space"], form)
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


def _factory(spec: Any, preprocessing: Any, ray: RaySpec) -> EnvironmentFactory:
    if isinstance(spec, str) and spec.endswith(SUFFIXES):  # workers may be on other machines
        spec = read_spec(f"{WHERE}: environment_spec", spec)
    return EnvironmentFactory(
        sendable(f"{WHERE}: environment_spec", spec),
        sendable(f"{WHERE}: preprocessing_spec", preprocessing),
        ray.worker["frame_skip"],
        WHERE,
    )


def _check(plan: Plan) -> None:
    """Does it fit how axonrl's memory and schedule work?"""
    update, alpha = plan.form["update_spec"], plan.form["memory_spec"]["alpha"]
    if alpha > 1:
        refuse(f"{WHERE}: memory_spec['alpha']", f"must be at most 1 in an executor, got {alpha}", alpha)
    if not update["do_updates"]:
        refuse(f"{WHERE}: update_spec['do_updates']", "must be True: an executor learns", False)
    if update["update_mode"] != "time_steps":
        problem = "must be 'time_steps': workers of an executor end their episodes at any time"
        refuse(f"{WHERE}: update_spec['update_mode']", problem, update["update_mode"])
    every, steps = update["update_interval"], update["update_steps"]
    if every % steps:
        problem = f"must divide update_interval, {every}: updates are made one by one; got {steps}"
        refuse(f"{WHERE}: update_spec['update_steps']", problem, steps)
    plan.epsilon()
    _ = plan.first_update


def _ignored(arguments: Mapping[str, Any], ray: RaySpec) -> list[str]:
    """Arguments of the agent that were given and that nothing follows from in an executor."""
    names = [f"observe_spec[{name!r}]" for name in _BUFFERS if name in (arguments.get("observe_spec") or {})]
    if ray.memory is not None and arguments.get("memory_spec") is not None:
        names.append("memory_spec (apex_replay_spec has one)")
    return names


def _warn_of_no_effect(plan: Plan, ignored: list[str]) -> None:
    form, names = plan.form, list(ignored)
    names += [f"{part}['directory']" for part in ("saver_spec", "summary_spec") if form[part]["directory"]]
    names += [name for name in ("store_last_memory_batch", "store_last_q_table") if form[name]]
    if plan.ray.has_ladder and form["exploration_spec"]:
        names.append("exploration_spec (worker_spec['ray_constant_exploration'] is True)")
    if names:
        warnings.warn(f"{WHERE}: no effect have {', '.join(names)}", RLGraphWarning, stacklevel=4)
