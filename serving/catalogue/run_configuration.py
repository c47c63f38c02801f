"""Convert a run trained by axonrl to the configuration of a hosted agent that continues it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from gymnasium.spaces import Box, Discrete, Space

from ...core.errors import ArgumentError
from ...environments import spaces
from ...models.blocks.params import parameters_of
from ...run_dir.record import RunRecord
from . import hosted
from .configurations import checked_model

_ELSEWHERE: Final = ("kind", "path")
"""Entries of a memory's record that are not settings of a hosted one, such as the place of its transitions."""


def config_of(record: RunRecord, first_update: int | None, update_frequency: int | None) -> dict[str, Any]:
    """The configuration with which :func:`.recipe` makes the same agent.

    Args:
        record: record of a run with one environment.
        first_update: as for ``Agent.train``; None if a rollout determines when updates are due.
        update_frequency: as for ``Agent.train``; None if a rollout determines when updates are due.

    Raises:
            ArgumentError: the run cannot be hosted; says why.
    """
    model = checked_model(record.model_fn)
    if record.num_envs != 1:
        message = f"num_envs is {record.num_envs}: a hosted agent continues a single stream of experience; train with 1"
        raise ArgumentError(message, "num_envs", record.num_envs)
    if record.unrecorded:
        names = ", ".join(record.unrecorded)
        raise ArgumentError(f"params that run.json could not record are unknown here: {names}", "params")
    values = {**_params(model, record.params or {}), **_memory(model, record.memory)}
    if hosted.MODELS[model].memory == hosted.REPLAY:
        values |= {"first_update": first_update, "update_frequency": update_frequency}
    documented, known = hosted.documented_names(model), hosted.hyperparameters(model)
    given = {documented[own]: value for own, value in values.items() if value != known[own].default}
    return {
        **_observation(record.observation_space),
        **_action(record.action_space),
        **given,
        "seed": record.seed,
    }


def _params(model: str, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Every hosted parameter of the algorithm, with the run's value."""
    own = parameters_of(model)
    if unknown := sorted(set(recorded) - set(own)):
        raise ArgumentError(f"{model} of this version has no params {', '.join(unknown)}", unknown[0])
    found = {name: one.default for name, one in own.items()} | dict(recorded)
    for name, reason in hosted.LEFT_OUT.items():
        if name in found and found[name] != own[name].default:
            raise ArgumentError(f"{name}={found[name]!r} cannot be hosted: it {reason}", name, found[name])
    if found.get("target_update_period") is not None:  # the two are alternatives, and this one has precedence
        found.pop("target_update_rate", None)
    taken = {"n_step"} if hosted.MODELS[model].memory == hosted.REPLAY else set()
    names = set(own) - set(hosted.LEFT_OUT) - taken
    return {name: value for name, value in found.items() if name in names}


def _memory(model: str, recorded: Mapping[str, Any] | None) -> dict[str, Any]:
    kind = hosted.MODELS[model].memory
    if recorded is None or recorded["kind"] != kind:
        name = "one that run.json could not record" if recorded is None else recorded["kind"]
        raise ArgumentError(f"the memory is {name}: agents of {model} are hosted with {kind}", "memory")
    if recorded.get("frame_stack") is not None:
        raise ArgumentError("frame_stack is not supported: clients must send stacked observations", "frame_stack")
    known = hosted.hyperparameters(model)
    found = {name: value for name, value in recorded.items() if name in known}
    if kind == hosted.BATCH_MEMORY:
        found.pop("batch_size", None)  # the whole rollout
    others = set(recorded) - set(found) - {*_ELSEWHERE, "frame_stack", "batch_size"}
    if unknown := sorted(name for name in others if recorded[name] is not None):
        raise ArgumentError(f"the memory's {unknown[0]} is not supported", unknown[0])
    return found


def _observation(space: Space[Any]) -> dict[str, Any]:
    """Entry of an observation space; bounds of floats are omitted, as networks do not use them."""
    if isinstance(space, Box) and space.dtype == np.float32 and space.shape:
        return {"state_size": space.shape[0] if len(space.shape) == 1 else list(space.shape)}
    return {"observation_space": spaces.to_json(space)}


def _action(space: Space[Any]) -> dict[str, Any]:
    if isinstance(space, Discrete) and space.start == 0:
        return {"action_size": int(space.n), "discrete": True}
    if isinstance(space, Box) and space.dtype == np.float32 and space.shape:
        low, high = (None if not np.isfinite(one).all() else one.tolist() for one in (space.low, space.high))
        if low is not None and high is not None:
            size = space.shape[0] if len(space.shape) == 1 else list(space.shape)
            return {"action_size": size, "discrete": False, "action_low": low, "action_high": high}
    what = "a Discrete that begins at 0, or a bounded Box of float32"
    raise ArgumentError(f"the action space is {space}; hosted agents have {what}", "action_space", space)
