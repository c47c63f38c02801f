"""Declarations of states and actions, and the conversion of nested dictionaries to flat ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from ...common.value_specs import TYPES, ValueSpec
from .errors import integer, number, refuse, refuse_unknown

_ALIASES: Final = {"long": "int"}
_KEYS: Final = ("type", "shape", "num_values", "num_states", "num_actions", "min_value", "max_value")
RESERVED: Final = frozenset(
    (
        *("state", "states", "action", "actions", "terminal", "reward", "deterministic", "optimization"),
        *("bool", "int", "long", "float", "shape", "type", "num_values", "min_value", "max_value", "equal", "loss"),
        *("same", "x", "*"),
    )
)
"""Names that are not allowed for states and actions in a dictionary."""
_EXAMPLES: Final = {"states": "dict(type='float', shape=(4,))", "actions": "dict(type='int', num_values=2)"}
MASK: Final = "_mask"
"""Suffix of the name of an int action's mask."""


Nest: TypeAlias = "ValueSpec | dict[str, Nest]"
"""Specs nested as the user's values are."""


@dataclasses.dataclass(frozen=True)
class Values:
    """All states, or all actions, of an agent.

    Args:
        kind: ``states`` or ``actions``.
        nest: specs nested as the user's.
        flat: specs by name, sorted.
    """

    kind: str
    nest: Nest
    flat: Mapping[str, ValueSpec]

    @property
    def single(self) -> bool:
        """Is there a single one, not in a dictionary?"""
        return isinstance(self.nest, ValueSpec)

    def to_json(self) -> Any:
        """Their specification, as users write it."""
        return self.nest_values({name: spec.to_json() for name, spec in self.flat.items()})

    def nest_values(self, flat: Mapping[str, Any]) -> Any:
        """Nest values by flat name as the user's are; a single one is returned as a bare value."""
        return _fill_nest(self.nest, flat)


def read_values(where: str, spec: Any, kind: str) -> Values:
    """The states or actions declared by a specification.

    Args:
        where: prefix of messages: ``Agent.create``.
        spec: one specification, or a dictionary of them to any depth.
        kind: ``states`` or ``actions``.

    Raises:
        TensorforceError: it is not valid; names the entry.
    """
    if isinstance(spec, Values):
        spec = spec.to_json()
    if not isinstance(spec, Mapping) or not spec:
        refuse(f"{where}: {kind}", f"must be a specification, such as {_EXAMPLES[kind]}; got {spec!r}", spec)
    flat: dict[str, ValueSpec] = {}
    nest = _read(where, spec, kind, "", flat)
    return Values(kind, nest, dict(sorted(flat.items())))


def check_together(where: str, states: Values, actions: Values) -> None:
    """Refuse a name shared by a state and an action, and any name of an action's mask."""
    for name, spec in actions.flat.items():
        if name in states.flat:
            refuse(f"{where}: actions", f"has {name!r}, which is a state's name too: choose another one", name)
        mask = f"{name}{MASK}"
        for values in (states, actions):
            if spec.type == "int" and mask in values.flat:
                problem = f"has {mask!r}, the name of the mask of action {name!r}: choose another"
                refuse(f"{where}: {values.kind}", problem, mask)


def _read(where: str, spec: Any, kind: str, name: str, flat: dict[str, ValueSpec]) -> Nest:
    place = f"{where}: {kind}" + (f"[{name!r}]" if name else "")
    if not isinstance(spec, Mapping) or not spec or not all(isinstance(key, str) for key in spec):
        refuse(place, f"must be a dictionary, such as {_EXAMPLES[kind]}; got {spec!r}", spec)
    if any(key in spec and not isinstance(spec[key], Mapping) for key in _KEYS):
        found = _value(place, spec, kind, name or kind.removesuffix("s"))
        flat[found.name] = found
        return found
    nest: dict[str, Nest] = {}
    for key, part in sorted(spec.items()):
        if "/" in key or "." in key or not key:
            refuse(place, f"has the name {key!r}: names are not empty and have neither '/' nor '.'", key)
        if key in RESERVED:
            refuse(place, f"has the reserved name {key!r}; reserved are {', '.join(sorted(RESERVED))}", key)
        nest[key] = _read(where, part, kind, f"{name}/{key}" if name else key, flat)
    return nest


def _value(place: str, spec: Mapping[str, Any], kind: str, name: str) -> ValueSpec:
    refuse_unknown(place, spec, _KEYS, what="key")
    kind_of = spec.get("type", "float" if kind == "states" else None)
    if kind_of is None:
        refuse(place, f"needs a type, one of bool, int, float; got {dict(spec)!r}", None)
    type_ = _ALIASES.get(kind_of, kind_of) if isinstance(kind_of, str) else ""
    if type_ not in TYPES:
        refuse(place, f"has the type {kind_of!r}; it must be bool, int or float", kind_of)
    if "shape" not in spec and kind == "states":
        refuse(place, f"needs a shape, such as (4,) or () for a number; got {dict(spec)!r}", None)
    shape = spec.get("shape", ())
    sizes = shape if isinstance(shape, tuple | list) else (shape,)
    shape = tuple(integer(f"{place}['shape']", size, at_least=1) for size in sizes)
    return ValueSpec(name, type_, shape, _num_values(place, spec, type_), *_bounds(place, spec, type_))


def _num_values(place: str, spec: Mapping[str, Any], type_: str) -> int | None:
    given = {key: spec[key] for key in ("num_values", "num_states", "num_actions") if spec.get(key) is not None}
    if type_ != "int":
        for key, value in given.items():
            refuse(f"{place}[{key!r}]", f"is for ints; the type is {type_}", value)
        return None
    if not given:
        refuse(f"{place}['num_values']", "is missing: an int needs the number of its values", None)
    numbers = {key: integer(f"{place}[{key!r}]", value, at_least=1) for key, value in given.items()}
    if len(set(numbers.values())) > 1:
        refuse(f"{place}['num_values']", f"is given twice, with different values: {given}", given)
    return next(iter(numbers.values()))


def _bounds(place: str, spec: Mapping[str, Any], type_: str) -> tuple[float | None, float | None]:
    low, high = spec.get("min_value"), spec.get("max_value")
    if low is None and high is None:
        return None, None
    if type_ != "float":
        refuse(f"{place}['min_value']", f"and max_value are for floats; the type is {type_}", low)
    if low is None or high is None:
        refuse(f"{place}['min_value']", f"and max_value must be given together; got {low!r} and {high!r}", low)
    low, high = number(f"{place}['min_value']", low), number(f"{place}['max_value']", high)
    if low >= high:
        refuse(f"{place}['min_value']", f"must be less than max_value, got {low:g} and {high:g}", low)
    return low, high


def _fill_nest(nest: Nest, flat: Mapping[str, Any]) -> Any:
    if isinstance(nest, ValueSpec):
        return flat[nest.name]
    return {key: _fill_nest(part, flat) for key, part in nest.items()}
