"""Environments from their specifications."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ....core.checks import did_you_mean, nearest, shortened
from ...common.specs.files import imported, read_file
from ..spaces.errors import choice, flag, integer, mapping, refuse, translate_errors
from .environment import Environment, opens
from .limited import LimitedEnvironment, read_specs
from .remote import RemoteEnvironment

WHERE: Final = "Environment.create"
GYM: Final = ("default", "gym", "openai_gym")
"""Names of the adapter to Gymnasium."""
_NOT_OURS: Final = {
    "ale": "use environment='gym' with a level such as 'ALE/Pong-v5'",
    "retro": "give the Gymnasium environment of stable-retro as the environment",
    "vizdoom": "import its Gymnasium environments and use environment='gym' with one as the level",
    "ple": "give a Gymnasium environment, or a subclass of Environment",
    "osim": "give a Gymnasium environment, or a subclass of Environment",
    "mazeexp": "give a Gymnasium environment, or a subclass of Environment",
    "carla": "give a Gymnasium environment, or a subclass of Environment",
}
"""What the original had, and what to do instead."""
_CLASSES: Final = {
    "OpenAIGym": "gym",
    "GymnasiumEnvironment": "gym",
    "ArcadeLearningEnvironment": "ale",
    "OpenAIRetro": "retro",
    "ViZDoom": "vizdoom",
    "PyGameLearningEnvironment": "ple",
    "OpenSim": "osim",
    "MazeExplorer": "mazeexp",
    "CARLAEnvironment": "carla",
}
"""Class names after ``tensorforce.``"""


@opens
def create(environment: Any, given: Mapping[str, Any]) -> Environment:
    """See :meth:`Environment.create`; ``given`` are all its keyword arguments but those that are None."""
    return _created(environment, given, ())


def _created(environment: Any, given: Mapping[str, Any], files: tuple[Path, ...]) -> Environment:
    """``files`` are those that are being read: one that contains itself is refused."""
    if isinstance(environment, str) and Path(environment).is_file():
        path = Path(environment).resolve()
        if path in files:
            refuse(f"{WHERE}: environment", f"names the file {environment}, which contains itself", environment)
        with translate_errors():
            environment, files = read_file(f"{WHERE}: environment", environment), (*files, path)
    if isinstance(environment, str) and environment.endswith(".json"):
        refuse(f"{WHERE}: environment", f"names the file {environment}, which does not exist", environment)
    if isinstance(environment, Mapping):
        entries = dict(mapping(f"{WHERE}: environment", environment))
        inner = entries.pop("environment") if "environment" in entries else entries.pop("type", None)
        own = {name: value for name, value in entries.items() if value is not None}
        return _created(inner, own | dict(given), files)
    arguments = dict(given)
    limit, remote = arguments.pop("max_episode_timesteps", None), arguments.pop("remote", None)
    blocking = flag(f"{WHERE}: blocking", arguments.pop("blocking", False))
    for name in ("host", "port"):
        if name in arguments:
            refuse(f"{WHERE}: {name}", "is for sockets, which are not supported", arguments[name])
    if limit is not None:
        limit = integer(f"{WHERE}: max_episode_timesteps", limit, at_least=1)
    if remote is not None:
        _check_remote(environment, remote, arguments)
        inside = dict(arguments, max_episode_timesteps=limit) if limit is not None else arguments
        return RemoteEnvironment(functools.partial(create, environment, inside), blocking)
    opened = _open(environment, arguments)
    is_limited = isinstance(opened, LimitedEnvironment | RemoteEnvironment)
    if limit is not None and not (is_limited and limit == opened.max_episode_timesteps()):
        return LimitedEnvironment(opened, limit)
    if not is_limited:
        read_specs(opened)
    return opened


def is_object(environment: Any) -> bool:
    """Is it an environment, rather than the specification of one? Then whoever made it closes it, too."""
    if isinstance(environment, Environment):
        return True
    if isinstance(environment, Mapping):
        inner = environment.get("environment", environment.get("type"))
        return is_object(inner) or is_object(environment.get("level"))
    return not isinstance(environment, type) and _is_gym(environment)


def _is_gym(environment: Any) -> bool:
    """Whether it is an environment of Gymnasium, or of Gym, or a class of them."""
    return all(callable(getattr(environment, name, None)) for name in ("reset", "step"))


def _check_remote(environment: Any, remote: Any, arguments: Mapping[str, Any]) -> None:
    if remote in ("socket-client", "socket-server"):
        refuse(f"{WHERE}: remote", f"{remote!r} is not supported: use 'multiprocessing'", remote)
    choice(f"{WHERE}: remote", remote, ["multiprocessing"])
    if is_object(environment) or is_object(arguments.get("level")):
        refuse(f"{WHERE}: environment", "must be a specification with remote, not an object", environment)


def _open(environment: Any, arguments: dict[str, Any]) -> Environment:
    if environment is None or (isinstance(environment, str) and environment in GYM):
        return _gym(arguments)
    if isinstance(environment, str):
        return _by_name(environment, arguments)
    if isinstance(environment, Environment):
        if arguments:
            refuse(
                f"{WHERE}: {next(iter(arguments))}", "is for specifications; the environment is an object", arguments
            )
        return environment
    if isinstance(environment, type):
        return _by_class(environment, arguments)
    if not is_object(environment):
        problem = f"must be a name, a JSON file, a dictionary, a class or an environment; got {shortened(environment)}"
        refuse(f"{WHERE}: environment", problem, environment)
    return _gym({"level": environment, **arguments})


def _by_name(name: str, arguments: dict[str, Any]) -> Environment:
    if name.startswith("tensorforce."):
        ours = name.rpartition(".")[2]
        if ours not in _CLASSES:
            refuse(f"{WHERE}: environment", f"{name!r} is unknown{did_you_mean(ours, _CLASSES)}", name)
        name = _CLASSES[ours]
    if name in _NOT_OURS:
        refuse(f"{WHERE}: environment", f"{name!r} is not supported: {_NOT_OURS[name]}", name)
    if name in GYM:
        return _gym(arguments)
    if "." in name and "/" not in name and ":" not in name and not _registered(name):
        with translate_errors():
            kind = imported(f"{WHERE}: environment", name)
        return _by_class(kind, arguments)
    if "level" in arguments:
        known = nearest(name, GYM)
        hint = f" (did you mean {known!r}?)" if known else ""
        refuse(f"{WHERE}: environment", f"{name!r} is unknown{hint}; a level belongs to 'gym'", name)
    return _gym({"level": name, **arguments})


def _by_class(kind: Any, arguments: dict[str, Any]) -> Environment:
    if isinstance(kind, type) and not issubclass(kind, Environment) and _is_gym(kind):
        return _gym({"level": kind, **arguments})
    if not isinstance(kind, type) or not issubclass(kind, Environment):
        refuse(f"{WHERE}: environment", f"must be a subclass of Environment or of gymnasium.Env, got {kind!r}", kind)
    _check_arguments(kind, kind.__name__, arguments)
    return kind(**arguments)


def _gym(arguments: dict[str, Any]) -> Environment:
    from .gymnasium_environment import GymnasiumEnvironment

    _check_arguments(GymnasiumEnvironment, "gym", arguments)
    return GymnasiumEnvironment(**arguments)


def _check_arguments(kind: Any, name: str, arguments: Mapping[str, Any]) -> None:
    try:
        inspect.signature(kind).bind(**arguments)
    except TypeError as error:
        refuse(f"{WHERE}: environment", f"{name}: {error}", dict(arguments))


def _registered(name: str) -> bool:
    import gymnasium

    return name in gymnasium.registry
