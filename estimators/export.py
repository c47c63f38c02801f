"""Export: a policy as a directory that acts without TensorFlow (:class:`axonrl.policies.Policy`)."""

from __future__ import annotations

import dataclasses
import importlib.util
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from ..core.errors import ArgumentError, CheckpointError
from ..core.protocols import ArraySpec, Exploration, RunConfig, State
from ..core.schedules import follows_run
from ..environments import spaces
from ..explorations import Greedy
from ..explorations.description import describe
from ..policies import description, weight_patches
from ..policies.weight_patches import FrozenProgram
from ..run_dir.arrays import encode_arrays
from ..run_dir.files import why_unwritable, write_file, write_json_atomically
from ..run_dir.folders import staged, target_of, written
from ..run_dir.model_card import model_card
from ..run_dir.provenance import provenance
from ..run_dir.snapshot import PolicySnapshot

if TYPE_CHECKING:
    import gymnasium

    from ..policies.modes import ModelProgram

logger = logging.getLogger("axonrl")
PACKAGES: Final = ("onnx", "onnxruntime", "tf2onnx")
"""What the extra ``onnx`` brings."""

LITERT, ONNX = "litert", "onnx"
FORMATS: Final = (LITERT, ONNX)
_FILES: Final = (
    *(description.FILE, description.PROGRAM, description.WEIGHTS),
    *(description.ONNX, description.PARITY, description.CARD),
)


class ActingModel(Protocol):
    """What acts, such as a :class:`.model.Model`."""

    @property
    def program(self) -> ModelProgram:
        """What was traced or compiled."""

    def acting_program(self) -> FrozenProgram | bytes:
        """PREDICT alone in LiteRT; ``ValueError`` if LiteRT cannot run it."""


def export(
    model: ActingModel,
    config: RunConfig,
    policy: PolicySnapshot,
    directory: str | Path,
    preprocessing: Mapping[str, Any] | None = None,
    *,
    litert: bool = True,
    write_onnx: Callable[[Path, Mapping[str, Any]], dict[str, Any]] | None = None,
    compare: Callable[[Path, Mapping[str, Any]], dict[str, Any]] | None = None,
    run: Path | None = None,
) -> Path:
    """Write a policy.

    It is written beside ``directory`` and renamed, so that a directory of this name is whole. An export that is there
    is replaced; anything else that is there is refused.

    Args:
        model: what acts.
        config: with the spaces.
        policy: what to export, with PREDICT's weights.
        directory: where to; its parents are created.
        preprocessing: what is done to observations first, as ``policies/preprocessing.py`` reads it.
        litert: whether to write a LiteRT program.
        write_onnx: writes the ONNX model into a folder, given what ``policy.json`` will hold, and returns what that
            says of it; None for none.
        compare: compares what was written into a folder, given what ``policy.json`` holds, with the agent, and returns
            what ``parity.json`` will hold; None for no comparison.
        run: the run folder, for the model card; None where there is none.

    Returns:
        The directory.

    Raises:
        ValueError: LiteRT cannot run the model (names the op), what was written does not act as the agent does, or
            ``directory`` holds something else.
        CheckpointError: it cannot be written.
    """
    target, program = target_of(directory, "an export", _FILES), model.program
    try:
        described = _described(program, config, policy, normalization_of(policy.statistics))
        made = model.acting_program() if litert else None
    except ValueError as error:
        raise ValueError(f"{program.name} cannot be exported: {error}") from error
    if preprocessing is not None:
        described["preprocessing"] = dict(preprocessing)
    if described["exploration_note"] is not None:
        logger.warning("export: %s", described["exploration_note"])
    with staged(target) as folder:
        described["program"] = None if made is None else _write_program(folder, made, policy)
        specs = {name: ArraySpec(array.shape, array.dtype) for name, array in policy.weights.items()}
        described["weights"] = {
            **written(folder / description.WEIGHTS, encode_arrays(policy.weights)),
            "arrays": description.specs_to_json(specs),
        }
        if write_onnx is not None:
            try:
                described["onnx"] = write_onnx(folder, described)
            except ValueError as error:
                raise ValueError(f"{program.name} cannot be exported to ONNX: {error}") from error
        write_json_atomically(folder / description.FILE, described)
        parity = None
        if compare is not None:
            try:
                parity = compare(folder, described)
            except ValueError as error:
                raise ValueError(f"{program.name} cannot be exported: {error}") from error
            write_json_atomically(folder / description.PARITY, parity)
        write_file(folder / description.CARD, [model_card(described, run, parity).encode()])
    logger.info("exported to %s", target)
    return target


def check_target(directory: str | Path) -> None:
    """Refuse, before any work, a directory that could not be written.

    Raises:
        ArgumentError: there is something else than an export.
        CheckpointError: it cannot be created; says why.
    """
    target = target_of(directory, "an export", _FILES)
    if why := why_unwritable(target.parent):
        raise CheckpointError(f"{target} cannot be written: {why}. Choose another directory.")


def checked_formats(formats: Any) -> tuple[str, ...]:
    """The formats to write, in order and once each; ``ArgumentError`` if one is unknown or cannot be written here."""
    given = (formats,) if isinstance(formats, str) else formats
    if not isinstance(given, Iterable) or not (listed := [*given]) or not all(one in FORMATS for one in listed):
        message = f"formats must be some of {', '.join(map(repr, FORMATS))}, got {formats!r}"
        raise ArgumentError(message, "formats", formats)
    missing = [package for package in PACKAGES if ONNX in listed and importlib.util.find_spec(package) is None]
    if missing:
        message = f"formats: 'onnx' needs {', '.join(missing)}, not installed here: pip install 'axonrl[onnx]'"
        raise ArgumentError(message, "formats", formats)
    return tuple(one for one in FORMATS if one in listed)


def _write_program(folder: Path, made: FrozenProgram | bytes, policy: PolicySnapshot) -> dict[str, Any]:
    frozen = isinstance(made, FrozenProgram)
    content = made.with_weights(policy.weights) if isinstance(made, FrozenProgram) else made
    return {
        **written(folder / description.PROGRAM, [content]),
        "weights": "constants" if frozen else "variables",
        "placements": weight_patches.to_json(made.placements) if isinstance(made, FrozenProgram) else None,
    }


def _described(
    program: ModelProgram, config: RunConfig, policy: PolicySnapshot, normalization: dict[str, Any] | None
) -> dict[str, Any]:
    predict = program.predict
    exploration = Greedy() if predict.exploration is None else predict.exploration
    silent = _why_it_cannot_explore(exploration, bool(predict.noise))
    explores = None if silent else describe(exploration, policy.counters.global_timestep)
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
        "action": {
            "space": spaces.to_json(action),
            **_action_arrays(action),
        },
        "predictions": description.specs_to_json(predict.outputs),
        "state": None if predict.state is None else description.specs_to_json(predict.state),
        "exploration": explores,
        "exploration_note": silent
        if silent or explores
        else f"{type(exploration).__name__} is not one of axonrl's explorations, and cannot be described",
    }


def _why_it_cannot_explore(exploration: Exploration, draws: bool) -> str | None:
    """Why an export cannot explore like this exploration of axonrl's; ``draws`` is whether acting takes noise."""
    name = type(exploration).__name__
    if draws:
        return f"{name} explores by noise that the model draws while it trains, which is zero in an exported policy"
    if follows_run(exploration):
        return f"{name} follows the run (over: run), which an exported policy does not know"
    return None


def _action_arrays(space: gymnasium.Space[Any]) -> dict[str, Any]:
    spec = spaces.action_spec(space)
    if isinstance(spec, ArraySpec):
        return description.specs_to_json({"array": spec})
    return {"arrays": description.specs_to_json(spec)}


def parts_of(observation: gymnasium.Space[Any]) -> dict[str, Any]:
    """The arrays of one observation by name, as JSON values."""
    return {leaf.name: _part(leaf) for leaf in spaces.leaves(observation)}


def _part(leaf: spaces.Leaf) -> dict[str, Any]:
    low, high = (np.asarray(limit).tolist() for limit in spaces.limits(leaf.space) or (None, None))
    return {"shape": list(leaf.spec.shape), "dtype": leaf.spec.dtype.name, "low": low, "high": high}


def normalization_of(statistics: State | None) -> dict[str, Any] | None:
    """What an actor does to the observations that it is given; None if that is nothing.

    Args:
        statistics: of the training's wrappers, as :func:`axonrl.environments.statistics.statistics_of` returned them.

    Raises:
        ValueError: it cannot do what the training's wrappers did; says why.
    """
    found = [state for state in (statistics or {}).values() if state["kind"] == "NormalizeObservation"]
    if not found:
        return None
    (one, *others) = found
    if others or not one.get("is_last"):
        why = "each environment had its own" if others else "something else may have come after it"
        raise ValueError(
            "the training's observations went through Gymnasium's NormalizeObservation, which an actor cannot take over"
            f" ({why}). Train with axonrl's normalize_observation (axonrl.environments.make)"
        )
    moments = one["obs_rms"]
    mean, var = moments["mean"], moments["var"]
    return {
        "kind": "NormalizeObservation",
        "mean": {"values": mean.tolist(), "dtype": mean.dtype.name},
        "var": {"values": var.tolist(), "dtype": var.dtype.name},
        "epsilon": one["epsilon"],
        "clip": one.get("clip"),  # axonrl's normalize_observation has one, Gymnasium's wrapper has not
        **({"parts": one["parts"]} if "parts" in one else {}),  # of a Dict or a Tuple
    }
