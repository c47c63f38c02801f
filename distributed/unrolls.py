"""Requests to actors, and their answers: unrolls of experience, as arrays.

Shapes: T timesteps, N environments of one actor, E episodes that ended in them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.checks import all_finite
from ..core.protocols import Array, ArraySpec, ArrayTree, SpecTree, State
from ..core.trees import leaves, map_tree


class UnrollId(NamedTuple):
    """Unique id of an unroll: its actor, the incarnation, and its number there."""

    actor: int
    incarnation: int
    sequence: int


class Request(NamedTuple):
    """A request to an actor for its next unroll.

    ``version`` is the newest version of the weights; ``timestep`` and ``progress`` are the run's, for schedules.
    """

    id: UnrollId
    version: int
    timestep: int
    progress: float


class Ended(NamedTuple):
    """An episode that ended in ``environment`` of the actor, at timestep ``t`` of the unroll."""

    t: int
    environment: int
    episode_return: float
    length: int
    terminated: bool
    truncated: bool
    seconds: float


class Seconds(NamedTuple):
    """Time spent on an unroll."""

    acting: float
    stepping: float
    waiting: float
    """Time from the previous unroll to the request."""


@dataclasses.dataclass(frozen=True)
class Head:
    """An unroll without its arrays, for the driver.

    Args:
        id: id of the unroll.
        version: version of the weights used throughout.
        timesteps: T * N.
        episodes: episodes that ended, by time and environment.
        exploration: level of each environment's behaviour policy, float64 [N]; NaN if it has none.
        seconds: time spent.
        nbytes: size of the arrays.
        learnt: statistics gathered by normalising wrappers during this unroll.
    """

    id: UnrollId
    version: int
    timesteps: int
    episodes: tuple[Ended, ...]
    exploration: Array
    seconds: Seconds
    nbytes: int
    learnt: State = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Unroll:
    """T timesteps of N environments.

    Args:
        head: summary for the driver.
        observation: [T + 1, N, ...]; the last row is the first of the next unroll.
        columns: all other stored arrays, [T, N, ...].
        final: the last observations of episodes that ended, [E, ...].
        at: ``t`` and environment of each end, int64 [E, 2]. Row ``t + 1`` of ``observation`` begins a new episode.
        td_error: float32 [T, N]: row t is for timestep t - (n - 1), n being the steps of a return. NaN if unknown;
            None if the model's predictions do not allow it.
    """

    head: Head
    observation: ArrayTree
    columns: Mapping[str, ArrayTree]
    final: ArrayTree
    at: Array
    td_error: Array | None = None

    def rows(self) -> dict[str, ArrayTree]:
        """Columns for a memory, [T, N, ...] each, ``next_observation`` included."""
        following = map_tree(lambda values: values[1:].copy(), self.observation)
        if len(self.at):
            t, environment = self.at.T
            for values, final in zip(leaves(following), leaves(self.final), strict=True):
                values[t, environment] = final
        now = map_tree(lambda values: values[:-1], self.observation)
        return {"observation": now, **self.columns, "next_observation": following}


def why_damaged(unroll: Unroll, specs: Mapping[str, SpecTree], length: int, width: int) -> str | None:
    """Describe damage to the arrays of an unroll; None if they are intact.

    Args:
        unroll: the received unroll.
        specs: specs of one environment's transition.
        length: T.
        width: N.
    """
    found = {**unroll.columns, "observation": unroll.observation}
    expected = {key: spec for key, spec in specs.items() if key != "next_observation"}
    if found.keys() != expected.keys():
        return f"its columns are {', '.join(sorted(found))}, expected {', '.join(sorted(expected))}"
    at, ended = unroll.at, len(unroll.at)
    if at.shape != (ended, 2) or at.dtype.kind != "i" or (at < 0).any() or (at >= (length, width)).any():
        return f"its episodes end at {at.tolist()}, expected indices within [{length}, {width}]"
    checks: list[tuple[str, Any, Any, tuple[int, ...]]]
    checks = [(key, found[key], spec, (length + (key == "observation"), width)) for key, spec in expected.items()]
    checks.append(("final", unroll.final, expected["observation"], (ended,)))
    if (td_error := unroll.td_error) is not None:
        if np.isinf(td_error).any():
            return "td_error has infinity"
        checks.append(("td_error", np.nan_to_num(td_error), ArraySpec((), np.float32), (length, width)))
    return next((why for check in checks if (why := _why_wrong(*check)) is not None), None)


def _why_wrong(key: str, tree: Any, spec: Any, shape: tuple[int, ...]) -> str | None:
    if isinstance(spec, Mapping):
        if not isinstance(tree, Mapping) or tree.keys() != spec.keys():
            return f"{key} lacks the entries {', '.join(sorted(spec))}"
        parts = (_why_wrong(f"{key}[{name!r}]", tree[name], spec[name], shape) for name in spec)
        return next((why for why in parts if why is not None), None)
    if tree.shape != (*shape, *spec.shape) or tree.dtype != spec.dtype:
        return f"{key} is {tree.dtype} {list(tree.shape)}, expected {spec.dtype} {[*shape, *spec.shape]}"
    return f"{key} has NaN or infinity" if spec.dtype.kind == "f" and not all_finite(tree) else None


def nbytes_of(specs: Mapping[str, SpecTree], length: int, width: int) -> int:
    """Size of the arrays of an unroll in which no episode ends."""
    rows = {key: length + (key == "observation") for key in specs if key != "next_observation"}
    return sum(rows[key] * width * sum(leaf.nbytes for leaf in leaves(specs[key])) for key in rows)


def side_by_side(unrolls: Sequence[Unroll]) -> dict[str, Any]:
    """Join the rows of several unrolls of equal length along the environments."""
    if len(unrolls) == 1:
        return dict(unrolls[0].rows())
    rows: dict[str, Any] = map_tree(lambda *one: np.concatenate(one, axis=1), *(unroll.rows() for unroll in unrolls))
    return rows
