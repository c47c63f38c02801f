"""Creates environments from their specifications."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from ....core.checks import shortened
from ...common.specs.files import JSON, YAML
from ...common.specs.module_specs import parse_spec
from ...common.specs.tables import Entry, SpecTable, without_case
from ..utils.rlgraph_errors import mapping, refuse, refuse_unknown, translate_errors
from .environment import Environment, opens
from .grid_world import GridWorld
from .openai_gym import OpenAIGymEnv
from .random_env import RandomEnv
from .sequential_vector_env import SequentialVectorEnv

WHERE: Final = "Environment.from_spec"
_SPEC: Final = f"{WHERE}: spec"
_MADE_BY: Final = "made by"
"""The entry, and its argument, for a user's class or function."""
_CLASSES: Final[dict[str, Any]] = {
    "openai": OpenAIGymEnv,
    "grid_world": GridWorld,
    "random_env": RandomEnv,
    "sequential_vector_env": SequentialVectorEnv,
}
_OTHER: Final = "pass any Gymnasium environment: {'type': 'openai', 'gym_env': its id or the object}"
_TABLE: Final = SpecTable(
    "environment",
    {name: Entry(classes=(kind.__name__,)) for name, kind in _CLASSES.items()},
    aliases={
        **dict.fromkeys(("openai_gym", "openai_gym_env"), "openai"),
        "random": "random_env",
        "sequential_vector": "sequential_vector_env",
    },
    refused={
        name: _OTHER
        for world in ("deepmind_lab", "mlagents", "vizdoom", "deterministic")
        for name in (world, f"{world}_env")
    },
    alone="{'type': 'openai', 'gym_env': an id of Gymnasium}, a class, 'module.Class', a file (.json, .yml, .yaml)",
    from_callable=lambda where, made: (_MADE_BY, {_MADE_BY: made}),
    normalized=without_case,
    prefix="rlgraph.",
    suffixes=(*JSON, *YAML),
)


@opens
def from_spec(kind: type[Environment], spec: Any, given: Mapping[str, Any]) -> Environment:
    """See :meth:`Environment.from_spec`; ``kind`` is the class it was called on."""
    made = _open(kind, os.fspath(spec) if isinstance(spec, os.PathLike) else spec, given)
    if not isinstance(made, kind):
        refuse(f"{kind.__name__}.from_spec: spec", f"describes a {type(made).__name__}, {made}", spec)
    return made


def _open(kind: type[Environment], spec: Any, given: Mapping[str, Any]) -> Environment:
    if isinstance(spec, Environment):
        for name, value in given.items():
            refuse(f"{WHERE}: {name}", "needs a specification, but the environment is an object", value)
        return spec
    if _is_gymnasium(spec):
        return OpenAIGymEnv(spec, **given)
    spec = {**mapping(_SPEC, spec or {}), **given} if isinstance(spec, Mapping) or spec is None else spec
    if isinstance(spec, Mapping) and kind is not Environment:
        spec = {"type": kind, **spec}
    with translate_errors():
        name, arguments = parse_spec(_SPEC, spec, _TABLE)
    arguments |= {} if isinstance(spec, Mapping) else given
    made_by = arguments.pop(_MADE_BY) if name == _MADE_BY else _CLASSES[name]
    if isinstance(made_by, type) and issubclass(made_by, Environment) and not issubclass(made_by, kind):
        refuse(f"{kind.__name__}.from_spec: spec", f"describes a {made_by.__name__}", spec)  # before it is made
    check_arguments(made_by, arguments)
    made = made_by(**arguments)
    if _is_gymnasium(made):
        return OpenAIGymEnv(made)
    if not isinstance(made, Environment):
        refuse(_SPEC, f"must make an Environment; {shortened(made_by)} made {shortened(made)}", made)
    return made


def check_arguments(called: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that a class or function does not take."""
    try:
        signature = inspect.signature(called)
    except (ValueError, TypeError):  # of some built-in callables
        return
    kinds = {one.kind for one in signature.parameters.values()}
    name = getattr(called, "__name__", type(called).__name__)
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        refuse_unknown(name, arguments, signature.parameters)
    try:
        signature.bind(**arguments)
    except TypeError as error:
        refuse(name, f"{error}", dict(arguments))


def _is_gymnasium(given: Any) -> bool:
    """Is it an environment of Gymnasium? If so, Gymnasium is loaded already."""
    module = sys.modules.get("gymnasium")
    return module is not None and isinstance(given, module.Env)
