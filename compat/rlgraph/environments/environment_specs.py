"""Environments from their specifications."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ....core.checks import did_you_mean, shortened
from ..utils.modules import imported
from ..utils.rlgraph_errors import known, mapping, refuse
from .environment import Environment, opens
from .grid_world import GridWorld
from .openai_gym import OpenAIGymEnv
from .random_env import RandomEnv
from .sequential_vector_env import SequentialVectorEnv

WHERE: Final = "Environment.from_spec"
_CLASSES: Final[dict[str, type[Environment]]] = {
    "openai": OpenAIGymEnv,
    "openai_gym": OpenAIGymEnv,
    "openai_gym_env": OpenAIGymEnv,
    "grid_world": GridWorld,
    "random": RandomEnv,
    "random_env": RandomEnv,
    "sequential_vector": SequentialVectorEnv,
    "sequential_vector_env": SequentialVectorEnv,
}
_OTHER: Final = "pass any Gymnasium environment: {'type': 'openai', 'gym_env': its id or the object}"
_NOT_OURS: Final = {"deepmind_lab": _OTHER, "mlagents": _OTHER, "vizdoom": _OTHER, "deterministic": _OTHER}


@opens
def from_spec(kind: type[Environment], spec: Any, given: Mapping[str, Any]) -> Environment:
    """See :meth:`Environment.from_spec`; ``kind`` is the class that it was called on."""
    if isinstance(spec, str | Path) and Path(spec).suffix in (".json", ".yml", ".yaml"):
        spec = _read(Path(spec))
    arguments = dict(given)
    if isinstance(spec, Mapping) or spec is None:
        arguments = {**mapping(f"{WHERE}: spec", spec or {}), **given}
        spec = arguments.pop("type", None if kind is Environment else kind)
        if spec is None:
            refuse(f"{WHERE}: type", f"is missing; it is one of {', '.join(_CLASSES)}", arguments)
    if isinstance(spec, str):
        spec = _by_name(spec)
    if isinstance(spec, type) and issubclass(spec, Environment) and not issubclass(spec, kind):  # before it is made
        refuse(f"{kind.__name__}.from_spec: spec", f"describes a {spec.__name__}", spec)
    made = _open(spec, arguments)
    if not isinstance(made, kind):
        refuse(f"{kind.__name__}.from_spec: spec", f"describes a {type(made).__name__}, {made}", spec)
    return made


def _open(spec: Any, arguments: dict[str, Any]) -> Environment:
    if isinstance(spec, Environment) or _is_gymnasium(spec):
        if isinstance(spec, Environment):
            if arguments:
                name = next(iter(arguments))
                refuse(f"{WHERE}: {name}", "is for specifications; the environment is an object", arguments[name])
            return spec
        return OpenAIGymEnv(spec, **arguments)
    if not callable(spec):
        forms = "a dictionary with 'type', a name, a file, a class, a callable or an environment"
        refuse(f"{WHERE}: spec", f"must be {forms}; got {shortened(spec)}", spec)
    _check_arguments(spec, arguments)
    made = spec(**arguments)
    if _is_gymnasium(made):
        return OpenAIGymEnv(made)
    if not isinstance(made, Environment):
        refuse(f"{WHERE}: spec", f"must make an Environment; {shortened(spec)} made {shortened(made)}", made)
    return made


def _by_name(name: str) -> Callable[..., Any]:
    plain = _plain(name)
    for known_name, found in _CLASSES.items():
        if _plain(known_name) == plain:
            return found
    for other, way_out in _NOT_OURS.items():
        if plain.removesuffix("env") == _plain(other):
            refuse(f"{WHERE}: type", f"{name!r} is not supported: {way_out}", name)
    if "." not in name:
        near = did_you_mean(name, _CLASSES)
        forms = f"{', '.join(_CLASSES)}, 'module.Class' or a file (.json, .yml, .yaml)"
        hint = "for an id of Gymnasium: {'type': 'openai', 'gym_env': id}"
        refuse(f"{WHERE}: type", f"{name!r} is unknown{near}; it is one of {forms}; {hint}", name)
    return _imported(name)


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _imported(name: str) -> Callable[..., Any]:
    found = imported(f"{WHERE}: type", name)
    if not callable(found):
        refuse(f"{WHERE}: type", f"{name!r} is neither a class nor a function", name)
    made: Callable[..., Any] = found
    return made


def _check_arguments(called: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(called)
    except (ValueError, TypeError):  # of some built-in callables
        return
    kinds = {one.kind for one in signature.parameters.values()}
    name = getattr(called, "__name__", type(called).__name__)
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        known(name, arguments, signature.parameters)
    try:
        signature.bind(**arguments)
    except TypeError as error:
        refuse(name, f"{error}", dict(arguments))


def _is_gymnasium(given: Any) -> bool:
    """Is it an environment of Gymnasium? Then Gymnasium is loaded."""
    module = sys.modules.get("gymnasium")
    return module is not None and isinstance(given, module.Env)


def _read(path: Path) -> Any:
    if not path.is_file():
        refuse(f"{WHERE}: spec", f"names the file {path}, which does not exist", str(path))
    text = path.read_text(encoding="utf-8")
    try:
        if path.suffix == ".json":
            return json.loads(text)
        import yaml

        return yaml.safe_load(text)
    except Exception as error:
        refuse(f"{WHERE}: spec", f"{path} cannot be read: {error}", str(path))
