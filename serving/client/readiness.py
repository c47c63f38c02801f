"""Wait until an agent can be used."""

from __future__ import annotations

import time
from typing import Any

from .errors import NotFound, RateLimited, ServiceUnavailable
from .remote_agent import RemoteAgent
from .retries import run

_EVERY = 0.5  # seconds


def wait_until_agent_exists(agent: RemoteAgent, max_seconds: float = 20, verbose: bool = True) -> bool:
    """Wait until the agent exists. A service that cannot be reached counts as "not yet".

    Args:
        agent: its ``exists`` is polled every 0.5 seconds.
        max_seconds: maximum time to wait.
        verbose: print a line at each poll after the first.

    Returns:
        Whether it exists.

    Raises:
        AuthenticationError: the token was refused.
    """
    return _wait(agent, "exists", max_seconds, verbose, "The agent does not exist yet")


def wait_until_agent_is_active(agent: RemoteAgent, max_seconds: float = 20, verbose: bool = True) -> bool:
    """Wait until the agent exists and is active; see :func:`wait_until_agent_exists`."""
    return _wait(agent, "is_active", max_seconds, verbose, "The agent is not active yet")


def _wait(agent: Any, name: str, max_seconds: float, verbose: bool, message: str) -> bool:
    """Poll until true; each question gets the remaining time, and at least half a second."""
    began = time.monotonic()
    while True:
        left = max_seconds - (time.monotonic() - began)
        try:
            ask = getattr(agent, f"_{name}", None)  # a user's own object has none
            if getattr(agent, name) if ask is None else run(ask(max(left, _EVERY))):
                return True
        except (NotFound, ServiceUnavailable, RateLimited):
            pass
        passed = time.monotonic() - began
        if passed >= max_seconds:
            return False
        if verbose:
            print(f"{message}, after {passed:.1f} of {max_seconds:g} seconds.")
        time.sleep(min(_EVERY, max_seconds - passed))
