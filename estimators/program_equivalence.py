"""Finds what else a compiled program is valid for: other seeds, and other values of certain params."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.errors import ArgumentError
from ..explorations import Greedy, description
from ..policies import free_params, modes_json

if TYPE_CHECKING:
    from ..runtimes.tracing.program import Program, Train


class Uses(NamedTuple):
    """Further uses of a program.

    Args:
        any_seed: is the program valid for all seeds?
        free: params with free values, as in ``program.json``.
        other: the program of another seed.
    """

    any_seed: bool
    free: Mapping[str, Any]
    other: Program


def find_uses(
    trace: Callable[[int, Mapping[str, Any] | None], tuple[Program, Train]],
    traced: tuple[Program, Train],
    exploration: Mapping[str, Any],
    params: Mapping[str, Any] | None,
    other_seed: int,
) -> Uses:
    """Trace again with another seed and other values, and compare.

    Args:
        trace: traces for a seed and params.
        traced: the traces to be compiled.
        exploration: the description of its behaviour policy.
        params: params of the trace.
        other_seed: a different seed.
    """
    names = free_params.candidates(params or {}, traced[1].params, exploration)
    if params is not None and names:
        changed = free_params.change_values(params, names)
        try:
            other = trace(other_seed, changed)
        except ArgumentError:  # an invalid value
            other = traced
        if other is not traced and are_equivalent(traced, other):
            places = free_params.places(exploration, _exploration_description(other[0]), params, changed)
            if places is not None:
                inputs = [name for name in names if name in traced[1].params]
                return Uses(True, {"inputs": inputs, "exploration": places}, other[0])
    other = trace(other_seed, params)
    return Uses(are_equivalent(traced, other), free_params.NOTHING, other[0])


def are_equivalent(one: tuple[Program, Train], other: tuple[Program, Train]) -> bool:
    """Do two traces compute the same function, with the same names and the same noise, which graphs do not show?"""
    from ..runtimes.litert.fingerprint import fingerprint

    first, second = (
        fingerprint(
            {"act": program.predict.function, "train": train.function},
            list(program.store.variables().values()),
            *program.variables(),
            repr(modes_json.modes_to_json(program.predict, dataclasses.replace(train, params={}), {})),
        )
        for program, train in (one, other)
    )
    return first == second


def _exploration_description(program: Program) -> dict[str, Any]:
    exploration = program.predict.exploration
    return description.arguments_of(Greedy() if exploration is None else exploration)
