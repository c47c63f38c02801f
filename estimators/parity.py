"""Parity of exported files with their agent, tested on the same observations."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np
from gymnasium.spaces import Discrete, MultiBinary, MultiDiscrete

from ..core.protocols import Array, RunConfig
from ..policies import Policy, description
from ..policies.boundary import flat
from ..policies.executors import action_name
from ..run_dir.provenance import provenance
from ..run_dir.snapshot import PolicySnapshot
from .export import LITERT, ONNX, PACKAGES
from .model import Model
from .parity_rows import Boundary, Reference, Rows, concatenate, played_rows, random_rows

TOLERANCE: Final = 1e-4
"""Tolerance for floats, relative to their magnitude plus one. Rounding differences are about 1e-6."""
_NAMES: Final = {LITERT: "the LiteRT policy", ONNX: "the ONNX model"}
_NOT_PLAYED: Final = "episodes are played only for ONNX exports"


def compare_with_agent(
    model: Model,
    config: RunConfig,
    policy: PolicySnapshot,
    formats: tuple[str, ...],
    environment: Mapping[str, Any] | None,
    folder: Path,
    described: Mapping[str, Any],
) -> dict[str, Any]:
    """Compare an export with its model.

    Args:
        model: the acting model.
        config: includes the spaces.
        policy: the exported policy.
        formats: see :func:`compare`.
        environment: of the run.
        folder: of the export.
        described: contents of its ``policy.json``.

    Returns:
        Contents of ``parity.json``; errors as for :func:`compare`.
    """
    parts = description.parts(described["observation"]["arrays"])
    normalization = description.normalization_from(described["normalization"])
    boundary = Boundary(config.observation_space, config.action_space, parts, normalization)
    with model.acting(policy) as act:
        return compare(folder, formats, Reference(act, boundary, model.program.predict.state), environment)


def compare(
    folder: Path, formats: tuple[str, ...], reference: Reference, environment: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Run the exported files, as users do, and the agent on the same observations.

    Args:
        folder: of the export.
        formats: which files to compare.
        reference: the agent.
        environment: the run's, from ``run.json``, for playing episodes; None for none.

    Returns:
        Contents of ``parity.json``.

    Raises:
        ValueError: they differ; says where.
    """
    rows = {"random": random_rows(reference, np.random.default_rng(0))}
    why: str | None = _NOT_PLAYED
    if ONNX in formats:
        played, why = played_rows(reference, environment)
        rows |= {} if played is None else {"played": played}
    everything = concatenate([*rows.values()])
    found = {}
    if LITERT in formats:
        found[LITERT] = _compare_litert(Policy.load(folder), reference, everything)
    if ONNX in formats:
        run = _onnx_session((folder / description.ONNX).read_bytes())
        found[ONNX] = _compared_all(_NAMES[ONNX], run, reference, everything)
    observations = {kind: len(next(iter(one.observation.values()))) for kind, one in rows.items()}
    return {
        "formats": {
            name: {
                "observations": observations,
                "tolerance": TOLERANCE,
                "largest_difference": max(
                    (one.get("largest_difference", 0.0) for one in outputs.values()), default=0.0
                ),
                "outputs": outputs,
            }
            for name, outputs in found.items()
        },
        "played_note": why,
        "made_with": provenance() | {package: metadata.version(package) for package in PACKAGES if ONNX in formats},
    }


def _compare_litert(policy: Policy, reference: Reference, rows: Rows) -> dict[str, Any]:
    """Compare predictions at the start of episodes, and actions; two steps of them for recurrent models."""
    what = _NAMES[LITERT]

    def run(some: Rows) -> dict[str, Array]:
        predictions = flat(policy.predict(_observation(some)))
        return reference.in_spaces({name: np.asarray(array) for name, array in predictions})

    outputs = _compared_all(what, run, reference, reference.fresh(rows))
    policy.reset()
    for step, now in zip(("first", "second"), reference.steps(rows, 2 if reference.state else 1), strict=False):
        if len(next(iter(now.observation.values()))) == 0:
            break
        expected, taken = reference(now), flat(policy.act(_observation(now)))
        for part, array in taken:
            name = action_name(part)
            outputs[f"{step} {name}"] = _compare(f"{what}, {step} step,", name, np.asarray(array), expected, reference)
    return outputs


def _observation(rows: Rows) -> Any:
    return rows.observation if [*rows.observation] != [""] else rows.observation[""]


def _onnx_session(content: bytes) -> Callable[[Rows], dict[str, Array]]:
    onnxruntime: Any = importlib.import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of various types without a common public base class
        raise ValueError(f"ONNX Runtime cannot run the model: {error}") from error
    names = [output.name for output in session.get_outputs()]

    def run(rows: Rows) -> dict[str, Array]:
        given = {f"observation/{name}" if name else "observation": value for name, value in rows.observation.items()}
        given |= {f"state/{name}": value for name, value in rows.state.items()}
        return dict(zip(names, session.run(names, given), strict=True))

    return run


def _compared_all(
    what: str, run: Callable[[Rows], dict[str, Array]], reference: Reference, rows: Rows
) -> dict[str, Any]:
    """Compare every output of a batch, and of a batch of one."""
    expected, found = reference(rows), run(rows)
    outputs = {name: _compare(what, name, found[name], expected, reference) for name in sorted(found)}
    one = Rows(*({name: array[:1] for name, array in part.items()} for part in rows))
    first = {name: array[:1] for name, array in expected.items()}
    for name, array in run(one).items():
        _compare(f"{what}, in a batch of one,", name, array, first, reference)
    return outputs


def _compare(what: str, name: str, found: Array, expected: Mapping[str, Array], reference: Reference) -> Any:
    """Compare an output; returns its entry, or raises ``ValueError`` if it differs."""
    wanted = expected[name]
    if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
        raise ValueError(
            f"{what} differs from the agent: {name} is {found.dtype}{found.shape}, not {wanted.dtype}{wanted.shape}"
        )
    if wanted.dtype.kind == "f":
        wrong = ~np.isclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
        if wrong.any():
            raise ValueError(
                f"{what} differs from the agent: {name} is {found[wrong][0]:g} instead of {wanted[wrong][0]:g}"
            )
        return {"largest_difference": float(np.abs(found - wanted).max(initial=0.0))}
    same = (found == wanted).reshape(len(found), -1).all(axis=1)
    ties = sum(_is_tie(int(row), found[row], expected, name, reference) for row in np.flatnonzero(~same))
    if len(found) - same.sum() > ties:
        row = int(np.flatnonzero(~same)[0])
        raise ValueError(
            f"{what} differs from the agent: {name} differs in {len(found) - same.sum() - ties} of"
            f" {len(found)} observations: {found[row]} instead of {wanted[row]} in the first"
        )
    return {"equal": int(same.sum()), "ties": ties}


def _is_tie(row: int, found: Array, expected: Mapping[str, Array], name: str, reference: Reference) -> bool:
    """May either action be the best? True if a prediction gives both the same values, up to rounding."""
    space, wanted = reference.spaces.get(name), expected[name][row]
    if not isinstance(space, (Discrete, MultiDiscrete, MultiBinary)):
        return False
    if not (space.contains(found) and space.contains(wanted)):
        return False
    sizes, start = _choices(space)
    first = np.cumsum(sizes) - sizes - start
    one, other = (first + np.ravel(action).astype(np.int64) for action in (found, wanted))
    part = name.partition("/")[2]
    for predicted, array in expected.items():
        values = np.ravel(array[row])
        if array.dtype.kind != "f" or predicted.partition("/")[2] != part:
            continue
        if isinstance(space, MultiBinary):  # 1 is chosen from a logit above 0 on
            values = np.column_stack([np.zeros_like(values), values]).ravel()
        if len(values) == sizes.sum() and np.isclose(values[one], values[other], rtol=TOLERANCE, atol=TOLERANCE).all():
            return True
    return False


def _choices(space: Discrete[Any] | MultiDiscrete[Any] | MultiBinary) -> tuple[Array, Array]:
    """Number of choices of each part of an action [K], and the first of each [K]."""
    if isinstance(space, MultiBinary):
        bits = math.prod(space.shape)
        return np.full(bits, 2), np.zeros(bits, np.int64)
    return np.ravel(space.nvec if isinstance(space, MultiDiscrete) else space.n), np.ravel(space.start)
