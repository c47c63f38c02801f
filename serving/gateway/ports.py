"""What the gateway needs of the other rooms, which are handed in.

Methods of `Accounts`, `AgentRows` and `Audit` block and are called in threads. What they refuse is an ``ArgumentError``,
or an exception with one of the codes of :mod:`.problems` as its attribute ``code`` (and ``retry_after`` in seconds).
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

Quotas = Mapping[str, Any]
"""A user's own limits, by the names of the section `limits` of the configuration."""


@dataclasses.dataclass(frozen=True)
class By:
    """Who does something, from where, and in which request: for the audit log."""

    who: str = "service"
    address: str = ""
    request_id: str = ""


class Grant(Protocol):
    """What a token allows: all that is needed to check it without the database."""

    @property
    def token_id(self) -> str:
        """The token's id."""

    @property
    def user_id(self) -> str:
        """Whose it is, as agents' rows name their owner."""

    @property
    def user(self) -> str:
        """Whose it is: the name."""

    @property
    def role(self) -> str:
        """``user`` or ``admin``."""

    @property
    def scopes(self) -> frozenset[str]:
        """Some of read, act, learn, manage, metrics, admin."""

    @property
    def agents(self) -> frozenset[str] | None:
        """The names of the agents it is for; None: all of the user's."""

    @property
    def expires_at(self) -> datetime.datetime | None:
        """When it ends, in UTC; None: never."""

    @property
    def quotas(self) -> Quotas:
        """The user's own limits."""


class User(Protocol):
    """A user's row."""

    @property
    def id(self) -> str:
        """As agents' rows name their owner."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def role(self) -> str:
        """``user`` or ``admin``."""

    @property
    def disabled_at(self) -> datetime.datetime | None:
        """Since when it may not log in, in UTC."""

    @property
    def created_at(self) -> datetime.datetime:
        """UTC."""


class Token(Protocol):
    """A token's row; the token itself is kept nowhere."""

    @property
    def id(self) -> str:
        """The id, which is no secret."""

    @property
    def name(self) -> str:
        """What the user calls it."""

    @property
    def scopes(self) -> Iterable[str]:
        """What it allows."""

    @property
    def agents(self) -> Iterable[str] | None:
        """The agents it is for; None: all."""

    @property
    def last_four(self) -> str:
        """Its last characters."""

    @property
    def created_at(self) -> datetime.datetime:
        """UTC."""

    @property
    def expires_at(self) -> datetime.datetime | None:
        """UTC."""

    @property
    def last_used(self) -> datetime.date | None:
        """The day."""

    @property
    def revoked_at(self) -> datetime.datetime | None:
        """UTC."""


class Accounts(Protocol):
    """Users and their tokens."""

    def login(self, name: str, password: str, address: str) -> str:
        """A new login token."""

    def active_tokens(self) -> Mapping[str, Grant]:
        """Everything needed to check tokens, by their SHA-256 in hexadecimal."""

    def mark_used(self, tokens: Iterable[str]) -> None:
        """Note that the tokens with these ids were used just now."""

    def create_token(
        self, user: str, name: str, scopes: Sequence[str], agents: Sequence[str] | None, expires_in: float | None
    ) -> tuple[str, Token]:
        """A new token of a user, ``expires_in`` in seconds."""

    def tokens(self, user: str) -> Sequence[Token]:
        """A user's tokens."""

    def revoke_token(self, id: str) -> None:
        """End a token."""

    def change_password(self, user: str, current: str, new: str, *, keep: str | None = None) -> None:
        """Change the password and revoke the login tokens but the one with the id ``keep``."""

    def add_user(self, name: str, password: str, *, role: str = "user") -> User:
        """A new user."""

    def set_password(self, name: str, password: str) -> None:
        """Change the password, by an administrator."""

    def disable_user(self, name: str) -> None:
        """Refuse the user."""

    def enable_user(self, name: str) -> None:
        """Take the user back."""

    def remove_user(self, name: str) -> None:
        """Remove a user, whose agents are gone already."""

    def users(self) -> Sequence[User]:
        """All users, by name."""

    def user(self, name: str) -> User | None:
        """The user of this name."""

    def set_quota(self, name: str, key: str, value: Any) -> None:
        """Set one of a user's own limits."""

    def quotas(self, name: str) -> Quotas:
        """A user's own limits."""


class AgentRow(Protocol):
    """An agent's row."""

    @property
    def id(self) -> str:
        """Its id, which never changes."""

    @property
    def owner(self) -> str | None:
        """The owner's user id; None where the user is gone."""

    @property
    def name(self) -> str:
        """Its name, unique for the owner."""

    @property
    def model(self) -> str:
        """Lower case."""

    @property
    def description(self) -> str:
        """The owner's words."""

    @property
    def config(self) -> Mapping[str, Any]:
        """Sizes, bounds, every hyperparameter with its value."""

    @property
    def status(self) -> str:
        """``creating``, ``ready``, ``failed``, ``removing``."""

    @property
    def status_detail(self) -> str:
        """Why it failed."""

    @property
    def created_at(self) -> datetime.datetime:
        """UTC."""


class AgentRows(Protocol):
    """The agents' table."""

    def add(self, owner: str, name: str, model: str, description: str, config: Mapping[str, Any]) -> AgentRow:
        """A new row with the status ``creating``; ``name_taken``."""

    def by_name(self, owner: str, name: str) -> AgentRow | None:
        """The owner's agent of this name."""

    def of(self, owner: str, limit: int, after: str | None) -> Sequence[AgentRow]:
        """The owner's agents by name, from the first name that follows ``after``."""

    def set_status(self, id: str, status: str) -> None:
        """Set the status."""

    def describe(self, id: str, description: str) -> None:
        """Set the description."""

    def remove(self, id: str) -> None:
        """Remove the row."""

    def all_unfinished(self) -> Sequence[AgentRow]:
        """Those whose creation or removal was interrupted."""

    def count(self, owner: str) -> int:
        """How many an owner has."""


class Remembered(Protocol):
    """The first answer to a request that carried a key."""

    @property
    def digest(self) -> bytes:
        """Of the request."""

    @property
    def status(self) -> int:
        """Of the answer."""

    @property
    def body(self) -> bytes:
        """Of the answer."""


class Idempotency(Protocol):
    """Answers that are remembered for 24 hours, by account and key."""

    def recall(self, user: str, key: str) -> Remembered | None:
        """What is remembered, of the user with this id."""

    def remember(self, user: str, key: str, digest: bytes, status: int, body: bytes) -> None:
        """Remember an answer."""


class AuditEntry(Protocol):
    """An entry of the audit log."""

    @property
    def id(self) -> int:
        """Grows."""

    @property
    def time(self) -> datetime.datetime:
        """UTC."""

    @property
    def who(self) -> str:
        """The user's name."""

    @property
    def address(self) -> str:
        """Where the request came from."""

    @property
    def what(self) -> str:
        """What was done."""

    @property
    def target(self) -> str:
        """To which user, agent or token."""

    @property
    def outcome(self) -> str:
        """``ok``, or the code of a refusal."""

    @property
    def request_id(self) -> str:
        """Of the request."""

    @property
    def detail(self) -> Mapping[str, Any]:
        """More."""


class Audit(Protocol):
    """The audit log."""

    def write(self, what: str, by: By, target: str = "", outcome: str = "ok", **detail: Any) -> None:
        """Append an entry."""

    def entries(self, limit: int = 100, before: int | None = None) -> Sequence[AuditEntry]:
        """Entries, newest first; of those before an id."""


class Answer(Protocol):
    """What a worker answered."""

    @property
    def status(self) -> int:
        """An HTTP status."""

    @property
    def body(self) -> bytes:
        """JSON, or the bytes of a state."""

    @property
    def replayed(self) -> bool:
        """The request was done before, and this is its first answer."""

    @property
    def retry_after(self) -> int | None:
        """Seconds after which to repeat it."""


class Pool(Protocol):
    """The workers."""

    async def ask(self, agent: str, do: str, body: bytes = b"", **head: Any) -> Answer:
        """Have an agent do something; never raises for a worker's trouble."""


class Recipe(Protocol):
    """What an agent is made from."""

    @property
    def model(self) -> str:
        """Lower case."""

    @property
    def config(self) -> Mapping[str, Any]:
        """Complete."""

    def to_json(self) -> Any:
        """Exact."""


class Catalogue(Protocol):
    """The models that are hosted."""

    def recipe(self, model: str, config: Mapping[str, Any]) -> Recipe:
        """The recipe; ``ArgumentError`` for what is wrong."""

    def described(self) -> Sequence[Mapping[str, Any]]:
        """The models with their hyperparameters."""
