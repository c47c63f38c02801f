"""``Agent.load``: an agent from its files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...common.specs.files import read_file
from ..spaces.errors import TensorforceError, mapping, refuse, translate_errors
from . import actonly
from .agent_state import take_over
from .creation import resolved, specs_of, with_environment
from .saved_files import ACT_ONLY, SAVED, TENSORFLOW, Saved, find, read_state
from .saver import Saver

_WHERE = "Agent.load"
_NO_ARGUMENTS = ("agent", "internals", "initial_internals", SAVED)
"""Entries of the JSON file."""


def load(directory: Any, filename: Any, format: Any, environment: Any, kwargs: Mapping[str, Any], base: Any) -> Any:
    """See :meth:`.agents.Agent.load`.

    Args:
        directory: where it was saved; None for ``.``.
        filename: with or without number and suffix; None for ``agent``.
        format: or None.
        environment: or None.
        kwargs: arguments that win over the saved ones.
        base: the class ``Agent``.

    Returns:
        The agent, or an :class:`.actonly.ActOnly`.
    """
    directory, filename = "." if directory is None else directory, "agent" if filename is None else filename
    try:
        saved = find(_WHERE, directory, filename, format)
    except TensorforceError:
        if format == ACT_ONLY:
            _say_why_not(directory, filename)
        raise
    if saved.format == ACT_ONLY:
        if environment is not None or kwargs:
            name = "environment" if environment is not None else next(iter(kwargs))
            refuse(f"{_WHERE}: {name}", "is not for what only acts", kwargs.get(name))
        return actonly.read(_WHERE, saved.path)
    which, arguments = _arguments(saved, kwargs, base)
    made, given = resolved(which, arguments, base)
    with specs_of(environment) as world:
        if world is not None and "max_episode_timesteps" not in kwargs:
            limit = world.max_episode_timesteps()
            if limit is not None:
                given["max_episode_timesteps"] = limit
        given = with_environment(given, world)
    agent: Any = made(**given)
    # The saver comes last: it must neither continue from another file, nor write before this one is loaded.
    spec = agent.arguments.get("saver")
    agent.arguments["saver"] = None
    saver = None if spec is None else Saver(str(agent), spec, agent)
    agent.initialize()
    take_over(_WHERE, agent, saved)
    if saver is not None:
        agent.arguments["saver"] = spec
        agent.companions.append(saver)
        saver.write(agent)
    return agent


def _arguments(saved: Saved, kwargs: Mapping[str, Any], base: Any) -> tuple[Any, dict[str, Any]]:
    """Which agent it is, and its arguments: the saved ones, over which ``kwargs`` win."""
    stored: Mapping[str, Any] = {}
    for name in (saved.asked, re.sub(r"-[0-9]+$", "", saved.asked)):
        path = saved.path.with_name(f"{name}.json")
        if path.is_file():
            with translate_errors():
                stored = mapping(f"{_WHERE}: filename", read_file(f"{_WHERE}: filename", str(path)))
            break
    given = {key: value for key, value in stored.items() if key not in _NO_ARGUMENTS}
    agent = kwargs.get("agent", stored.get("agent", "default"))
    if "agent" in kwargs and "agent" in stored:
        kind, saved_kind = (resolved(one, {}, base)[0].kind for one in (kwargs["agent"], stored["agent"]))
        if kind != saved_kind:
            refuse(f"{_WHERE}: agent", f"must be {saved_kind!r}, as it was saved; got {kwargs['agent']!r}", agent)
    return agent, {**given, **{key: value for key, value in kwargs.items() if key != "agent"}}


def _say_why_not(directory: Any, filename: Any) -> None:
    """There is nothing that only acts: if the agent is there, it says why."""
    try:
        saved = find(_WHERE, directory, filename, TENSORFLOW)
        why = read_state(_WHERE, saved.path)[actonly.WHY]
    except (TensorforceError, KeyError, TypeError):
        return
    if why is not None:
        refuse(f"{_WHERE}: format", f"cannot be {ACT_ONLY!r}: {saved.path} was saved without, as {why}", ACT_ONLY)
