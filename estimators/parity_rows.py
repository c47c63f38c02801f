"""Observations for comparing an exported policy with its agent, and the agent's outputs for them."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ..core.protocols import Array, ArraySpec
from ..environments import make, spaces
from ..environments.actions import nest
from ..policies.boundary import ObservationsIn, flat
from ..policies.description import Normalization, Part
from ..policies.executors import Acted, action_name, action_names

RANDOM: Final = 256
PLAYED: Final = 256
"""Number of observations of each kind."""
_MAX_VALUES: Final = 1 << 21
"""Limit of compared numbers: large images use fewer random observations."""
_MIN_RANDOM: Final = 32
_WIDE: Final = 1e6
"""Wider bounds are treated as unbounded: sums of such observations overflow."""
_NORMALIZE: Final = ("normalize_observation", "normalize_reward")
logger = logging.getLogger("axonrl")


class Boundary(NamedTuple):
    """Interface of a model: spaces, and preprocessing of observations."""

    observation_space: Any
    action_space: Any
    parts: Sequence[Part]
    normalization: Mapping[str, Normalization]


class Rows(NamedTuple):
    """Observations [B, ...] by part, as returned by an environment, and recurrent states."""

    observation: dict[str, Array]
    state: dict[str, Array]


class Reference:
    """The agent's outputs: its own executor, with NumPy pre- and postprocessing.

    Args:
        act: the model's PREDICT, with the policy's weights.
        boundary: the model's interface.
        state: one row of each recurrent state; None if the model has none.
    """

    def __init__(self, act: Callable[[Any], Acted], boundary: Boundary, state: Mapping[str, ArraySpec] | None) -> None:
        self._act = act
        self.boundary = boundary
        self.state = dict(sorted((state or {}).items()))
        self._is_dict = [part.name for part in boundary.parts] != [""]
        self._observations = ObservationsIn(boundary.parts, self._is_dict, boundary.normalization)
        self.spaces = {action_name(leaf.name): leaf.space for leaf in _actions(boundary)}
        """Spaces of the actions, by the name of their prediction."""

    def __call__(self, rows: Rows) -> dict[str, Array]:
        """Predictions, actions for the environment, and the next state, under the names of ONNX outputs."""
        predictions, state = self._predictions(rows)
        return self.in_spaces(predictions) | {f"next_state/{name}": array for name, array in state.items()}

    def _predictions(self, rows: Rows) -> tuple[dict[str, Array], dict[str, Array]]:
        observation: Any = rows.observation if self._is_dict else rows.observation[""]
        features: Any = self._observations.features(observation)[0]
        predictions, state = self._act({"observation": features, "state": rows.state} if self.state else features)
        found = {name: np.asarray(array) for name, array in flat(predictions)}
        return found, {name: np.asarray(array) for name, array in (state or {}).items()}

    def in_spaces(self, predictions: dict[str, Array]) -> dict[str, Array]:
        """Convert actions to the dtype and bounds of their spaces."""
        actions = {name: _in_space(predictions[name], self.spaces[name]) for name in action_names(predictions)}
        return predictions | actions

    def fresh(self, rows: Rows) -> Rows:
        """The same observations, as first ones of episodes."""
        size = len(next(iter(rows.observation.values())))
        return rows._replace(
            state={name: np.zeros((size, *spec.shape), spec.dtype) for name, spec in self.state.items()}
        )

    def steps(self, rows: Rows, number: int) -> list[Rows]:
        """The first steps of episodes that repeat the same observation.

        Rows with an action outside the space, which ``Policy.act`` refuses, are left out: for random observations a
        model may return NaN, and random masks need not leave a legal action.
        """
        seen, now = [], self.fresh(rows)
        legal = np.ones(len(next(iter(rows.observation.values()))), np.bool_)
        for _ in range(number):
            seen.append(now)
            predictions, state = self._predictions(now)
            for name in action_names(predictions):
                legal &= _is_in(predictions[name], self.spaces[name])
            now = now._replace(state=state)
        return [Rows(*({name: array[legal] for name, array in part.items()} for part in one)) for one in seen]


def _is_in(actions: Array, space: Any) -> Array:
    """Which actions [B, ...] are in the space? Those of a Box only have to be finite."""
    if hasattr(space, "low"):
        return np.asarray(np.isfinite(actions).reshape(len(actions), -1).all(axis=1))
    cast = actions.astype(space.dtype)
    return np.array([bool((one == raw).all()) and space.contains(one) for one, raw in zip(cast, actions, strict=True)])


def _actions(boundary: Boundary) -> tuple[spaces.Leaf, ...]:
    return spaces.leaves(boundary.action_space, "action")


def _in_space(action: Array, space: Any) -> Array:
    array = action.astype(space.dtype)
    return np.minimum(np.maximum(array, space.low), space.high) if hasattr(space, "low") else array


def random_rows(reference: Reference, rng: np.random.Generator) -> Rows:
    """Random observations of the spaces; normally distributed for unbounded spaces, similar to observed ones."""
    boundary = reference.boundary
    leaves = {leaf.name: leaf for leaf in spaces.leaves(boundary.observation_space)}
    size = sum(math.prod(part.spec.shape) for part in boundary.parts)
    number = min(RANDOM, max(_MIN_RANDOM, _MAX_VALUES // max(size, 1)))
    observation = {
        part.name: _draw_values(leaves[part.name], part, boundary.normalization.get(part.name), rng, number)
        for part in boundary.parts
    }
    state = {
        name: rng.standard_normal((number, *spec.shape)).astype(spec.dtype) for name, spec in reference.state.items()
    }
    return Rows(observation, state)


def _draw_values(
    leaf: spaces.Leaf, part: Part, normalization: Normalization | None, rng: np.random.Generator, number: int
) -> Array:
    if normalization is not None:
        deviation = np.sqrt(normalization.var)
        return (normalization.mean + 3 * deviation * rng.standard_normal((number, *part.spec.shape))).astype(np.float32)
    low, high = (np.asarray(getattr(leaf.space, bound, 0), np.float64) for bound in ("low", "high"))
    if part.spec.dtype.kind == "f" and not (np.isfinite(low) & np.isfinite(high) & (high - low < _WIDE)).all():
        numbers = 3 * rng.standard_normal((number, *part.spec.shape))
        return np.asarray(np.minimum(np.maximum(numbers, low), high), part.spec.dtype)
    space = copy.deepcopy(leaf.space)
    space.seed(int(rng.integers(2**31)))
    return np.asarray([space.sample() for _ in range(number)], part.spec.dtype)


def played_rows(reference: Reference, environment: Mapping[str, Any] | None) -> tuple[Rows | None, str | None]:
    """Observations from the agent's episodes in the run's environment; or why there are none."""
    if environment is None or environment.get("unrecorded"):
        return None, "the run's environment is an object, which run.json cannot fully describe"
    wrappers = [one for one in environment["wrappers"] if one.get("kind") not in _NORMALIZE]
    try:
        env: Any = make(environment["id"], wrappers=wrappers, **environment["kwargs"])
        try:
            return _play(reference, env), None
        finally:
            env.close()
    except Exception as error:  # an environment of the user's may fail; random observations remain
        logger.warning("export: skipping the comparison in %s: %s", environment["id"], error)
        return None, f"{type(error).__name__}: {error}"


def _play(reference: Reference, env: Any) -> Rows:
    boundary, rows, episode = reference.boundary, list[Rows](), 0
    dtypes = {
        part.name: part.spec.dtype for part in boundary.parts
    }  # normalised observations are float32 at the end, too
    zeros = {name: np.zeros((1, *spec.shape), spec.dtype) for name, spec in reference.state.items()}
    parts = [leaf.name for leaf in _actions(boundary)]
    state, over, observation = zeros, True, None
    while len(rows) < PLAYED:
        if over:
            (observation, _), state, episode = env.reset(seed=episode), zeros, episode + 1
        given = dict(flat(observation))
        rows.append(Rows({name: np.asarray(given[name], dtype)[None] for name, dtype in dtypes.items()}, state))
        results = reference(rows[-1])
        state = {name: results[f"next_state/{name}"] for name in zeros}
        action = nest(boundary.action_space, {part: results[action_name(part)][0] for part in parts})
        observation, _, terminated, truncated, _ = env.step(action)
        over = terminated or truncated
    return concatenate(rows)


def concatenate(several: Sequence[Rows]) -> Rows:
    """Concatenate batches."""
    return Rows(
        *({name: np.concatenate([rows[i][name] for rows in several]) for name in several[0][i]} for i in (0, 1))
    )
