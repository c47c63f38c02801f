"""Methods of an Agent that training does not call: an override in a subclass would silently have no effect."""

from __future__ import annotations

from typing import Any, Final

from ..core.errors import ArgumentError

_LOOPS: Final = ("run_episode", "session")


def refuse_overridden(agent: Any, own: type[Any]) -> None:
    """Raise ``ArgumentError`` if ``agent``, of a subclass of ``own``, overrides methods that run episodes."""
    for name in _LOOPS:
        if getattr(getattr(agent, name), "__func__", None) is not getattr(own, name):
            kind = type(agent).__name__
            message = (
                f"train does not call {kind}.{name}: use a hook (before_episode,"
                " after_timestep, after_episode), a wrapper of the environment, or a loop of your own around"
                " Agent.session and run_episode, or around Agent.interact"
            )
            raise ArgumentError(message, name, kind)
