"""Saves an agent, or its policy, as a folder, atomically. Nothing is pickled."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ....core import fields
from ....core.checks import refuse_non_finite
from ....core.errors import ArgumentError, CheckpointError
from ....core.protocols import RunConfig
from ....run_dir.files import remove, write_json_atomically
from ....run_dir.folders import staged, target_of
from ....run_dir.snapshot import Counters, PolicySnapshot
from ...common.state_files import read_state, write_state
from ..environments.gymnasium_adapter import gymnasium_actions, gymnasium_space
from ..processing.preprocessors import preprocessing_to_json
from ..utils.rlgraph_errors import RLGraphError, RLGraphWarning, flag, refuse, translate_errors

_MANIFEST: Final = "agent.json"
_STATE: Final = "state.safetensors"
_FILES: Final = (_MANIFEST, _STATE)
_FIELDS: Final = fields.fields({"agent": fields.mapping, "timesteps": fields.integer(), "updates": fields.integer()})
_SAME: Final = (
    *("kind", "preprocessing_spec", "network_spec", "action_adapter_spec", "value_function_spec", "dueling_q"),
    *("double_q", "memory_spec", "exploration_spec", "type", "architecture", "worker_sample_size"),
    *("feed_previous_action_through_nn", "feed_previous_reward_through_nn"),
)
"""Parts of the normal form that must match a loaded checkpoint."""


def store(where: str, agent: Any, path: str | os.PathLike[str] | None, add_timestep: bool) -> str:
    """Store a checkpoint; see ``Agent.store_model``."""
    refuse_non_finite(agent.core.weights(), f"at update {agent.updates}; nothing is saved")
    saver = agent.form["saver_spec"]
    folder = saver["directory"] if path is None else path
    if folder is None:
        refuse(f"{where}: path", "is missing: pass one, or a saver_spec with a directory", None)
    name = saver["checkpoint_basename"]
    if flag(f"{where}: add_timestep", add_timestep):
        name = f"{name}-{agent.timesteps}"
    with translate_errors(where):
        target = target_of(Path(os.fspath(folder)) / name, "a checkpoint", _FILES)
    about = {"agent": _about(agent), "timesteps": agent.timesteps, "updates": agent.updates}
    with staged(target) as beside:
        write_state(beside / _STATE, agent.state_dict())
        write_json_atomically(beside / _MANIFEST, about)
    if saver["max_checkpoints"] is not None:
        for _, old in _checkpoints_of(target.parent, saver["checkpoint_basename"])[: -saver["max_checkpoints"]]:
            if old != target:
                remove(old)
    return str(target)


def load(where: str, agent: Any, path: str | os.PathLike[str]) -> Any:
    """The stored state of a matching agent; see ``Agent.load_model``."""
    folder = Path(os.fspath(path))
    if not (folder / _MANIFEST).is_file():
        checkpoints = (
            _checkpoints_of(folder, agent.form["saver_spec"]["checkpoint_basename"]) if folder.is_dir() else []
        )
        if not checkpoints:
            refuse(f"{where}: path", f"has no checkpoint written by store_model: {folder}", str(path))
        folder = checkpoints[-1][1]
    try:
        manifest = json.loads((folder / _MANIFEST).read_text("utf-8"))
        fields.check(_MANIFEST, manifest, _FIELDS)
        state = read_state(folder / _STATE)
    except (CheckpointError, OSError, ValueError) as error:
        raise RLGraphError(f"{where}: {folder} cannot be read: {error}", "path", str(path)) from error
    for name, value in _about(agent).items():
        if (saved := manifest["agent"].get(name, value)) != value:
            refuse(f"{where}: path", f"has an agent whose {name} is {saved!r:.300}; here it is {value!r:.300}", path)
    return state


def export(where: str, agent: Any, filename: str | os.PathLike[str]) -> str:
    """Export an agent's policy."""
    model, states = agent.core.model, agent.state_space
    if model is None:
        refuse(where, "needs an agent with a model", type(agent).__name__)
    if agent.preprocessor.is_stateful:
        problem = "cannot be exported: its step sequence is stateful. Keep sequences in your loop"
        refuse(f"{where}: preprocessing_spec", problem, agent.preprocessor.spec)
    name = os.fspath(filename)
    if name.endswith(".meta"):
        name = name.removesuffix(".meta")
        text = f"{where}: the policy is a folder, not a meta graph; it is written to {name}"
        warnings.warn(text, RLGraphWarning, stacklevel=4)
    from ....estimators.export import export as write

    seen = gymnasium_space(agent.preprocessed_state_space, keeps_bools=True)  # the dtypes of the program's inputs
    config = RunConfig(observation_space=seen, action_space=gymnasium_actions(agent.action_space))
    policy = PolicySnapshot("last", model.acting_weights(), None, Counters(agent.updates, agent.timesteps))
    try:
        return str(write(model, config, policy, name, preprocessing_to_json(states, agent.preprocessor)))
    except (ArgumentError, ValueError) as error:
        raise RLGraphError(f"{where}: {error}", "filename", name) from error


def _about(agent: Any) -> dict[str, Any]:
    """Facts that must be equal to load a checkpoint."""
    form = agent.form
    names = [name for name in _SAME if name in form and name not in agent.may_differ]
    about: dict[str, Any] = {name: form[name] for name in names}
    about |= {"state_space": agent.state_space.to_spec(), "action_space": agent.action_space.to_spec()}
    about["n_step"] = agent.observe_spec["n_step"]
    about |= _optimizer_of(form, "optimizer")
    if form.get("value_function_spec") is not None:
        about |= _optimizer_of(form, "value_function_optimizer")
    plain: dict[str, Any] = json.loads(json.dumps(about))
    return plain


def _optimizer_of(form: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An optimizer's type and whether it has momentum, which decide about its variables."""
    spec = form.get(f"{name}_spec") or {}
    return {name: spec.get("type"), f"has_momentum_of_{name}": bool(spec.get("momentum"))}


def _checkpoints_of(folder: Path, name: str) -> list[tuple[int, Path]]:
    """The checkpoints of a folder, by number."""
    found = []
    for path in folder.iterdir():
        matched = re.fullmatch(rf"{re.escape(name)}-(\d+)", path.name)
        if matched and (path / _MANIFEST).is_file():
            found.append((int(matched.group(1)), path))
    return sorted(found)
