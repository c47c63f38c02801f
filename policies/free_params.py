"""Params that a compiled program leaves open: numbers of which any value makes the same program. Loads no TensorFlow.

Some are inputs of TRAIN (``axonrl.inputs``), others only numbers of the behaviour policy. ``program.json`` names both
under ``free``, with their places in the description of the policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

Path: TypeAlias = "tuple[str | int, ...]"
NOTHING: Final[Mapping[str, Any]] = {"inputs": [], "exploration": {}}
"""What ``free`` is of a program that leaves nothing open."""


def candidates(params: Mapping[str, Any], inputs: Iterable[str], exploration: Mapping[str, Any]) -> list[str]:
    """Params that may be free: inputs of TRAIN, and numbers that the policy has, too. 0 is never one: it may mean off.

    Args:
        params: what is compiled with.
        inputs: names of those that are inputs.
        exploration: the policy, described.
    """
    numbers = {value for _, value in _leaves(exploration) if isinstance(value, float)}
    there = {name for name, value in params.items() if isinstance(value, float) and value in numbers}
    return [name for name in params if name in {*there, *inputs} and params[name]]


def others(params: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The same params with other values of these, of the same sign; no two change by the same factor."""
    factors = {name: (i + 1) / (i + 2) for i, name in enumerate(names)}
    return {name: value * factors[name] if name in factors else value for name, value in params.items()}


def places(
    one: Mapping[str, Any], other: Mapping[str, Any], params: Mapping[str, Any], changed: Mapping[str, Any]
) -> dict[str, list[list[str | int]]] | None:
    """Where a policy has its free params.

    Args:
        one: the policy of ``params``, described.
        other: that of ``changed``.
        params: some params.
        changed: the same with other values, from :func:`others`.

    Returns:
        Names of params to paths; None where the policies differ in something else.
    """
    first, second = dict(_leaves(one)), dict(_leaves(other))
    if first.keys() != second.keys():
        return None
    found: dict[str, list[list[str | int]]] = {}
    for path, value in first.items():
        if value == second[path]:
            continue
        names = [name for name in params if (params[name], changed[name]) == (value, second[path])]
        if len(names) != 1:
            return None
        found.setdefault(names[0], []).append([*path])
    return found


def with_params(described: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any] | None:
    """What ``program.json`` would hold for these params.

    Args:
        described: its content.
        params: JSON values.

    Returns:
        None where it would be another program: they differ in one that is not free, or in the sign of one that is.
    """
    had, free = described["params"] or {}, described.get("free", NOTHING)
    changed = [name for name in {**had, **params} if name not in had or name not in params or had[name] != params[name]]
    may_change = {*free["inputs"], *free["exploration"]}
    if not all(name in may_change and _alike(had.get(name), params.get(name)) for name in changed):
        return None
    given = described["train"].get("params", {})
    exploration: Any = described["predict"]["exploration"]
    for name in changed:
        for path in free["exploration"].get(name, ()):
            exploration = _replaced(exploration, path, params[name])
    return {
        **described,
        "params": None if described["params"] is None else dict(params),
        "predict": {**described["predict"], "exploration": exploration},
        "train": {**described["train"], "params": {name: float(params[name]) for name in given}},
    }


def family(params: Mapping[str, Any]) -> dict[str, Any]:
    """What params have in common with those that a program may serve as well: of a number only its sign.

    Params of one family need not share a program; :func:`with_params` tells.
    """
    signs = {name: ["a number", (value > 0) - (value < 0)] for name, value in params.items() if _is_number(value)}
    return {**params, **signs}


def _alike(one: Any, other: Any) -> bool:
    return _is_number(one) and _is_number(other) and one * other > 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _leaves(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    inside = tree.items() if isinstance(tree, Mapping) else enumerate(tree) if isinstance(tree, list) else None
    if inside is None:
        yield path, tree
    else:
        for key, value in inside:
            yield from _leaves(value, (*path, key))


def _replaced(tree: Any, path: list[str | int], value: Any) -> Any:
    if not path:
        return value
    key, *left = path
    if isinstance(tree, Mapping):
        return {**tree, key: _replaced(tree[key], left, value)}
    return [_replaced(part, left, value) if i == key else part for i, part in enumerate(tree)]
