"""Export of a policy to a directory that acts without TensorFlow (:class:`axonrl.policies.Policy`)."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

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
from ..run_dir.folders import staged, target_of, write_and_record
from ..run_dir.model_card import model_card
from ..run_dir.provenance import provenance
from ..run_dir.snapshot import PolicySnapshot

if TYPE_CHECKING:
    import gymnasium

    from ..policies.modes import ModelProgram

logger = logging.getLogger("axonrl")
PACKAGES: Final = ("onnx", "onnxruntime", "tf2onnx")
"""Packages of the extra ``onnx``."""

LITERT, ONNX = "litert", "onnx"
FORMATS: Final = (LITERT, ONNX)


Step: TypeAlias = "Callable[[Path, Mapping[str, Any]], dict[str, Any]]"
"""A function of an export's folder and the contents of its ``policy.json``; returns JSON values."""


class ActingModel(Protocol):
    """A model that acts, such as :class:`.model.Model`."""

    @property
    def program(self) -> ModelProgram:
        """The traced or compiled program."""

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
    write_onnx: Step | None = None,
    compare: Step | None = None,
    run: Path | None = None,
) -> Path:
    """Export a policy.

    The export is written beside ``directory`` and then renamed, so that the directory is complete whenever it exists.
    An existing export is replaced; any other content raises.

    Args:
        model: the acting model.
        config: includes the spaces.
        policy: what to export, with PREDICT's weights.
        directory: target; parents are created.
        preprocessing: the preprocessing of observations, as ``policies/preprocessing.py`` reads it.
        litert: whether to write a LiteRT program.
        write_onnx: writes the ONNX model, and returns its entry in ``policy.json``; None for no ONNX.
        compare: compares the files with the agent, and returns the contents of ``parity.json``; None for no comparison.
        run: the run folder, for the model card; None if there is none.

    Returns:
        The directory.

    Raises:
        ValueError: LiteRT cannot run the model (names the op), the exported policy does not act like the agent, or
            ``directory`` holds something else.
        CheckpointError: the directory cannot be written.
    """
    target, program = target_of(directory, "an export", description.FILES), model.program
    with _translate_errors(program.name):
        described = _policy_description(program, config, policy, preprocessing)
        made = model.acting_program() if litert else None
    with staged(target) as folder:
        _write_policy(folder, described, policy, made)
        if write_onnx is not None:
            described["onnx"] = _onnx_entry(folder, described, write_onnx)
        write_json_atomically(folder / description.FILE, described)
        parity = None if compare is None else _write_parity(folder, described, compare)
        write_file(folder / description.CARD, [model_card(described, run, parity).encode()])
    logger.info("exported to %s", target)
    return target


@contextlib.contextmanager
def _translate_errors(model: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{model} cannot be exported: {error}") from error


def _onnx_entry(folder: Path, described: Mapping[str, Any], write_onnx: Step) -> dict[str, Any]:
    try:
        return write_onnx(folder, described)
    except ValueError as error:
        raise ValueError(f"{described['model']} cannot be exported to ONNX: {error}") from error


def _write_policy(
    folder: Path, described: dict[str, Any], policy: PolicySnapshot, made: FrozenProgram | bytes | None
) -> None:
    """Write the LiteRT program, if there is one, and the weights; describe both files."""
    described["program"] = None if made is None else _write_program(folder, made, policy)
    specs = {name: ArraySpec(array.shape, array.dtype) for name, array in policy.weights.items()}
    described["weights"] = {
        **write_and_record(folder / description.WEIGHTS, encode_arrays(policy.weights)),
        "arrays": description.specs_to_json(specs),
    }


def _write_parity(folder: Path, described: Mapping[str, Any], compare: Step) -> dict[str, Any]:
    with _translate_errors(str(described["model"])):
        parity = compare(folder, described)
    write_json_atomically(folder / description.PARITY, parity)
    return parity


def check_target(directory: str | Path) -> None:
    """Check that the directory can be written, before any work.

    Raises:
        ArgumentError: it holds something other than an export.
        CheckpointError: it cannot be created; says why.
    """
    target = target_of(directory, "an export", description.FILES)
    if why := why_unwritable(target.parent):
        raise CheckpointError(f"{target} cannot be written: {why}. Choose another directory.")


def checked_formats(formats: Any) -> tuple[str, ...]:
    """Return the formats in order, without duplicates; ``ArgumentError`` for an unknown or unavailable one."""
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
        **write_and_record(folder / description.PROGRAM, [content]),
        "weights": "constants" if frozen else "variables",
        "placements": weight_patches.to_json(made.placements) if isinstance(made, FrozenProgram) else None,
    }


def _policy_description(
    program: ModelProgram, config: RunConfig, policy: PolicySnapshot, preprocessing: Mapping[str, Any] | None
) -> dict[str, Any]:
    normalization = normalization_of(policy.statistics)
    predict = program.predict
    exploration = Greedy() if predict.exploration is None else predict.exploration
    silent = _why_it_cannot_explore(exploration, bool(predict.noise))
    explores = None if silent else describe(exploration, policy.counters.global_timestep)
    if not (silent or explores):
        silent = f"{type(exploration).__name__} is not one of axonrl's explorations, and cannot be described"
    if silent:
        logger.warning("exporting without the behaviour policy (explore=True): %s", silent)
    observation, action = spaces.both_of(config)
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
        "exploration_note": silent,
        **({} if preprocessing is None else {"preprocessing": dict(preprocessing)}),
    }


def _why_it_cannot_explore(exploration: Exploration, draws: bool) -> str | None:
    """Why an export cannot reproduce this built-in exploration; ``draws`` says whether acting takes noise."""
    name = type(exploration).__name__
    if draws:
        return f"{name} explores by noise in the model during training, which is zero in an exported policy"
    if follows_run(exploration):
        return f"{name} follows the run's progress (over: run), which an exported policy does not know"
    return None


def _action_arrays(space: gymnasium.Space[Any]) -> dict[str, Any]:
    spec = spaces.action_spec(space)
    if isinstance(spec, ArraySpec):
        return description.specs_to_json({"array": spec})
    return {"arrays": description.specs_to_json(spec)}


def parts_of(observation: gymnasium.Space[Any]) -> dict[str, Any]:
    """Describe the arrays of one observation by name, as JSON values."""
    return {leaf.name: _part(leaf) for leaf in spaces.leaves(observation)}


def _part(leaf: spaces.Leaf) -> dict[str, Any]:
    low, high = (np.asarray(limit).tolist() for limit in spaces.limits(leaf.space) or (None, None))
    return {"shape": list(leaf.spec.shape), "dtype": leaf.spec.dtype.name, "low": low, "high": high}


def normalization_of(statistics: State | None) -> dict[str, Any] | None:
    """Normalisation of observations for an actor; None if there is none.

    Args:
        statistics: those of the training's wrappers, from :func:`axonrl.environments.statistics.statistics_of`.

    Raises:
        ValueError: the normalisation cannot be reproduced; says why.
    """
    found = [state for state in (statistics or {}).values() if state["kind"] == "NormalizeObservation"]
    if not found:
        return None
    (one, *others) = found
    if others or not one.get("is_last"):
        why = "each environment has its own statistics" if others else "other wrappers may follow it"
        raise ValueError(
            "training used Gymnasium's NormalizeObservation, which a policy alone cannot repeat"
            f" ({why}). Train with axonrl's normalize_observation (axonrl.environments.make)"
        )
    moments = one["obs_rms"]
    mean, var = moments["mean"], moments["var"]
    return {
        "kind": "NormalizeObservation",
        "mean": {"values": mean.tolist(), "dtype": mean.dtype.name},
        "var": {"values": var.tolist(), "dtype": var.dtype.name},
        "epsilon": one["epsilon"],
        "clip": one.get("clip"),  # only axonrl's normalize_observation clips
        **({"parts": one["parts"]} if "parts" in one else {}),  # for Dict and Tuple spaces
    }
