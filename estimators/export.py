"""Export: a policy as a directory that acts without TensorFlow (:class:`axonrl.policies.Policy`)."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gymnasium.spaces import Discrete, MultiBinary, MultiDiscrete

from ..contracts import ArraySpec, RunConfig, State
from ..environments import spaces
from ..errors import CheckpointError
from ..explorations import Greedy
from ..explorations.describing import describe
from ..policies import description, patching
from ..policies.patching import FrozenProgram
from ..runs.arrays import encode_arrays
from ..runs.files import FileRecord, make_folders, remove, sync_folder, write_file, write_json_atomically
from ..runs.provenance import provenance
from ..runs.snapshot import PolicySnapshot
from ..schedules import follows_run

if TYPE_CHECKING:
    import gymnasium

    from ..runtimes.choosing import Cache
    from ..runtimes.tracing.program import Program

logger = logging.getLogger("axonrl")

_FILES: Final = frozenset({description.FILE, description.PROGRAM, description.WEIGHTS})


def export(program: Program, config: RunConfig, policy: PolicySnapshot, directory: str | Path, cache: Cache) -> Path:
    """Write a policy.

    It is written beside ``directory`` and renamed, so that a directory of this name is whole. An export that is there
    is replaced; anything else that is there is refused.

    Args:
        program: the traced ``model_fn``.
        config: with the spaces.
        policy: what to export, with PREDICT's weights.
        directory: where to; its parents are created.
        cache: where converted programs are kept.

    Returns:
        The directory.

    Raises:
        ValueError: LiteRT cannot run the model (names the op), or ``directory`` holds something else.
        CheckpointError: it cannot be written.
    """
    from ..runtimes.frozen import acting_program

    if not isinstance(directory, str | os.PathLike) or not str(directory):
        raise ValueError(f"directory must be a path, got {directory!r}")
    target = Path(directory).absolute()
    _refuse_other(target)
    try:
        made = acting_program(program, cache)
    except ValueError as error:
        raise ValueError(f"{program.name} cannot be exported: {error}") from error
    frozen = isinstance(made, FrozenProgram)
    content = made.with_weights(policy.weights) if isinstance(made, FrozenProgram) else made
    placements = patching.to_json(made.placements) if isinstance(made, FrozenProgram) else None
    described = _described(program, config, policy)
    _warn(described)
    staged = target.with_name(f".{target.name}.tmp")
    try:
        make_folders(target.parent)
        if staged.exists():  # of a writer that was killed
            remove(staged)
        staged.mkdir()
        described["program"] = {
            **_written(staged / description.PROGRAM, [content]),
            "weights": "constants" if frozen else "variables",
            "placements": placements,
        }
        specs = {name: ArraySpec(array.shape, array.dtype) for name, array in policy.weights.items()}
        described["weights"] = {
            **_written(staged / description.WEIGHTS, encode_arrays(policy.weights)),
            "arrays": description.specs_to_json(specs),
        }
        write_json_atomically(staged / description.FILE, described)
        _put_in_place(staged, target)
    except OSError as error:
        raise CheckpointError(f"{target} cannot be written: {error}") from error
    logger.info("exported to %s", target)
    return target


def _refuse_other(target: Path) -> None:
    """Only what an export wrote is written over."""
    if not target.exists() and not target.is_symlink():
        return
    if not target.is_dir() or target.is_symlink():
        raise ValueError(f"export needs a directory: {target} is a file or a link")
    found = {path.name for path in target.iterdir()}
    if found and (description.FILE not in found or not found <= _FILES):
        others = ", ".join(sorted(found - _FILES)[:3]) or ", ".join(sorted(found))
        raise ValueError(f"{target} holds something else than an export ({others}): choose another directory")


def _put_in_place(staged: Path, target: Path) -> None:
    before = target.with_name(f".{target.name}.old")
    if before.exists():  # of a writer that was killed
        remove(before)
    if target.exists():
        target.rename(before)
    staged.rename(target)
    sync_folder(target.parent)
    if before.exists():
        remove(before)


def _written(path: Path, pieces: Iterable[bytes | memoryview]) -> dict[str, Any]:
    written: FileRecord = write_file(path, pieces)
    return {"file": path.name, "size": written.size, "sha256": written.sha256}


def _described(program: Program, config: RunConfig, policy: PolicySnapshot) -> dict[str, Any]:
    predict = program.predict
    exploration = Greedy() if predict.exploration is None else predict.exploration
    explores = describe(exploration, policy.counters.global_timestep)
    normalization, normalization_note = normalization_of(policy.statistics)
    observation, action = config.observation_space, config.action_space
    if observation is None or action is None:
        raise ValueError(f"the spaces of {program.name} are not known")
    return {
        "format": description.FORMAT,
        "format_version": description.FORMAT_VERSION,
        "model": program.name,
        "policy": policy.name,
        "trained": dataclasses.asdict(policy.counters),
        "made_with": provenance(),
        "observation": {
            "space": spaces.to_json(observation),
            "arrays": parts_of(observation),
        },
        "normalization": normalization,
        "normalization_note": normalization_note,
        "action": {
            "space": spaces.to_json(action),
            **description.specs_to_json({"array": spaces.action_spec(action)}),
        },
        "predictions": description.specs_to_json(predict.outputs),
        "state": None if predict.state is None else description.specs_to_json(predict.state),
        "exploration": explores,
        "exploration_note": None
        if explores
        else f"{type(exploration).__name__} follows the run (over: run), which an exported policy does not know"
        if follows_run(exploration)
        else f"{type(exploration).__name__} is not one of axonrl's explorations, and cannot be described",
    }


def parts_of(observation: gymnasium.Space[Any]) -> dict[str, Any]:
    """The arrays of one observation by name, as JSON values."""
    return {leaf.name: _part(leaf) for leaf in spaces.leaves(observation)}


def _part(leaf: spaces.Leaf) -> dict[str, Any]:
    space, spec = leaf.space, leaf.spec
    low: Any = None
    high: Any = None
    if isinstance(space, Discrete):
        low, high = int(space.start), int(space.start) + int(space.n) - 1
    elif isinstance(space, MultiDiscrete):
        low, high = space.start.tolist(), (space.start + (space.nvec - 1)).tolist()
    elif isinstance(space, MultiBinary):
        low, high = 0, 1
    return {"shape": list(spec.shape), "dtype": spec.dtype.name, "low": low, "high": high}


def normalization_of(statistics: State | None) -> tuple[dict[str, Any] | None, str | None]:
    """What the actor does to observations, and what it must be given where it cannot do it.

    Args:
        statistics: of the training's wrappers, as :func:`.wrappers.statistics_of` returned them.
    """
    found = [state for state in (statistics or {}).values() if state["kind"] == "NormalizeObservation"]
    if not found:
        return None, None
    (one, *others) = found
    if others or not one.get("is_last"):
        why = "each environment had its own" if others else "something else may have come after it"
        return None, (
            "the training's observations went through Gymnasium's NormalizeObservation, which the export cannot take"
            f" over ({why}): give the policy observations that are normalised as in the training"
        )
    moments = one["obs_rms"]
    mean, var = moments["mean"], moments["var"]
    return {
        "kind": "NormalizeObservation",
        "mean": {"values": mean.tolist(), "dtype": mean.dtype.name},
        "var": {"values": var.tolist(), "dtype": var.dtype.name},
        "epsilon": one["epsilon"],
        "clip": one.get("clip"),  # axonrl's normalize_observation has one, Gymnasium's wrapper has not
    }, None


def _warn(described: Mapping[str, Any]) -> None:
    for note in ("normalization_note", "exploration_note"):
        if described[note] is not None:
            logger.warning("export: %s", described[note])
