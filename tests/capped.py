"""Trainings of pages and notebooks, cut short."""

import functools
from collections.abc import Callable
from typing import Any, Final

import pytest

from axonrl import Agent

CAPS: Final = {"timesteps": 600, "max_timesteps": 600, "max_steps": 600, "episodes": 10}


def capped(agent: Agent, method: Callable[..., Any], *arguments: Any, **limits: Any) -> Any:
    """Call a method with what a page says, but not for as long."""
    shorter = {name: min(value, CAPS[name]) for name, value in limits.items() if name in CAPS and value is not None}
    return method(agent, *arguments, **{**limits, **shorter})


def cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut short what Agents do."""
    for name in ("train", "learn", "record", "evaluate"):
        monkeypatch.setattr(Agent, name, functools.partialmethod(capped, getattr(Agent, name)))
