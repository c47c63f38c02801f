"""Files: an agent as a folder, written whole or not at all. Nothing is pickled."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ....core import fields
from ....core.errors import CheckpointError
from ....run_dir.files import remove, write_json_atomically
from ....run_dir.folders import staged, target_of
from ...common.exclusion import exclusive
from ...common.state_files import read_state, write_state
from ..utils.rlgraph_errors import RLGraphError, RLGraphWarning, flag, refuse, translate_errors
from .buffers import Buffer, columns_of, records_of
from .experience import Observes
from .export import export

_MANIFEST: Final = "agent.json"
_STATE: Final = "state.safetensors"
_FILES: Final = (_MANIFEST, _STATE)
_FIELDS: Final = fields.fields({"agent": fields.mapping, "timesteps": fields.whole(), "updates": fields.whole()})
_SAME: Final = (
    *("kind", "preprocessing_spec", "network_spec", "action_adapter_spec", "value_function_spec", "dueling_q"),
    *("double_q", "memory_spec", "exploration_spec", "type", "architecture", "worker_sample_size"),
    *("feed_previous_action_through_nn", "feed_previous_reward_through_nn"),
)
"""Parts of the normal form that an agent must share with the files that it loads."""


class Files(Observes):
    """The part of an agent that is saved and loaded."""

    @exclusive
    def store_model(self, path: str | os.PathLike[str] | None = None, add_timestep: bool = True) -> str:
        """Write everything that the agent follows from: weights, memory, buffers, counters, generators.

        Args:
            path: a folder for checkpoints; None: ``saver_spec["directory"]``.
            add_timestep: add the timestep to the checkpoint's name.

        Returns:
            The checkpoint's folder: ``<path>/<checkpoint_basename>-<timesteps>``. Of these the newest
            ``max_checkpoints`` are kept.

        Raises:
            RLGraphError: there is no path, or something else is there.
            CheckpointError: it cannot be written; what was there stays.
        """
        where = self._begin("store_model")
        saver = self.form["saver_spec"]
        folder = saver["directory"] if path is None else path
        if folder is None:
            refuse(f"{where}: path", "is missing: pass one, or a saver_spec with a directory", None)
        name = saver["checkpoint_basename"]
        if flag(f"{where}: add_timestep", add_timestep):
            name = f"{name}-{self.timesteps}"
        with translate_errors(where):
            target = target_of(Path(os.fspath(folder)) / name, "a checkpoint", _FILES)
        with staged(target) as beside:
            write_state(beside / _STATE, self._state())
            write_json_atomically(beside / _MANIFEST, self._manifest())
        if saver["max_checkpoints"] is not None:
            for _, old in _numbered(target.parent, saver["checkpoint_basename"])[: -saver["max_checkpoints"]]:
                if old != target:
                    remove(old)
        return str(target)

    @exclusive
    def load_model(self, path: str | os.PathLike[str]) -> None:
        """Take over what :meth:`store_model` wrote: afterwards both agents go on alike, bit for bit.

        Args:
            path: a checkpoint's folder, or one that holds several: the one with the highest number.

        Raises:
            RLGraphError: there is none, it is damaged, or another agent's. Nothing is changed then.
        """
        where = self._begin("load_model")
        folder = self._found(where, Path(os.fspath(path)))
        try:
            manifest = json.loads((folder / _MANIFEST).read_text("utf-8"))
            fields.check(_MANIFEST, manifest, _FIELDS)
            state = read_state(folder / _STATE)
        except (CheckpointError, OSError, ValueError) as error:
            raise RLGraphError(f"{where}: {folder} cannot be read: {error}", "path", str(path)) from error
        own = self._manifest()["agent"]
        for name, value in own.items():
            if (saved := manifest["agent"].get(name)) != value:
                refuse(
                    f"{where}: path", f"has an agent whose {name} is {saved!r:.300}; here it is {value!r:.300}", path
                )
        self._take(state)

    @exclusive
    def export_graph(self, filename: str | os.PathLike[str]) -> str:
        """Write the policy as a folder that acts without TensorFlow, with the preprocessing inside.

        It is read by ``axonrl.runtimes.Policy.load``, whose ``act`` takes states and returns the best actions.

        Args:
            filename: of the folder; a suffix ``.meta`` is dropped.

        Returns:
            The folder.

        Raises:
            RLGraphError: the model cannot be converted, preprocessing remembers states, or something else is there.
        """
        where = self._begin("export_graph")
        model = self.core.model
        if model is None:
            refuse(where, "needs an agent with a model", type(self).__name__)
        name = os.fspath(filename)
        if name.endswith(".meta"):
            name = name.removesuffix(".meta")
            text = f"{where}: the policy is a folder, and no meta graph: it is written to {name}"
            warnings.warn(text, RLGraphWarning, stacklevel=2)
        spaces = (self.state_space, self.preprocessed_state_space, self.action_space)
        return export(where, model, spaces, self.preprocessor, (self.updates, self.timesteps), name)

    def _found(self, where: str, path: Path) -> Path:
        if (path / _MANIFEST).is_file():
            return path
        checkpoints = _numbered(path, self.form["saver_spec"]["checkpoint_basename"]) if path.is_dir() else []
        if not checkpoints:
            refuse(f"{where}: path", f"has no checkpoint that store_model has written: {path}", str(path))
        return checkpoints[-1][1]

    def _manifest(self) -> dict[str, Any]:
        """What a checkpoint says of the agent."""
        agent: dict[str, Any] = {name: self.form[name] for name in _SAME if name in self.form}
        agent |= {"state_space": self.state_space.to_spec(), "action_space": self.action_space.to_spec()}
        agent["optimizer"] = self.form.get("optimizer_spec", {}).get("type")
        agent["n_step"] = self.observe_spec["n_step"]
        plain: dict[str, Any] = json.loads(json.dumps(agent))
        return {"agent": plain, "timesteps": self.timesteps, "updates": self.updates}

    def _state(self) -> dict[str, Any]:
        return {
            "timesteps": self.timesteps,
            "updates": self.updates,
            "core": self.core.state_dict(),
            "preprocessor": self.preprocessor.state_dict(),
            "lanes": dict(self._lanes),
            "internals": {str(lane): parts for lane, parts in self._own_internals.items()},
            "buffers": {name: _of_buffer(buffer) for name, buffer in self._buffers.items()},
            "acts": {name: dict(zip(_ACT, parts, strict=True)) for name, parts in self._acts.items()},
        }

    def _take(self, state: Mapping[str, Any]) -> None:
        self.core.load_state_dict(state["core"])
        self.preprocessor.load_state_dict(state["preprocessor"])
        self.timesteps, self.updates = state["timesteps"], state["updates"]
        self._lanes = dict(state["lanes"])
        self._own_internals = {int(lane): dict(parts) for lane, parts in state["internals"].items()}
        self._buffers = {name: _buffer_of(parts) for name, parts in state["buffers"].items()}
        self._acts = {name: tuple(parts[part] for part in _ACT) for name, parts in state["acts"].items()}


_ACT: Final = ("state", "action", "extras")


def _of_buffer(buffer: Buffer) -> dict[str, Any]:
    noted = {str(index): extras for index, extras in enumerate(buffer.noted) if extras is not None}
    return {"columns": columns_of(buffer.records), "noted": noted}


def _buffer_of(state: Mapping[str, Any]) -> Buffer:
    records = records_of(state["columns"])
    return Buffer(records, [state["noted"].get(str(index)) for index in range(len(records))])


def _numbered(folder: Path, name: str) -> list[tuple[int, Path]]:
    """The checkpoints of a folder, by number."""
    found = []
    for path in folder.iterdir():
        matched = re.fullmatch(rf"{re.escape(name)}-(\d+)", path.name)
        if matched and (path / _MANIFEST).is_file():
            found.append((int(matched.group(1)), path))
    return sorted(found)
