"""Permissions and validity of tokens."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Final

from ...core import checks
from ...core.errors import ArgumentError

ADMIN: Final = "admin"
SCOPES: Final = ("read", "act", "learn", "manage", "metrics", ADMIN)
ORDINARY: Final = ("read", "act", "learn", "manage")
"""Scopes of every account. ``metrics`` concerns the whole service: an administrator grants it."""
LOGIN, MADE, WEB = "login", "made", "web"


@dataclasses.dataclass(frozen=True)
class Lifetimes:
    """Validity of tokens: section ``tokens`` of the configuration."""

    login_idle_hours: float = 12.0
    login_days: float = 30.0
    default_days: float = 90.0
    web_idle_minutes: float = 30.0
    web_hours: float = 12.0

    @property
    def login_seconds(self) -> int:
        """``expires_in`` of a login's answer."""
        return round(self.login_days * 86_400)


@dataclasses.dataclass(frozen=True)
class Grant:
    """Permissions of a token, with everything needed to check it without the database.

    ``agents`` are names; None is all. It ends at ``expires_at``, or unused at ``idle_until``, whichever comes first.
    """

    token_id: str
    kind: str
    user_id: str
    user: str
    role: str
    scopes: frozenset[str]
    agents: frozenset[str] | None
    expires_at: dt.datetime
    idle_until: dt.datetime | None
    quotas: Mapping[str, int]


def scopes_of(given: Iterable[str] | None, allowed: Iterable[str]) -> list[str]:
    """Scopes of a new token, in the order of :data:`SCOPES`; None for all of every account.

    Raises:
        ArgumentError: there are none, or one is not allowed.
    """
    allowed = list(allowed)
    if given is None:
        return list(ORDINARY)
    wanted = {checks.choice("scopes", one, allowed) for one in given}
    if not wanted:
        raise ArgumentError("scopes must have at least one", "scopes", given)
    return [scope for scope in SCOPES if scope in wanted]
