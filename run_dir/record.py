"""``run.json``: everything a fresh process needs to know about a run, besides its weights."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import gymnasium

from ..core import fields
from ..core.checks import is_json
from ..core.errors import ArgumentError, CheckpointError
from ..environments import spaces
from .files import write_json_atomically

FILE = "run.json"
FORMAT = 1
REMEDY: Final = "Restore it from a copy, or train the run again in a new folder."
"""Remedy for a missing or damaged file of a run."""
_RUNTIME: Final = fields.one_of("tensorflow", "litert")
_NAMES: Final = fields.list_of(fields.text)
_KIND: Final = {"kind": fields.text}
_FIELDS: Final = fields.fields(
    {
        "format": fields.integer(),
        "seed": fields.integer(),
        "model_fn": fields.optional(fields.text),
        "params": fields.optional(fields.mapping),
        "unrecorded": _NAMES,
        "observation_space": fields.space,
        "action_space": fields.space,
        "num_envs": fields.integer(1),
        "runtime": fields.fields(dict.fromkeys(("actor", "learner"), _RUNTIME)),
        "runtime_why": fields.each(fields.fields({"code": fields.text, "detail": fields.text})),
        "made_with": fields.each(fields.optional(fields.scalar)),
        "not_exact": _NAMES,
        "environment": fields.optional(
            fields.fields(
                {"id": fields.text},
                {
                    "kwargs": fields.mapping,
                    "wrappers": fields.list_of(fields.fields(_KIND, others=fields.anything)),
                    "vectorization": fields.text,
                    "num_envs": fields.integer(1),
                    "unrecorded": fields.mapping,
                },
            )
        ),
        "memory": fields.optional(fields.fields(_KIND, others=fields.anything)),
        "warm_start": fields.optional(
            fields.fields({"from": fields.text}, {"new": _NAMES}, others=fields.anything),
        ),
        "schedule": fields.optional(fields.each(fields.integer(1))),
        "limits": fields.optional(fields.each(fields.integer())),
        "initial": fields.optional(fields.each(fields.scalar)),
        "code": fields.optional(fields.each(fields.fields({"digest": fields.text}, {"unknown": _NAMES}))),
    },
)
"""Contents of ``FILE``."""
logger = logging.getLogger("axonrl")


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """The record written when a run begins.

    ``params`` holds those that JSON can represent; ``unrecorded`` names the others, which must be passed again.
    """

    seed: int
    model_fn: str | None
    params: Mapping[str, Any] | None
    unrecorded: tuple[str, ...]
    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    num_envs: int
    runtime: Mapping[str, str]
    """Executors of the actor and of the learner, fixed for the run; ``runtime_why`` has the reasons."""
    runtime_why: Mapping[str, Mapping[str, str]]
    made_with: Mapping[str, Any]
    """Versions, machine and threads: see :func:`.provenance.provenance`."""
    not_exact: tuple[str, ...] = ()
    """Why this run does not resume exactly; empty if it does."""
    environment: Mapping[str, Any] | None = None
    """The environment as in an experiment file: ``id``, ``kwargs``, ``wrappers``; None if it cannot be described."""
    memory: Mapping[str, Any] | None = None
    """The memory as in an experiment file: ``kind`` and its arguments; None if it cannot be described."""
    warm_start: Mapping[str, Any] | None = None
    """Source and selection of initial weights; None without a warm start."""
    schedule: Mapping[str, int] | None = None
    """``first_update`` and ``update_frequency`` in use; None if they do not apply or are unknown."""
    limits: Mapping[str, int] | None = None
    """Limits of the last session: ``steps``, ``episodes``, ``timesteps``. A resumed run does not reuse them."""
    initial: Mapping[str, Any] | None = None
    """Initial values of the program's variables: see :mod:`.initial_values`."""
    code: Mapping[str, Any] | None = None
    """Digests of the user's own ``model_fn`` and ``environment``: see :mod:`.sources`."""

    def write(self, model_dir: Path) -> None:
        """Write the record to ``model_dir``, atomically."""
        value = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        value["format"] = FORMAT
        value["observation_space"] = spaces.to_json(self.observation_space)
        value["action_space"] = spaces.to_json(self.action_space)
        write_json_atomically(model_dir / FILE, value)


def existing(model_dir: str | Path) -> RunRecord:
    """Read the record of a run that exists.

    Raises:
        ArgumentError: there is none.
        CheckpointError: it cannot be read.
    """
    found = read(Path(model_dir))
    if found is None:
        what = "holds no run" if Path(model_dir).is_dir() else "does not exist"
        raise ArgumentError(f"{model_dir} {what}", "model_dir", model_dir)
    return found


def read(model_dir: Path) -> RunRecord | None:
    """Read the record in ``model_dir``; None if there is none.

    Raises:
        CheckpointError: it cannot be read; names the file and the problem.
    """
    path = model_dir / FILE
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged: it is not JSON ({error}). {REMEDY}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} is damaged: it holds a {type(value).__name__}, not a mapping. {REMEDY}")
    if value.get("format", FORMAT) != FORMAT:
        raise CheckpointError(f"{path} was written by another version of axonrl (this one reads format {FORMAT})")
    try:
        fields.check("", value, _FIELDS)
        del value["format"]
        value["observation_space"] = spaces.from_json(value["observation_space"])
        value["action_space"] = spaces.from_json(value["action_space"])
    except ArgumentError as error:
        raise CheckpointError(f"{path} is damaged: it is not the record of a run ({error}). {REMEDY}") from error
    value["unrecorded"], value["not_exact"] = tuple(value["unrecorded"]), tuple(value["not_exact"])
    return RunRecord(**value)


def recordable(params: Mapping[str, Any] | None) -> tuple[Mapping[str, Any] | None, tuple[str, ...]]:
    """Split params into those that JSON can hold and the names of the others. Tuples become lists."""
    if params is None:
        return None, ()
    kept = {name: value for name, value in params.items() if is_json(value)}
    return kept, tuple(name for name in params if name not in kept)
