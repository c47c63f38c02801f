"""PolicySnapshot: a policy as a value, independent of an executor's current weights."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..core import fields
from ..core.errors import CheckpointError
from ..core.protocols import Array, State
from .arrays import join_state, load_arrays, save_arrays, split_state

_INFO: Final = "info"
_STATISTICS: Final = "statistics"


@dataclasses.dataclass
class Counters:
    """Progress of a run: updates, actions (one per environment and step) and finished episodes."""

    global_step: int = 0
    global_timestep: int = 0
    global_episode: int = 0


_COUNTERS: Final = tuple(field.name for field in dataclasses.fields(Counters))
_HEADER: Final = fields.fields({}, dict.fromkeys(_COUNTERS, fields.integer()), others=fields.anything)


@dataclasses.dataclass(frozen=True)
class PolicySnapshot:
    """A policy at one moment of a training; its arrays never change.

    ``name`` is ``"last"``, the name of a kept policy (``"best"``), or ``"initial"`` for untrained weights. ``weights``
    are PREDICT's variables by name. ``statistics`` are those of the training's normalising wrappers; None before
    training. ``info`` is what a kept policy was saved with: the results of its evaluation, and the counters.
    """

    name: str
    weights: Mapping[str, Array]
    statistics: State | None
    counters: Counters
    info: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def save(self, path: Path, info: Mapping[str, Any]) -> None:
        """Write the policy as one safetensors file, atomically, with ``info`` (JSON values) in its header.

        Raises:
            CheckpointError: it cannot be written.
        """
        about = {_INFO: json.dumps({**info, **dataclasses.asdict(self.counters)})}
        arrays: dict[str, Array] = {}
        if self.statistics:
            split, tree = split_state({_STATISTICS: self.statistics})
            arrays = {name: np.asarray(array) for name, array in split.items()}
            about[_STATISTICS] = json.dumps(tree)
        save_arrays(path, {**self.weights, **arrays}, about)


def load_snapshot(name: str, path: Path) -> PolicySnapshot:
    """Read a file of :meth:`PolicySnapshot.save`.

    Raises:
        CheckpointError: it cannot be read.
    """
    arrays, about = load_arrays(path)
    learnt = {key: arrays.pop(key) for key in list(arrays) if key.startswith(f"{_STATISTICS}/")}
    try:
        info = json.loads(about.get(_INFO, "{}"))
        fields.check(_INFO, info, _HEADER)
        statistics = join_state(learnt, json.loads(about[_STATISTICS]))[_STATISTICS] if _STATISTICS in about else {}
    except (CheckpointError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged: its header: {error}") from error
    known = {name: info[name] for name in _COUNTERS if name in info}
    return PolicySnapshot(name, arrays, statistics, Counters(**known), info)


def policies_in(folder: Path) -> list[str]:
    """Names of the policies in a run folder: ``"last"``, and kept ones."""
    return ["last", *sorted(path.stem for path in folder.glob("*.safetensors"))]


def snapshot_of(name: str, checkpoint: Mapping[str, Any]) -> PolicySnapshot:
    """Extract the policy from the state of a checkpoint; its weights are those of the whole model."""
    return PolicySnapshot(name, checkpoint["weights"], checkpoint["statistics"], Counters(**checkpoint["counters"]))
