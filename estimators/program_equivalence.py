"""What a compiled program serves beside what it was traced for: other seeds, and other values of some params."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.errors import ArgumentError
from ..explorations import Greedy, description
from ..policies import free_params

if TYPE_CHECKING:
    from ..runtimes.tracing.program import Program, Train


class Serves(NamedTuple):
    """What else a program is for.

    Args:
        any_seed: is it the same for other seeds?
        free: the params that it leaves open, as ``program.json`` has them.
        other: the program of another seed.
    """

    any_seed: bool
    free: Mapping[str, Any]
    other: Program


def served(
    trace: Callable[[int, Mapping[str, Any] | None], tuple[Program, Train]],
    traced: tuple[Program, Train],
    exploration: Mapping[str, Any],
    params: Mapping[str, Any] | None,
    other_seed: int,
) -> Serves:
    """Find out by tracing again, with another seed and with other values.

    Args:
        trace: from seed and params.
        traced: what is compiled.
        exploration: its behaviour policy, described.
        params: what it was traced with.
        other_seed: another seed than its own.
    """
    names = free_params.candidates(params or {}, traced[1].params, exploration)
    if params is not None and names:
        changed = free_params.others(params, names)
        try:
            other = trace(other_seed, changed)
        except ArgumentError:  # a value that is not allowed
            other = traced
        if other is not traced and is_the_same(traced, other):
            places = free_params.places(exploration, _described(other[0]), params, changed)
            if places is not None:
                inputs = [name for name in names if name in traced[1].params]
                return Serves(True, {"inputs": inputs, "exploration": places}, other[0])
    other = trace(other_seed, params)
    return Serves(is_the_same(traced, other), free_params.NOTHING, other[0])


def is_the_same(one: tuple[Program, Train], other: tuple[Program, Train]) -> bool:
    """Do two traces compute the same, with variables of the same names?"""
    from ..runtimes.litert.fingerprint import fingerprint

    first, second = (
        fingerprint(
            {"act": program.predict.function, "train": train.function},
            list(program.store.variables().values()),
            *program.variables(),
        )
        for program, train in (one, other)
    )
    return first == second


def _described(program: Program) -> dict[str, Any]:
    exploration = program.predict.exploration
    return description.arguments_of(Greedy() if exploration is None else exploration)
