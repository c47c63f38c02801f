"""Values of requests: schemas that check parsed JSON, and arrays of spaces from it and back; errors name the place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from gymnasium.spaces import Box, Dict, Tuple
from pydantic_core import CoreSchema, PydanticCustomError, SchemaValidator, ValidationError, core_schema

from ...core.checks import FLOAT32_MAX, bound_text, shortened
from ...core.protocols import Array, ArraySpec, ArrayTree
from ...environments import spaces
from ...environments.spaces import AnySpace
from ..refusals import RefusedError

Where: TypeAlias = tuple[Any, ...]
"""Path to a value in a request: names, and indices of lists."""

ANY: Final = core_schema.any_schema()
TEXT: Final = core_schema.str_schema(strict=True)
FLAG: Final = core_schema.bool_schema(strict=True)
NUMBER: Final = core_schema.float_schema(strict=True, allow_inf_nan=False, ge=-FLOAT32_MAX, le=FLOAT32_MAX)
"""Schema of a number that float32 holds."""
_LONGEST_NAME: Final = 128
_MOST_UNKNOWN: Final = 20
"""Unknown fields of an object above which they are not named one by one."""
_WANTED: Final = {
    "bool_type": "true or false",
    "dict_type": "an object",
    "float_type": "a number",
    "finite_number": "a finite number",
    "int_type": "an integer",
    "list_type": "a list",
    "int_from_float": "an integer",
    "string_type": "text",
    "tuple_type": "a list",
}


def place(where: Where) -> str:
    """Format a path: ``step_data.state[3]``."""
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "body"


def check(validator: SchemaValidator, value: Any, where: Where = ()) -> Any:
    """Check parsed JSON at a place in the request; RefusedError ``invalid_value`` names all that is wrong."""
    try:
        return validator.validate_python(value)
    except ValidationError as error:
        found = [(_place_of(where, one["loc"]), _what(one)) for one in error.errors(include_url=False)]
    raise RefusedError("invalid_value", "; ".join(f"{at} {what}" for at, what in found[:3]), found[:20])


def objects(
    needed: Mapping[str, CoreSchema],
    optional: Mapping[str, CoreSchema] | None = None,
    synonyms: Mapping[str, str] | None = None,
) -> CoreSchema:
    """Schema of an object with these fields and no others; some may have another name instead."""
    aliases: dict[str, Any] = {name: [[name], [other]] for name, other in (synonyms or {}).items()}
    fields = {
        name: core_schema.typed_dict_field(schema, required=name in needed, validation_alias=aliases.get(name))
        for name, schema in {**needed, **(optional or {})}.items()
    }
    few = core_schema.dict_schema(max_length=len(fields) + _MOST_UNKNOWN, strict=True)
    return core_schema.chain_schema([few, core_schema.typed_dict_schema(fields, extra_behavior="forbid")])


def lists(item: CoreSchema, least: int, most: int) -> CoreSchema:
    """Schema of a list, of which the first wrong item is named."""
    return core_schema.list_schema(item, min_length=least, max_length=most, strict=True, fail_fast=True)


def _name(value: Any) -> str:
    if type(value) is not str or not 1 <= len(value) <= _LONGEST_NAME or not value.isprintable():
        raise PydanticCustomError("name", f"must be a name of 1 to {_LONGEST_NAME} printable characters")
    return value


NAME: Final = core_schema.no_info_plain_validator_function(_name)
"""Schema of an environment's name."""


class Reader:
    """Reads values of one space.

    Args:
        space: Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or a Tuple of these.
    """

    def __init__(self, space: AnySpace) -> None:
        self.schema = _schema(space)
        self._composite = isinstance(space, Dict | Tuple)
        self._leaves = [*zip(spaces.leaves(space), _paths(space), strict=True)]

    def limits(self) -> dict[str, tuple[Any, Any]]:
        """Lowest and highest values of the parts with limits, by flat name."""
        found = {leaf.name: spaces.limits(leaf.space) for leaf, _ in self._leaves}
        return {name: limits for name, limits in found.items() if limits is not None}

    def read(self, values: Sequence[Any]) -> ArrayTree:
        """Values of the schema as a batch [N, ...], in the form of memories and models."""
        columns = {leaf.name: _column(values, path, leaf.spec) for leaf, path in self._leaves}
        return columns if self._composite else columns[""]


class Actions(Reader):
    """Reads actions taken by a client, and writes actions chosen by an agent.

    Args:
        space: Discrete, of which an action is a list of one integer, or the integer; or a Box of floats with bounds.
    """

    def __init__(self, space: AnySpace) -> None:
        super().__init__(space)
        self.space: Any = space
        self.discrete = not isinstance(space, Box)
        ((leaf, _),) = self._leaves
        if isinstance(space, Box):
            self.low, self.high = space.low.astype(np.float32), space.high.astype(np.float32)
            # A number that rounds to a bound is within it.
            low, high = (np.float64(one) + np.spacing(one) * side for one, side in ((self.low, -0.4), (self.high, 0.4)))
            self.schema = _numbers(space.shape, low, high, _real)
        else:
            self.schema = core_schema.no_info_before_validator_function(_in_list, lists(self.schema, 1, 1))
            self._leaves = [(leaf, (0,))]

    def sent(self, actions: Array) -> Array:
        """Actions [N, ...] for clients, clipped to the bounds."""
        if self.discrete:
            return actions
        clipped: Array = np.clip(actions, self.low, self.high)
        return clipped

    def to_json(self, action: Array) -> list[Any]:
        """One action, always a list."""
        return [int(action)] if self.discrete else np.asarray(action, np.float32).astype(np.float64).tolist()


def _column(values: Sequence[Any], path: Where, spec: ArraySpec) -> Array:
    """One array of each value: [N, ...]."""
    for key in path:
        values = [value[key] for value in values]
    return np.array(values, spec.dtype)


def _schema(space: AnySpace) -> CoreSchema:
    inner = [(name, _schema(part)) for name, part in spaces.parts(space)]
    if isinstance(space, Dict):
        return objects(dict(inner))
    if isinstance(space, Tuple):
        items = core_schema.tuple_schema([schema for _, schema in inner])
        return core_schema.chain_schema([lists(ANY, len(inner), len(inner)), items])
    spec = spaces.leaves(space)[0].spec
    kind = spec.dtype.kind
    low, high = spaces.limits(space) or _range(spec.dtype)
    return _numbers(spec.shape, low, high, {"f": _real, "b": _bit}.get(kind, _integer))


def _range(dtype: np.dtype[Any]) -> tuple[float, float]:
    if dtype.kind == "f":
        return -FLOAT32_MAX, FLOAT32_MAX
    return (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)


def _real(low: Any, high: Any) -> CoreSchema:
    return core_schema.float_schema(strict=True, allow_inf_nan=False, ge=float(low), le=float(high))


def _integer(low: Any, high: Any) -> CoreSchema:
    return core_schema.chain_schema([_real(low, high), core_schema.int_schema()])  # 2.0 is an integer, True is none


def _bit(low: Any, high: Any) -> CoreSchema:
    what = "must be true or false, or 1 or 0"
    return core_schema.union_schema([FLAG, _integer(low, high)], custom_error_type="bit", custom_error_message=what)


def _numbers(shape: tuple[int, ...], low: Any, high: Any, number: Callable[[Any, Any], CoreSchema]) -> CoreSchema:
    """Schema of nested lists of numbers within bounds, which are arrays of this shape or scalars."""
    if not shape:
        return number(low, high)
    low, high = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
    if bool((low == low[:1]).all() and (high == high[:1]).all()):
        return lists(_numbers(shape[1:], low[0], high[0], number), shape[0], shape[0])
    items = [_numbers(shape[1:], low[k], high[k], number) for k in range(shape[0])]
    return core_schema.chain_schema([lists(ANY, shape[0], shape[0]), core_schema.tuple_schema(items)])


def _paths(space: AnySpace) -> list[Where]:
    """Path of each array in a value, in the order of :func:`.spaces.leaves`."""
    inner = spaces.parts(space)
    keys = [name if isinstance(space, Dict) else int(name) for name, _ in inner]
    return [(key, *path) for key, (_, part) in zip(keys, inner, strict=True) for path in _paths(part)] or [()]


def _in_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _place_of(where: Where, inside: Where) -> str:
    return place((*where, *(shortened(part).strip("'") if isinstance(part, str) else part for part in inside)))


def _what(error: Mapping[str, Any]) -> str:
    kind, more = error["type"], error.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return "is not a field of this request"
    if kind in ("greater_than_equal", "less_than_equal"):
        limit = f"at least {bound_text(more['ge'])}" if "ge" in more else f"at most {bound_text(more['le'])}"
        return f"must be {limit}, got {shortened(error['input'])}"
    if kind in ("too_short", "too_long"):
        limit = f"at least {more['min_length']:,}" if kind == "too_short" else f"at most {more['max_length']:,}"
        what = "a list" if more["field_type"] == "List" else "an object"
        return f"must be {what} of {limit}, got {more['actual_length'] or 0:,}"
    wanted = f"must be {_WANTED[kind]}" if kind in _WANTED else error["msg"].replace("Input should be", "must be")
    return f"{wanted}, got {shortened(error['input'])}"
