"""Reads and checks callers' values: states with masks, actions, rewards, terminals and parallel indices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ....core.checks import FLOAT32_MAX, all_finite, shortened
from ....core.protocols import Array, ArraySpec
from ...common.value_specs import ValueSpec
from .errors import as_array, refuse
from .specs import MASK, Values

_WORDS: Final = {"bool": "bool, or 0 and 1"}
_KINDS: Final = {"bool": "biuf", "int": "iuf", "float": "fiu"}
"""Kinds of NumPy dtypes accepted for a type; for ints only whole numbers, for bools only 0 and 1."""
ENDINGS: Final = (0, 1, 2)
"""Terminals of an episode: it continues, it ended, it was aborted."""


class StateReader:
    """Turns callers' states into arrays by flat name, with a mask for each int action.

    Args:
        states: specs of the states.
        actions: specs of the actions; ints have masks.
    """

    def __init__(self, states: Values, actions: Values) -> None:
        self._states = states
        self._masks = {
            f"{name}{MASK}": ValueSpec("", "bool", spec.mask.shape)
            for name, spec in actions.flat.items()
            if spec.type == "int"
        }
        self._full = {name: np.ones(spec.shape, np.bool_) for name, spec in self._masks.items()}
        for mask in self._full.values():
            mask.flags.writeable = False
        self._only = next(iter(states.flat.values())) if states.single else None

    def __call__(self, where: str, states: Any) -> dict[str, Array]:
        """New arrays by flat name, without a batch axis; every row of a mask has a legal action.

        Raises:
            TensorforceError: an entry is missing, unknown, of another type or shape, out of range or not finite.
        """
        if self._only is not None and not isinstance(states, Mapping):
            return {"state": value(where, "state", states, self._only), **self._full}
        given = _entries(where, states, self._states, self._masks)
        found = self._full | {name: value(where, name, given[name], spec) for name, spec in self._states.flat.items()}
        for name, spec in self._masks.items():
            if given.get(name) is not None:
                found[name] = mask = value(where, name, given[name], spec)
                if not mask.any(-1).all():
                    refuse(f"{where}: states[{name!r}]", "allows no action: at least one must be True", given[name])
        return found


def _entries(
    where: str, given: Any, values: Values, optional: Collection[str] = (), *, partial: bool = False
) -> dict[str, Any]:
    """A caller's values by flat name; with ``partial`` some may be missing.

    Raises:
        TensorforceError: they are not a dictionary, or an entry is missing or unknown.
    """
    place, wanted = f"{where}: {values.kind}", ", ".join([*values.flat, *(f"{n} (optional)" for n in sorted(optional))])
    if not isinstance(given, Mapping):
        refuse(place, f"must be a dictionary with {wanted}; got {shortened(given)}", given)
    found = dict(_flatten(given, {*values.flat, *optional}))
    for name in values.flat:
        if name not in found and not partial:
            refuse(place, f"has no {name!r}; it needs {wanted}", given)
    for name in found:
        if name not in values.flat and name not in optional:
            refuse(place, f"has the unknown entry {name!r}; it takes {wanted}", name)
    return found


def value(where: str, name: str, given: Any, spec: ValueSpec, what: str = "states") -> Array:
    """One state or action as a new array of the spec's shape and dtype.

    Raises:
        TensorforceError: it does not fit the spec.
    """
    array = given if isinstance(given, np.ndarray) else as_array(_place(where, what, name), given)
    kind, problem = array.dtype.kind, ""
    if kind not in _KINDS[spec.type] or (kind != "b" and spec.type != "float" and not _is_exact(array, spec.type)):
        problem = f"must be {_WORDS.get(spec.type, spec.type)}, got {array.dtype} {shortened(given)}"
    elif array.shape != spec.shape:
        problem = f"must have the shape {spec.shape}, got {array.shape}"
    elif spec.type == "int":
        if array.size and (array.min() < 0 or array.max() >= (spec.num_values or 0)):
            problem = f"must be in 0 .. {(spec.num_values or 0) - 1}, got {shortened(given)}"
    elif spec.type == "float" and not (all_finite(array) if array.dtype.itemsize <= 4 else _is_float32(array)):
        problem = f"must be finite as float32, got {shortened(given)}"
    if problem:
        refuse(_place(where, what, name), problem, given)
    return np.array(array, spec.dtype)


def read_actions(
    where: str, given: Any, actions: Values, *, partial: bool = False, bounded: bool = True
) -> dict[str, Array]:
    """A caller's actions by flat name.

    Args:
        where: prefix of messages.
        given: the value of a single action, or a dictionary.
        actions: specs of the actions.
        partial: may actions be missing, and one number stand for all components of an action?
        bounded: must floats be within their bounds?
    """
    if actions.single and not isinstance(given, Mapping):
        given = {next(iter(actions.flat)): given}
    found = {}
    entries = _entries(where, given, actions, partial=partial)
    for name, spec in actions.flat.items():
        if name not in entries:
            continue
        one = entries[name]
        one = np.full(spec.shape, one) if partial and isinstance(one, bool | int | float | np.generic) else one
        found[name] = array = value(where, name, one, spec, "actions")
        if bounded and spec.min_value is not None and spec.max_value is not None:
            low, high = np.float32(spec.min_value), np.float32(spec.max_value)
            if (array < low).any() or (array > high).any():
                problem = f"must be within {low:g} .. {high:g}, got {shortened(array)}"
                refuse(_place(where, "actions", name), problem, array)
    return found


def read_reward(where: str, given: Any) -> float:
    """A finite number."""
    if type(given) is float and -FLOAT32_MAX <= given <= FLOAT32_MAX:
        return given
    array = as_array(f"{where}: reward", given)
    if array.dtype.kind not in "biuf" or array.size != 1:
        refuse(f"{where}: reward", f"must be a number, got {shortened(given)}", given)
    number = float(array.reshape(()))
    if not -FLOAT32_MAX <= number <= FLOAT32_MAX:
        refuse(f"{where}: reward", f"must be finite as float32, got {number}", given)
    return number


def read_terminal(where: str, given: Any) -> int:
    """0 for an episode that continues, 1 for one that ended, 2 for one that was aborted."""
    if type(given) in (bool, int) and given in ENDINGS:  # at every timestep
        return int(given)
    array = as_array(f"{where}: terminal", given)
    if array.dtype.kind not in "biu" or array.size != 1 or array.item() not in ENDINGS:
        refuse(f"{where}: terminal", f"must be False, True, 0, 1 or 2, got {shortened(given)}", given)
    return int(array.item())


def read_internals(where: str, given: Any, specs: Mapping[str, ArraySpec | Array]) -> dict[str, Array]:
    """Internal states of one row by name; empty for a model without internal layers.

    Args:
        where: prefix of messages.
        given: a dictionary with an array for each name; for a model without internal layers {} or None.
        specs: specs of one row by name.

    Raises:
        TensorforceError: they are missing, have other names or shapes, or are not finite.
    """
    if not specs:
        if not _is_nothing(given):
            refuse(f"{where}: internals", "must be {} or None: the agent has no internal layers", given)
        return {}
    if given is None:
        refuse(f"{where}: internals", "is missing: pass initial_internals(), then what the last act returned", None)
    if not isinstance(given, Mapping) or set(given) != set(specs):
        problem = f"must be a dictionary with {', '.join(specs)}, got {shortened(given)}"
        refuse(f"{where}: internals", problem, given)
    return {
        name: value(where, name, given[name], ValueSpec(name, "float", tuple(spec.shape)), "internals")
        for name, spec in specs.items()
    }


def read_batch_of_internals(
    where: str, given: Any, specs: Mapping[str, ArraySpec | Array], number: int, single: bool
) -> dict[str, Array] | None:
    """Internal states [K, ...] of K parallel indices by name, or of a ``single`` one; None without internal layers."""
    each = [given] * number if single or _is_nothing(given) else each_of(where, "internals", given, number)
    rows = [read_internals(where, one, specs) for one in each]
    return stack_rows(rows) if specs else None


def _is_nothing(given: Any) -> bool:
    return given is None or (isinstance(given, Mapping) and not given)


def read_parallel(where: str, given: Any, lanes: int) -> tuple[list[int], bool]:
    """Parallel indices, and whether they were given as one number.

    Raises:
        TensorforceError: there is no index, a duplicate, or one out of range.
    """
    if type(given) is int and 0 <= given < lanes:  # at every timestep
        return [given], True

    def is_index(one: Any) -> bool:
        return isinstance(one, int | np.integer) and not isinstance(one, bool)

    single = is_index(given)
    if not single and not _is_list(given):
        refuse(f"{where}: parallel", f"must be an index or several, got {shortened(given)}", given)
    chosen = [given] if single else list(given)
    for index in chosen:
        if not is_index(index) or not 0 <= index < lanes:
            problem = f"must be in 0 .. {lanes - 1} (parallel_interactions is {lanes}), got {index!r}"
            refuse(f"{where}: parallel", problem, given)
    if not chosen or len(set(map(int, chosen))) < len(chosen):
        refuse(f"{where}: parallel", f"must name different indices, at least one; got {shortened(given)}", given)
    return [int(index) for index in chosen], single


def each_of(where: str, what: str, given: Any, number: int) -> list[Any]:
    """One entry for each of several parallel indices."""
    if not _is_list(given):
        problem = f"must be a list with an entry for each of {number} parallel indices, got {shortened(given)}"
        refuse(f"{where}: {what}", problem, given)
    entries = list(given)
    if len(entries) != number:
        refuse(f"{where}: {what}", f"must have {number} entries, as parallel has; got {len(entries)}", given)
    return entries


def _is_list(given: Any) -> bool:
    """Does it have entries? A NumPy array without axes does not."""
    return isinstance(given, Iterable) and not isinstance(given, Mapping | str) and getattr(given, "ndim", 1) > 0


def _is_exact(array: Array, kind: str) -> bool:
    """Are numbers whole, for ints, or 0 and 1, for bools?"""
    if kind == "bool":
        return array.dtype.kind == "b" or bool(((array == 0) | (array == 1)).all())
    return array.dtype.kind != "f" or bool((np.floor(array) == array).all())


def _is_float32(array: Array) -> bool:
    """Are all numbers finite as float32?"""
    return not array.size or bool(array.min() >= -FLOAT32_MAX and array.max() <= FLOAT32_MAX)  # also catches NaN


def _flatten(values: Mapping[Any, Any], leaves: Any, prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Values by flat name; a dictionary that is not a known entry is a level of nesting."""
    for key, part in values.items():
        name = f"{prefix}{key}"
        if isinstance(part, Mapping) and name not in leaves:
            yield from _flatten(part, leaves, f"{name}/")
        else:
            yield name, part


def _place(where: str, what: str, name: str) -> str:
    return f"{where}: {what}" + ("" if name in ("state", "action") else f"[{name!r}]")


Converter = Callable[[Mapping[str, Array]], Any]


def action_out(actions: Values) -> Converter:
    """Function from arrays by flat name, without a batch axis, to the result of ``act``: NumPy scalars for shape ()."""
    types = {name: spec.dtype for name, spec in actions.flat.items() if spec.shape == ()}
    if actions.single:
        (name,) = actions.flat
        scalar = types.get(name)
        if scalar is None:
            return lambda arrays: arrays[name].copy()  # a copy: the caller may change it
        return lambda arrays: scalar(arrays[name])

    def convert(arrays: Mapping[str, Array]) -> Any:
        return actions.nest_values(
            {key: types[key](array) if key in types else array.copy() for key, array in arrays.items()}
        )

    return convert


def stack_rows(rows: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Arrays by name [K, ...] from those of K rows."""
    if len(rows) == 1:
        return {name: array[None] for name, array in rows[0].items()}
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}
