"""Creates environments from their specifications."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any, Final

from ....core.checks import shortened
from ...common.specs.module_specs import parse_spec, unfold
from ...common.specs.tables import Entry, SpecTable
from ..spaces.errors import choice, flag, integer, refuse, translate_errors
from .environment import Environment, opens
from .limited import LimitedEnvironment, read_specs
from .remote import RemoteEnvironment

WHERE: Final = "Environment.create"
_SPEC: Final = f"{WHERE}: environment"
_MADE_BY: Final = "made by"
"""The entry, and its argument, for a user's class."""
_OTHER: Final = "give a Gymnasium environment, or a subclass of Environment"
_NOT_OURS: Final = {
    ("ale", "arcade_learning_environment"): "use environment='gym' with a level such as 'ALE/Pong-v5'",
    ("retro", "open_ai_retro"): "give the Gymnasium environment of stable-retro as the environment",
    ("vizdoom",): "import vizdoom.gymnasium_wrapper and use environment='gym' with one of its ids",
    ("ple", "py_game_learning_environment", "osim", "open_sim"): _OTHER,
    ("mazeexp", "maze_explorer", "carla", "carla_environment"): _OTHER,
}
"""Adapters that exist only in Tensorforce, by name and class name, and what to use instead."""
_TABLE: Final = SpecTable(
    "environment",
    {"gym": Entry(classes=("OpenAIGym", "GymnasiumEnvironment"))},
    aliases={"default": "gym", "openai_gym": "gym"},
    refused={name: instead for names, instead in _NOT_OURS.items() for name in names},
    alone="a level of Gymnasium, a JSON file, a dictionary, a class, 'module.Class', an environment,",
    from_callable=lambda where, made: (_MADE_BY, {_MADE_BY: made}),
    prefix="tensorforce.",
)


@opens
def create(environment: Any, given: Mapping[str, Any]) -> Environment:
    """See :meth:`Environment.create`; ``given`` are all its keyword arguments that are not None."""
    with translate_errors():
        environment, found = unfold(_SPEC, environment, "environment", given, _TABLE)
    arguments = {name: value for name, value in found.items() if value is not None}
    limit, remote = arguments.pop("max_episode_timesteps", None), arguments.pop("remote", None)
    blocking = flag(f"{WHERE}: blocking", arguments.pop("blocking", False))
    for name in ("host", "port"):
        if name in arguments:
            refuse(f"{WHERE}: {name}", "is for sockets, which are not supported", arguments[name])
    if limit is not None:
        limit = integer(f"{WHERE}: max_episode_timesteps", limit, at_least=1)
    if remote is not None:
        if remote in ("socket-client", "socket-server"):
            refuse(f"{WHERE}: remote", f"{remote!r} is not supported: use 'multiprocessing'", remote)
        choice(f"{WHERE}: remote", remote, ["multiprocessing"])
        if is_object(environment) or is_object(arguments.get("level")):
            refuse(_SPEC, "must be a specification with remote, not an object", environment)
        inside = dict(arguments, max_episode_timesteps=limit) if limit is not None else arguments
        return RemoteEnvironment(functools.partial(create, environment, inside), blocking)
    made = _make(environment, arguments)
    is_limited = isinstance(made, LimitedEnvironment | RemoteEnvironment)
    if limit is not None and not (is_limited and limit == made.max_episode_timesteps()):
        return LimitedEnvironment(made, limit)
    if not is_limited:
        read_specs(made)
    return made


def instead_of_class(name: str) -> str | None:
    """The replacement for an adapter of Tensorforce, by the name of its class; None if there was none."""
    return _TABLE.instead_of_class(name)


def is_object(environment: Any) -> bool:
    """Is it an environment, rather than a specification? Its owner then also closes it."""
    if isinstance(environment, Environment):
        return True
    if isinstance(environment, Mapping):
        inner = environment.get("environment", environment.get("type"))
        return is_object(inner) or is_object(environment.get("level"))
    return not isinstance(environment, type) and _is_gym(environment)


def _is_gym(environment: Any) -> bool:
    """Is it an environment of Gymnasium or Gym, or a class of them?"""
    return all(callable(getattr(environment, name, None)) for name in ("reset", "step"))


def _make(environment: Any, arguments: dict[str, Any]) -> Environment:
    if isinstance(environment, Environment):
        for name, value in arguments.items():
            refuse(f"{WHERE}: {name}", "is for specifications; the environment is an object", value)
        return environment
    if isinstance(environment, str) and ("level" in arguments or not _is_level(environment)):
        with translate_errors():
            environment = parse_spec(_SPEC, environment, _TABLE)[1].get(_MADE_BY)
    kind: Any = environment
    if not isinstance(environment, type) or not issubclass(environment, Environment):
        from . import gymnasium_environment

        kind = gymnasium_environment.GymnasiumEnvironment
        if environment is not None and not isinstance(environment, str) and not _is_gym(environment):
            wanted = "a name, a JSON file, a dictionary, a subclass of Environment or gymnasium.Env, or an environment"
            refuse(_SPEC, f"must be {wanted}; got {shortened(environment)}", environment)
        arguments = arguments if environment is None else {"level": environment, **arguments}
    try:
        inspect.signature(kind).bind(**arguments)
    except TypeError as error:
        refuse(_SPEC, f"{kind.__name__}: {error}", dict(arguments))
    made: Environment = kind(**arguments)
    return made


def _is_level(name: str) -> bool:
    """Is it a level of Gymnasium, rather than one of our names or a ``module.Class``?"""
    import gymnasium

    is_ours = _TABLE.find(name) or _TABLE.instead_of(name) or name.startswith(_TABLE.prefix)
    return not is_ours and ("." not in name or "/" in name or ":" in name or name in gymnasium.registry)
