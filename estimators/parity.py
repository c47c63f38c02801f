"""Does an ONNX model act as the agent does? Observations through both, and what was found."""

from __future__ import annotations

import copy
import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any, Final, NamedTuple

import gymnasium
import numpy as np

from ..contracts import Array, ArraySpec
from ..environments import make, spaces
from ..policies.boundary import ObservationsIn, flat
from ..policies.description import Normalization, Part
from ..policies.executors import Acted, action_names
from ..runs.provenance import provenance
from .export import PACKAGES

TOLERANCE: Final = 1e-4
"""Of a float, relative to its size plus one. Rounding differs by 1e-6."""
RANDOM: Final = 256
PLAYED: Final = 256
"""How many observations of each kind."""
_WIDE: Final = 1e6
"""Bounds that are farther apart are none: sums of such observations overflow."""
_NORMALIZE: Final = ("normalize_observation", "normalize_reward")
logger = logging.getLogger("axonrl")


class Boundary(NamedTuple):
    """What stands around a model: the spaces, and what is done to observations first."""

    observation_space: Any
    action_space: Any
    parts: Sequence[Part]
    normalization: Normalization | None


class Rows(NamedTuple):
    """Observations [B, ...] by part, as an environment returns them, and recurrent states."""

    observation: dict[str, Array]
    state: dict[str, Array]


class Reference:
    """What the agent does: its own executor, and NumPy around it.

    Args:
        act: the model's PREDICT, with the weights of the policy.
        boundary: around it.
        state: one row of each recurrent state; None if the model has none.
    """

    def __init__(self, act: Callable[[Any], Acted], boundary: Boundary, state: Mapping[str, ArraySpec] | None) -> None:
        self._act = act
        self.boundary = boundary
        self.state = dict(sorted((state or {}).items()))
        self._is_dict = [part.name for part in boundary.parts] != [""]
        self._observations = ObservationsIn(boundary.parts, self._is_dict, boundary.normalization)
        self._spaces = {f"action/{leaf.name}" if leaf.name else "action": leaf.space for leaf in _actions(boundary)}

    def __call__(self, rows: Rows) -> dict[str, Array]:
        """Everything that the ONNX model returns, by the same names."""
        observation: Any = rows.observation if self._is_dict else rows.observation[""]
        arrays, _ = self._observations(observation)
        names = sorted(rows.observation)
        features: Any = dict(zip(names, arrays, strict=True)) if self._is_dict else arrays[0]
        predictions, state = self._act({"observation": features, "state": rows.state} if self.state else features)
        found = {name: np.asarray(array) for name, array in flat(predictions)}
        for name in action_names(found):
            found[name] = _in_space(found[name], self._spaces[name])
        return found | {f"next_state/{name}": np.asarray(array) for name, array in (state or {}).items()}


def _actions(boundary: Boundary) -> tuple[spaces.Leaf, ...]:
    return spaces.leaves(boundary.action_space, "action")


def _in_space(action: Array, space: Any) -> Array:
    array = action.astype(space.dtype)
    return np.minimum(np.maximum(array, space.low), space.high) if hasattr(space, "low") else array


def compare(content: bytes, reference: Reference, environment: Mapping[str, Any] | None) -> dict[str, Any]:
    """Run an ONNX model and the agent on the same observations.

    Args:
        content: of the ONNX file.
        reference: the agent.
        environment: that of the run, as ``run.json`` has it, in which observations are played; None for none.

    Returns:
        What ``parity.json`` holds.

    Raises:
        ValueError: they differ; says in what.
    """
    run = _session(content)
    rows = {"random": _random(reference, np.random.default_rng(0))}
    played, why = _played(reference, environment)
    if played is not None:
        rows["played"] = played
    everything = _joined([*rows.values()])
    expected, found = reference(everything), run(everything)
    alone = run(Rows(*({name: array[:1] for name, array in part.items()} for part in everything)))
    outputs = {name: _compared(name, found[name], expected, alone[name], reference) for name in sorted(expected)}
    return {
        "compared": {kind: len(next(iter(one.observation.values()))) for kind, one in rows.items()},
        "played_note": why,
        "tolerance": TOLERANCE,
        "outputs": outputs,
        "made_with": provenance() | {package: metadata.version(package) for package in PACKAGES},
    }


def _session(content: bytes) -> Callable[[Rows], dict[str, Array]]:
    onnxruntime: Any = importlib.import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its own kinds, which have no common public class
        raise ValueError(f"ONNX Runtime cannot run the model: {error}") from error
    names = [output.name for output in session.get_outputs()]

    def run(rows: Rows) -> dict[str, Array]:
        given = {f"observation/{name}" if name else "observation": value for name, value in rows.observation.items()}
        given |= {f"state/{name}": value for name, value in rows.state.items()}
        return dict(zip(names, session.run(names, given), strict=True))

    return run


def _compared(name: str, found: Array, expected: Mapping[str, Array], alone: Array, reference: Reference) -> Any:
    """What is written of an output; ``ValueError`` if it differs."""
    wanted = expected[name]
    if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
        raise ValueError(f"the ONNX model's {name} is {found.dtype}{found.shape}, not {wanted.dtype}{wanted.shape}")
    if wanted.dtype.kind == "f":
        _refuse_difference(name, found, wanted)
        _refuse_difference(f"{name} of a batch of one", alone, wanted[:1])
        return {"largest_difference": float(np.abs(found - wanted).max(initial=0.0))}
    same = (found == wanted).reshape(len(found), -1).all(axis=1)
    ties = sum(_is_tie(int(row), found[row], expected, name, reference) for row in np.flatnonzero(~same))
    if len(found) - same.sum() > ties:
        row = int(np.flatnonzero(~same)[0])
        raise ValueError(
            f"the ONNX model's {name} is another in {len(found) - same.sum() - ties} of {len(found)} observations:"
            f" {found[row]} instead of {wanted[row]} in the first"
        )
    return {"equal": int(same.sum()), "ties": ties}


def _refuse_difference(what: str, found: Array, wanted: Array) -> None:
    wrong = ~np.isclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
    if wrong.any():
        raise ValueError(f"the ONNX model's {what} is {found[wrong][0]:g} instead of {wanted[wrong][0]:g}")


def _is_tie(row: int, found: Array, expected: Mapping[str, Array], name: str, reference: Reference) -> bool:
    """May either action be the best one? Where some prediction values both alike, but for rounding."""
    space = reference.boundary.action_space
    if name != "action" or not hasattr(space, "n") or not hasattr(space, "start"):
        return False
    one, other = (int(action) - int(space.start) for action in (found, expected[name][row]))
    if not (0 <= one < space.n and 0 <= other < space.n):
        return False
    values = [array[row] for array in expected.values() if array.dtype.kind == "f" and array.shape[1:] == (space.n,)]
    return any(bool(np.isclose(each[one], each[other], rtol=TOLERANCE, atol=TOLERANCE)) for each in values)


def _random(reference: Reference, rng: np.random.Generator) -> Rows:
    """Observations of the spaces; where a space has no bounds, normal ones, like those that were seen."""
    boundary = reference.boundary
    leaves = {leaf.name: leaf for leaf in spaces.leaves(boundary.observation_space)}
    observation = {part.name: _drawn(leaves[part.name], part, boundary.normalization, rng) for part in boundary.parts}
    state = {
        name: rng.standard_normal((RANDOM, *spec.shape)).astype(spec.dtype) for name, spec in reference.state.items()
    }
    return Rows(observation, state)


def _drawn(leaf: spaces.Leaf, part: Part, normalization: Normalization | None, rng: np.random.Generator) -> Array:
    if normalization is not None:
        deviation = np.sqrt(normalization.var)
        return (normalization.mean + 3 * deviation * rng.standard_normal((RANDOM, *part.spec.shape))).astype(np.float32)
    low, high = (np.asarray(getattr(leaf.space, bound, 0), np.float64) for bound in ("low", "high"))
    if part.spec.dtype.kind == "f" and not (np.isfinite(low) & np.isfinite(high) & (high - low < _WIDE)).all():
        numbers = 3 * rng.standard_normal((RANDOM, *part.spec.shape))
        return np.minimum(np.maximum(numbers, low), high).astype(part.spec.dtype)
    space = copy.deepcopy(leaf.space)
    space.seed(int(rng.integers(2**31)))
    return np.asarray([space.sample() for _ in range(RANDOM)], part.spec.dtype)


def _played(reference: Reference, environment: Mapping[str, Any] | None) -> tuple[Rows | None, str | None]:
    """Observations of episodes in the run's environment, with the agent's actions; or why there are none."""
    if environment is None:
        return None, "the run's environment is an object, which run.json cannot name"
    wrappers = [one for one in environment["wrappers"] if one.get("kind") not in _NORMALIZE]
    try:
        env: Any = make(environment["id"], wrappers=wrappers, **environment["kwargs"])
        try:
            return _play(reference, env), None
        finally:
            env.close()
    except Exception as error:  # of an environment that is somebody else's: the random observations are compared
        logger.warning("export: no observations of %s are compared: %s", environment["id"], error)
        return None, f"{type(error).__name__}: {error}"


def _play(reference: Reference, env: Any) -> Rows:
    boundary, rows, episode = reference.boundary, list[Rows](), 0
    dtypes = {part.name: np.dtype(np.float32) if boundary.normalization else part.spec.dtype for part in boundary.parts}
    zeros = {name: np.zeros((1, *spec.shape), spec.dtype) for name, spec in reference.state.items()}
    state, over, observation = zeros, True, None
    while len(rows) < PLAYED:
        if over:
            (observation, _), state, episode = env.reset(seed=episode), zeros, episode + 1
        given = dict(flat(observation))
        rows.append(Rows({name: np.asarray(given[name], dtype)[None] for name, dtype in dtypes.items()}, state))
        results = reference(rows[-1])
        state = {name: results[f"next_state/{name}"] for name in zeros}
        observation, _, terminated, truncated, _ = env.step(_action(boundary.action_space, results, "action"))
        over = terminated or truncated
    return _joined(rows)


def _joined(several: Sequence[Rows]) -> Rows:
    """Batches one after the other."""
    return Rows(
        *({name: np.concatenate([rows[i][name] for rows in several]) for name in several[0][i]} for i in (0, 1))
    )


def _action(space: Any, results: Mapping[str, Array], name: str) -> Any:
    """One action as ``env.step`` takes it."""
    inner = spaces.parts(space)
    if not inner:
        return results[name][0]
    made = {key: _action(part, results, f"{name}/{key}") for key, part in inner}
    return tuple(made.values()) if isinstance(space, gymnasium.spaces.Tuple) else made
