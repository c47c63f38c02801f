"""What a token allows, and how long it is good for."""

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
"""Those that every account has. The metrics are the whole service's: an administrator gives them away."""
LOGIN, MADE, WEB = "login", "made", "web"


@dataclasses.dataclass(frozen=True)
class Lifetimes:
    """How long tokens are good for: section ``tokens`` of the configuration."""

    login_idle_hours: float = 12
    login_days: float = 30
    default_days: float = 90
    web_idle_minutes: float = 30
    web_hours: float = 12

    @property
    def login_seconds(self) -> int:
        """``expires_in`` of a login's answer."""
        return round(self.login_days * 86_400)


@dataclasses.dataclass(frozen=True)
class Grant:
    """What a token allows: all that is needed to check it without the database.

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
    """The scopes of a new token, in the order of :data:`SCOPES`; None for all that every account has.

    Raises:
        ArgumentError: there are none, or one that is not allowed.
    """
    allowed = list(allowed)
    if given is None:
        return list(ORDINARY)
    wanted = {checks.choice("scopes", one, allowed) for one in given}
    if not wanted:
        raise ArgumentError("scopes must have at least one", "scopes", given)
    return [scope for scope in SCOPES if scope in wanted]
