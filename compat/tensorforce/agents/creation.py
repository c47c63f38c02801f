"""``Agent.create``: an agent from a key, a dictionary, a file, a class or an object."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from ...common.specs.module_specs import opened, unfolded
from ..spaces.errors import integer, refuse, translate_errors
from ..spaces.specs import read_values
from ..specs.arguments import AGENTS
from ..specs.table_checks import SpecTable

_WHERE = "Agent.create"
_MADE_BY = "made by"
"""The entry, and its argument, of a user's class."""
_TABLE = SpecTable("agent", AGENTS, from_callable=lambda where, made: (_MADE_BY, {_MADE_BY: made}))


def create(agent: Any, environment: Any, kwargs: Mapping[str, Any], base: Any) -> Any:
    """See :meth:`.agents.Agent.create`.

    Args:
        agent: which one.
        environment: gives specifications; or None.
        kwargs: arguments.
        base: the class ``Agent``.
    """
    if isinstance(agent, base):
        return _again(agent, environment, kwargs)
    made, given = resolved(agent, kwargs, base)
    with specs_of(environment) as found:
        given = with_environment(given, found)
    one = made(**given)
    one.initialize()
    return one


def resolved(agent: Any, kwargs: Mapping[str, Any], base: Any) -> tuple[Any, dict[str, Any]]:
    """The class of an agent, and its arguments; ``kwargs`` win over those of a dictionary or a file.

    Raises:
        TensorforceError: there is no such agent.
    """
    place = f"{_WHERE}: agent"
    with translate_errors():
        agent, given = unfolded(place, agent, "agent", kwargs)
        agent = "default" if agent is None else agent
        if isinstance(agent, str):
            kind = _TABLE.of_class(agent)
            kind, made = (kind, {}) if kind is not None else opened(place, agent, _TABLE)
            agent = made[_MADE_BY] if made else _class_of(kind, base)
    if not isinstance(agent, type) or not issubclass(agent, base):
        refuse(place, f"must be a key, a dictionary, a file, a class or an Agent, got {agent!r}", agent)
    return agent, given


def _class_of(kind: str, base: Any) -> Any:
    """The first class below ``Agent`` of an agent's key; a user's own are below it."""
    classes = base.__subclasses__()
    for one in classes:
        if one.kind == kind:
            break
        classes += one.__subclasses__()
    return one


@contextlib.contextmanager
def specs_of(environment: Any) -> Any:
    """An environment's specifications; one that is made here is closed again."""
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
    """Arguments, with what the environment says where they say nothing.

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
            refuse(f"{_WHERE}: {kind}", f"are {found[kind]!r}, and those of the environment {spec!r}", found[kind])
    limit = environment.max_episode_timesteps()
    if found.get("max_episode_timesteps") is None:
        if limit is not None:
            found["max_episode_timesteps"] = limit
    elif limit is not None:
        longest = integer(f"{_WHERE}: max_episode_timesteps", found["max_episode_timesteps"], at_least=1)
        if longest < limit:
            refuse(
                f"{_WHERE}: max_episode_timesteps",
                f"must be at least the environment's, {limit}; got {longest}",
                longest,
            )
    return found


def _again(agent: Any, environment: Any, kwargs: Mapping[str, Any]) -> Any:
    """An agent that exists: it is compared with what else was given, and begins anew with its episodes."""
    with specs_of(environment) as found:
        given = with_environment(dict(kwargs), found)
    for kind, own in (("states", agent.states_values), ("actions", agent.actions_values)):
        spec = given.pop(kind, None)
        if spec is not None and read_values(_WHERE, spec, kind).flat != own.flat:
            refuse(f"{_WHERE}: {kind}", f"of the agent are {own.to_json()!r}, and not {spec!r}", spec)
    lanes = integer(f"{_WHERE}: parallel_interactions", given.pop("parallel_interactions", 1), at_least=1)
    if lanes > agent.parallel_interactions:
        refuse(
            f"{_WHERE}: parallel_interactions",
            f"of the agent is {agent.parallel_interactions}, less than {lanes}",
            lanes,
        )
    longest = given.pop("max_episode_timesteps", None)
    if longest is not None:
        longest = integer(f"{_WHERE}: max_episode_timesteps", longest, at_least=1)
    if longest is not None and agent.max_episode_timesteps is not None and agent.max_episode_timesteps < longest:
        refuse(
            f"{_WHERE}: max_episode_timesteps",
            f"of the agent is {agent.max_episode_timesteps}, less than {longest}",
            longest,
        )
    for name, value in given.items():
        if agent.arguments.get(name) != value:
            refuse(f"{_WHERE}: {name}", f"of the agent is {agent.arguments.get(name)!r}, and not {value!r}", value)
    if agent.is_initialized:
        agent.reset()
    else:
        agent.initialize()
    return agent
