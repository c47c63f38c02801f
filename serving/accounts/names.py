"""Checks of names and quotas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ...core import checks
from ...core.errors import ArgumentError

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MAX_DESCRIPTION: Final = 2000
"""Characters of an agent's description, unless a service says otherwise."""
_MAX_LABEL: Final = 100
_MAX_QUOTA: Final = 1 << 53
"""Largest quota: beyond it, JSON numbers are not exact everywhere."""

QUOTAS: Final[Mapping[str, int]] = {
    "agents": 100,
    "bytes": 2 << 30,
    "requests_per_minute": 60_000,
    "steps_per_second": 1000,
    "changes_per_minute": 300,
    "creations_per_minute": 10,
    "transfers_per_minute": 6,
}
"""Default quotas of an account: agents and bytes in total, steps and state transfers per agent, requests, changes and
creations of the account. 0 is no limit."""


def is_name(text: object) -> bool:
    """Whether this is a valid name of a user or an agent. Nothing else ever reaches the database or a path."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def name(argument: str, value: object) -> str:
    """Check the name of a user or an agent.

    Raises:
        ArgumentError: the name is invalid.
    """
    if not isinstance(value, str) or not is_name(value):
        wanted = "1 to 64 letters, digits, '.', '_' or '-', of which the first is a letter or a digit"
        raise ArgumentError(f"{argument} must be {wanted}; got {checks.shortened(value)}", argument, value)
    return value


def text(argument: str, value: object, longest: int = 0) -> str:
    """Check text that every database can store: no null character, no lone surrogate; ``longest``: 0 is no limit.

    Raises:
        ArgumentError: it is something else, or longer.
    """
    if not isinstance(value, str) or (longest and len(value) > longest):
        wanted = f"text of at most {longest:,} characters" if longest else "text"
        raise ArgumentError(f"{argument} must be {wanted}; got {checks.shortened(value)}", argument, value)
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise ArgumentError(f"{argument} has a character that cannot be stored: null or a surrogate", argument, value)
    return value


def label(argument: str, value: object) -> str:
    """Check the name of a token: one line of text, not empty."""
    known = text(argument, value, _MAX_LABEL)
    if not known.strip() or not known.isprintable():
        raise ArgumentError(f"{argument} must be a line of text; got {checks.shortened(value)}", argument, value)
    return known


def quota(key: object, value: Any) -> int:
    """Check a quota of an account.

    Raises:
        ArgumentError: the quota is unknown, or its value is not an integer of at least 0.
    """
    known = checks.choice("quota", key, QUOTAS)
    number = checks.integer(known, value, at_least=0)
    if number > _MAX_QUOTA:
        raise ArgumentError(f"{known} must be at most {_MAX_QUOTA}; 0 is no limit; got {value!r}", known, value)
    return number
