"""Free params of a compiled program: numbers whose values do not change the program. Loads no TensorFlow.

Some are inputs of TRAIN (``axonrl.inputs``), others only numbers in the behaviour policy. ``program.json`` lists both
under ``free``, with their places in the description of the policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from ..core.checks import same_json

Path: TypeAlias = "tuple[str | int, ...]"
NOTHING: Final[Mapping[str, Any]] = {"inputs": [], "exploration": {}}
"""``free`` of a program without free params."""


def candidates(params: Mapping[str, Any], inputs: Iterable[str], exploration: Mapping[str, Any]) -> list[str]:
    """Candidates for free params: inputs of TRAIN, and numbers in the policy. Never 0, which may mean off.

    Args:
        params: the compiled params.
        inputs: names of params that are inputs.
        exploration: the description of the policy.
    """
    numbers = {value for _, value in _leaves(exploration) if isinstance(value, float)}
    there = {name for name, value in params.items() if isinstance(value, float) and value in numbers}
    return [name for name in params if name in {*there, *inputs} and params[name]]


def change_values(params: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Change the values of these params, keeping their signs; no two change by the same factor."""
    factors = {name: (i + 1) / (i + 2) for i, name in enumerate(names)}
    return {name: value * factors[name] if name in factors else value for name, value in params.items()}


def places(
    one: Mapping[str, Any], other: Mapping[str, Any], params: Mapping[str, Any], changed: Mapping[str, Any]
) -> dict[str, list[list[str | int]]] | None:
    """Find the free params in a policy.

    Args:
        one: the description of the policy with ``params``.
        other: the description of the policy with ``changed``.
        params: some params.
        changed: the same params with other values, from :func:`change_values`.

    Returns:
        Names of params to paths; None if the policies differ in anything else.
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
    """The content of ``program.json`` for these params.

    Args:
        described: its current content.
        params: JSON values.

    Returns:
        None if the program would differ: in a param that is not free, or in the sign of a free one.
    """
    had, free = described["params"] or {}, described["free"]
    kept = {name for name in had.keys() & params.keys() if same_json(had[name], params[name])}
    changed = [name for name in {**had, **params} if name not in kept]
    may_change = {*free["inputs"], *free["exploration"]}
    if not all(name in may_change and _have_same_sign(had.get(name), params.get(name)) for name in changed):
        return None
    given = described["train"]["params"]
    exploration: Any = described["predict"]["exploration"]
    for name in changed:
        for path in free["exploration"].get(name, ()):
            exploration = _replace(exploration, path, params[name])
    return {
        **described,
        "params": None if described["params"] is None else dict(params),
        "predict": {**described["predict"], "exploration": exploration},
        "train": {**described["train"], "params": {name: float(params[name]) for name in given}},
    }


def family(params: Mapping[str, Any]) -> dict[str, Any]:
    """Key shared by params that may share a program: numbers are reduced to their signs.

    Params with equal keys need not share a program; :func:`with_params` decides.
    """
    signs = {name: ["a number", (value > 0) - (value < 0)] for name, value in params.items() if _is_number(value)}
    return {**params, **signs}


def _have_same_sign(one: Any, other: Any) -> bool:
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


def _replace(tree: Any, path: list[str | int], value: Any) -> Any:
    if not path:
        return value
    key, *left = path
    if isinstance(tree, Mapping):
        return {**tree, key: _replace(tree[key], left, value)}
    return [_replace(part, left, value) if i == key else part for i, part in enumerate(tree)]
