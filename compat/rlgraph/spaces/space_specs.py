"""Creates spaces from specifications and from Gymnasium's spaces."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np

from ....core.checks import did_you_mean, shortened
from ...common.specs.tables import without_case
from ..utils.rlgraph_errors import RLGraphError, refuse, refuse_unknown
from .bool_box import BoolBox
from .box_space import BoxSpace
from .containers import Dict, Tuple
from .float_box import FloatBox
from .int_box import INT32, IntBox
from .space import Space, reads

_WHERE: Final = "Space.from_spec"
_CLASSES: Final[dict[str, type[Space]]] = {kind.__name__: kind for kind in (FloatBox, IntBox, BoolBox, Dict, Tuple)}
_KINDS: Final[dict[Any, type[Space]]] = {
    **dict.fromkeys(("float", "float32", "float64", "floatbox", float, np.float32, np.float64), FloatBox),
    **dict.fromkeys(("int", "int32", "int64", "uint8", "intbox", int, np.int32, np.int64, np.uint8), IntBox),
    **dict.fromkeys(("bool", "boolbox", bool, np.bool_), BoolBox),
    **dict.fromkeys(("dict", dict), Dict),
    **dict.fromkeys(("tuple", "list", tuple, list), Tuple),
}
_FORMS: Final = (
    "'float', 'int' or 'bool', dict(type=, shape=, low=, high=), a dictionary, tuple or list of such ones, "
    '"FloatBox((4,))", or a Space'
)
_RANKS: Final = ("add_batch_rank", "add_time_rank", "time_major")


def space_of(where: str, spec: Any) -> Space:
    """The space given by an argument: a Space, a specification, or a space of Gymnasium.

    Integers of Gymnasium's spaces keep their values: ``Discrete(3, start=1)`` is ``IntBox(1, 4)``.

    Args:
        where: the argument, for messages: ``"DQNAgent: state_space"``.
        spec: the argument's value.

    Raises:
        RLGraphError: it is none of these, or a space of Gymnasium without an equivalent.
    """
    spaces = sys.modules.get("gymnasium.spaces")  # if it is a Gymnasium space, Gymnasium is loaded
    if spaces is not None and isinstance(spec, spaces.Space):
        return _of_gymnasium(where, spec)
    if isinstance(spec, Space):
        return spec
    if isinstance(spec, str) and "(" in spec:
        return _parse_space(where, spec)
    if isinstance(spec, str | type):
        spec = {"type": spec}
    if isinstance(spec, Mapping):
        return (
            _space_of_type(where, spec["type"], {name: value for name, value in spec.items() if name != "type"})
            if _has_type(spec)
            else Dict(_parts(where, spec.items()))
        )
    if not isinstance(spec, tuple | list):
        refuse(where, f"must be {_FORMS} or a space of Gymnasium; got {shortened(spec)}", spec)
    return Tuple(*_parts(where, enumerate(spec)).values())


def with_boxes(space: Space, boxes: Mapping[str, BoxSpace]) -> Space:
    """A space of the same nesting with other boxes by flat name; a single box if its name is ``""``."""
    made: Space = boxes[""] if "" in boxes else Space.from_spec(space.unflatten(boxes))
    return made


@reads
def from_spec(kind: type[Space], spec: Any, given: Mapping[str, Any]) -> Space:
    """See :meth:`Space.from_spec`; ``kind`` is the class it was called on."""
    ranks = {name: value for name, value in given.items() if name in _RANKS}
    arguments = {name: value for name, value in given.items() if name not in _RANKS}
    if kind is not Space and (spec is None or (isinstance(spec, Mapping) and not _has_type(spec))):
        space = _space_of_type(_WHERE, kind, {**(spec or {}), **arguments})
    elif arguments and isinstance(spec, Mapping) and _has_type(spec):
        space = space_of(_WHERE, {**spec, **arguments})
    elif arguments and not isinstance(spec, str | type):
        name, value = next(iter(arguments.items()))
        refuse(f"{_WHERE}: {name}", f"is for types and for dictionaries with 'type', not for {shortened(spec)}", value)
    elif arguments:
        space = space_of(_WHERE, {"type": spec, **arguments})
    else:
        space = space_of(_WHERE, spec)
    if not isinstance(space, kind):
        refuse(f"{kind.__name__}.from_spec: spec", f"describes a {type(space).__name__}, {space!r}", spec)
    return space.with_extra_ranks(*(ranks.get(name) for name in _RANKS)) if ranks else space


def _has_type(spec: Mapping[Any, Any]) -> bool:
    """Does a dictionary specify one space, rather than the parts of a Dict? A part may also be called ``type``."""
    return isinstance(spec.get("type"), str | type)


def _parts(where: str, parts: Iterable[tuple[Any, Any]]) -> dict[Any, Space]:
    return {key: space_of(f"{where}[{key!r}]", part) for key, part in parts}


def _kind(where: str, given: Any) -> type[Space]:
    if isinstance(given, type) and given in _CLASSES.values():
        return given
    kind = _KINDS.get(without_case(given) if isinstance(given, str) else given)
    if kind is None:
        names = [name for name in _KINDS if isinstance(name, str)]
        text = "; text is not supported" if given is str or given in ("str", "text", "textbox") else ""
        near = did_you_mean(given, names) if isinstance(given, str) else ""
        refuse(where, f"has the unknown type {given!r}{near}{text}; it must be {_FORMS}", given)
    return kind


def _space_of_type(where: str, type_: Any, arguments: Mapping[str, Any]) -> Space:
    """The space of a type, given as a name or a class, with its arguments."""
    kind = _kind(where, type_)
    ranks = {name: value for name, value in arguments.items() if name in _RANKS}
    own = {name: value for name, value in arguments.items() if name not in _RANKS}
    if kind is Dict:
        return Dict(_parts(where, own.items()), **ranks)
    if kind is Tuple:
        refuse_unknown(where, own, ("components", *_RANKS))
        return Tuple(*own.get("components", ()), **ranks)
    if type_ is np.uint8 or (isinstance(type_, str) and without_case(type_) == "uint8"):
        own = {"dtype": "uint8", **own}
    refuse_unknown(where, own, inspect.signature(kind).parameters)
    made: Callable[..., Space] = kind
    return made(**own, **ranks)


def _parse_space(where: str, text: str) -> Space:
    """The space of ``"FloatBox((256,))"``: the call of a class with literal arguments, or with such calls."""
    try:
        space = _evaluate(where, ast.parse(text.strip(), mode="eval").body)
    except RLGraphError:
        raise
    except (SyntaxError, ValueError, TypeError) as error:
        refuse(where, f"is not a call of a Space with literal arguments: {text!r}: {error}", text)
    if not isinstance(space, Space):
        refuse(where, f"is not a call of a Space: {text!r}", text)
    return space


def _evaluate(where: str, node: ast.expr) -> Any:
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
    if name not in _CLASSES:
        near = did_you_mean(name, _CLASSES)
        refuse(where, f"calls {name!r}, which is not a Space{near}; Spaces are {', '.join(_CLASSES)}", name)
    kind: Any = _CLASSES[name]
    arguments = [_evaluate(where, argument) for argument in node.args]
    return kind(*arguments, **{str(one.arg): _evaluate(where, one.value) for one in node.keywords})


def _of_gymnasium(where: str, space: Any) -> Space:
    from gymnasium import spaces

    match space:
        case spaces.Discrete():
            return IntBox(int(space.start), int(space.start) + int(space.n))
        case spaces.MultiBinary():
            return BoolBox(space.shape)
        case spaces.Dict():
            return Dict(_parts(where, space.spaces.items()))
        case spaces.Tuple():
            return Tuple(*_parts(where, enumerate(space.spaces)).values())
        case spaces.Box():
            return _of_box(space)
        case spaces.MultiDiscrete() if len(np.unique(space.nvec)) == 1:
            start = space.start.astype(np.int64)  # sums may not fit into the dtype of the space
            return IntBox(start, start + space.nvec, tuple(space.shape))
        case spaces.MultiDiscrete():
            both = zip(space.nvec.reshape(-1).tolist(), space.start.reshape(-1).tolist(), strict=True)
            parts = ", ".join(f"Discrete({count}{f', start={start}' if start else ''})" for count, start in both)
            problem = f"its sizes differ; use Tuple(({parts}))"
        case _:
            problem = "supported are Discrete, MultiBinary, MultiDiscrete, Box, Dict, Tuple"
    raise RLGraphError(f"{where}: {space} is not supported: {problem}", where, space)


def _of_box(space: Any) -> Space:
    kind, shape = space.dtype.kind, tuple(space.shape)
    if kind == "b":
        return BoolBox(shape)
    if kind == "f":
        return FloatBox(space.low, space.high, shape)
    low, high = (np.clip(bound.astype(np.float64), *INT32).astype(np.int64) for bound in (space.low, space.high))
    return IntBox(low, np.minimum(high + 1, INT32[1]), shape, "uint8" if space.dtype == np.uint8 else "int32")
