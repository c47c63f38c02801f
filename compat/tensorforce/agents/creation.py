"""``Agent.create`` and ``Agent.load``."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping
from typing import Any

from ...common.specs.files import read_file
from ...common.specs.module_specs import parse_spec, unfold
from ..spaces.errors import TensorforceError, integer, mapping, refuse, translate_errors
from ..spaces.specs import read_values
from ..specs.arguments import AGENTS
from ..specs.table_checks import SpecTable
from . import actonly
from .files import ACT_ONLY, SAVED, TENSORFLOW, Saved, find, read_content
from .saver import Saver
from .state import take_over

_WHERE, _LOAD = "Agent.create", "Agent.load"
_NO_ARGUMENTS = ("agent", "internals", "initial_internals", SAVED)
"""Entries of the JSON file that are not arguments."""
_MADE_BY = "made by"
"""The entry, and its argument, for a user's class."""
_TABLE = SpecTable("agent", AGENTS, from_callable=lambda where, made: (_MADE_BY, {_MADE_BY: made}))


def create(agent: Any, environment: Any, kwargs: Mapping[str, Any], base: Any) -> Any:
    """See :meth:`.agents.Agent.create`; ``base`` is the class ``Agent``."""
    if isinstance(agent, base):
        return _reuse_agent(agent, environment, kwargs)
    made, given = resolved(agent, kwargs, base)
    with specs_of(environment) as found:
        given = with_environment(given, found)
    one = made(**given)
    one.initialize()
    return one


def resolved(agent: Any, kwargs: Mapping[str, Any], base: Any) -> tuple[Any, dict[str, Any]]:
    """The class of an agent, and its arguments; ``kwargs`` override those of a dictionary or a file.

    Raises:
        TensorforceError: there is no such agent.
    """
    place = f"{_WHERE}: agent"
    with translate_errors():
        agent, given = unfold(place, agent, "agent", kwargs, _TABLE)
        agent = "default" if agent is None else agent
        if isinstance(agent, str):
            kind = _TABLE.of_class(agent)
            kind, made = (kind, {}) if kind is not None else parse_spec(place, agent, _TABLE)
            classes = base.__subclasses__()  # the first class with the key; a user's own classes are subclasses
            for one in classes:
                classes += one.__subclasses__()
            agent = made[_MADE_BY] if made else next(one for one in classes if one.kind == kind)
    if not isinstance(agent, type) or not issubclass(agent, base):
        refuse(place, f"must be a key, a dictionary, a file, a class or an Agent, got {agent!r}", agent)
    return agent, given


@contextlib.contextmanager
def specs_of(environment: Any) -> Any:
    """An environment's specifications; an environment made here is closed again."""
    if environment is None:
        yield None
        return
    from ..environments import Environment
    from ..environments.environment_specs import is_object

    if isinstance(environment, Environment):
        yield environment
        return
    opened = Environment.create(environment=environment)
    try:
        yield opened
    finally:
        if not is_object(environment):
            opened.close()


def with_environment(given: dict[str, Any], environment: Any) -> dict[str, Any]:
    """Arguments, with defaults from the environment.

    Raises:
        TensorforceError: they contradict the environment.
    """
    if environment is None:
        return given
    found = dict(given)
    for kind, spec in (("states", environment.states()), ("actions", environment.actions())):
        expected = read_values(_WHERE, spec, kind)
        if found.get(kind) is None:
            found[kind] = expected.to_json()
        elif read_values(_WHERE, found[kind], kind).flat != expected.flat:
            refuse(f"{_WHERE}: {kind}", f"are {found[kind]!r}, but the environment's are {spec!r}", found[kind])
    limit = environment.max_episode_timesteps()
    if found.get("max_episode_timesteps") is None:
        if limit is not None:
            found["max_episode_timesteps"] = limit
    elif limit is not None:
        longest = integer(f"{_WHERE}: max_episode_timesteps", found["max_episode_timesteps"], at_least=1)
        if longest < limit:
            problem = f"must be at least the environment's, {limit}; got {longest}"
            refuse(f"{_WHERE}: max_episode_timesteps", problem, longest)
    return found


def _reuse_agent(agent: Any, environment: Any, kwargs: Mapping[str, Any]) -> Any:
    """An existing agent: checked against the other arguments, and reset."""
    with specs_of(environment) as found:
        given = with_environment(dict(kwargs), found)
    for kind, own in (("states", agent.states_values), ("actions", agent.actions_values)):
        spec = given.pop(kind, None)
        if spec is not None and read_values(_WHERE, spec, kind).flat != own.flat:
            refuse(f"{_WHERE}: {kind}", f"of the agent are {own.to_json()!r}, not {spec!r}", spec)
    for name, own in (
        ("parallel_interactions", agent.parallel_interactions),
        ("max_episode_timesteps", agent.max_episode_timesteps),
    ):
        wanted = given.pop(name, None)
        if wanted is not None and integer(f"{_WHERE}: {name}", wanted, at_least=1) > (own or math.inf):
            refuse(f"{_WHERE}: {name}", f"of the agent is {own}, less than {wanted}", wanted)
    for name, value in given.items():
        if agent.arguments.get(name) != value:
            refuse(f"{_WHERE}: {name}", f"of the agent is {agent.arguments.get(name)!r}, not {value!r}", value)
    (agent.reset if agent.is_initialized else agent.initialize)()
    return agent


# -- loading -----------------------------------------------------------------------------------------------------------


def load(directory: Any, filename: Any, format: Any, environment: Any, kwargs: Mapping[str, Any], base: Any) -> Any:
    """See :meth:`.agents.Agent.load`: an agent, or an :class:`.actonly.ActOnly`; ``base`` is the class ``Agent``."""
    directory, filename = "." if directory is None else directory, "agent" if filename is None else filename
    try:
        saved = find(_LOAD, directory, filename, format)
    except TensorforceError:
        if format == ACT_ONLY:
            _say_why_not(directory, filename)
        raise
    if saved.format == ACT_ONLY:
        if environment is not None or kwargs:
            name = "environment" if environment is not None else next(iter(kwargs))
            refuse(f"{_LOAD}: {name}", "is not supported for act-only agents", kwargs.get(name))
        return actonly.read(_LOAD, saved.path)
    which, arguments = _saved_arguments(saved, kwargs, base)
    made, given = resolved(which, arguments, base)
    with specs_of(environment) as world:
        if world is not None and "max_episode_timesteps" not in kwargs:
            limit = world.max_episode_timesteps()
            if limit is not None:
                given["max_episode_timesteps"] = limit
        given = with_environment(given, world)
    agent: Any = made(**given)
    # The saver comes last: it must not continue from another file, nor write before this one is loaded.
    spec = agent.arguments.get("saver")
    agent.arguments["saver"] = None
    saver = None if spec is None else Saver(str(agent), spec, agent)
    agent.initialize()
    take_over(_LOAD, agent, saved)
    if saver is not None:
        agent.arguments["saver"] = spec
        agent.companions.append(saver)
        saver.write(agent)
    return agent


def _saved_arguments(saved: Saved, kwargs: Mapping[str, Any], base: Any) -> tuple[Any, dict[str, Any]]:
    """The agent, and its arguments: the saved ones, overridden by ``kwargs``."""
    stored: Mapping[str, Any] = {}
    for name in (saved.asked, re.sub(r"-[0-9]+$", "", saved.asked)):
        path = saved.path.with_name(f"{name}.json")
        if path.is_file():
            with translate_errors():
                stored = mapping(f"{_LOAD}: filename", read_file(f"{_LOAD}: filename", str(path)))
            break
    given = {key: value for key, value in stored.items() if key not in _NO_ARGUMENTS}
    agent = kwargs.get("agent", stored.get("agent", "default"))
    if "agent" in kwargs and "agent" in stored:
        kind, saved_kind = (resolved(one, {}, base)[0].kind for one in (kwargs["agent"], stored["agent"]))
        if kind != saved_kind:
            refuse(f"{_LOAD}: agent", f"must be {saved_kind!r}, as it was saved; got {kwargs['agent']!r}", agent)
    return agent, {**given, **{key: value for key, value in kwargs.items() if key != "agent"}}


def _say_why_not(directory: Any, filename: Any) -> None:
    """Refuse an act-only agent that was not saved; the saved agent, if there is one, says why."""
    try:
        saved = find(_LOAD, directory, filename, TENSORFLOW)
        why = read_content(_LOAD, saved)[actonly.WHY]
    except (TensorforceError, KeyError, TypeError):
        return
    if why is not None:
        refuse(f"{_LOAD}: format", f"cannot be {ACT_ONLY!r}: {saved.path} was saved without it: {why}", ACT_ONLY)
