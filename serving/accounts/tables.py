"""The tables. They hold nothing large, and nothing written at every act or step."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeAlias

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

Clock: TypeAlias = Callable[[], dt.datetime]


def now() -> dt.datetime:
    """The current time in UTC."""
    return dt.datetime.now(dt.timezone.utc)


def iso_times(row: Base, *names: str) -> dict[str, str | None]:
    """Times or days of a row by ISO 8601, for JSON."""
    found = {name: getattr(row, name) for name in names}
    return {name: None if time is None else time.isoformat() for name, time in found.items()}


class UtcTime(TypeDecorator[dt.datetime]):
    """A time with the zone UTC, even if the database stores no zones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:
        """Convert for the database."""
        return None if value is None else value.astimezone(dt.timezone.utc)

    def process_result_value(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:
        """Convert from the database."""
        if value is None:
            return None
        return value.replace(tzinfo=dt.timezone.utc) if value.tzinfo is None else value.astimezone(dt.timezone.utc)


class Base(DeclarativeBase):
    """Base of the tables."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_name)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        dt.datetime: UtcTime,
        dict[str, Any]: JSON(none_as_null=True),
        list[str]: JSON(none_as_null=True),
        str: Text,
    }


_USER: Final = "users.id"


class User(Base):
    """An account. Its quotas are only the ones that differ from the service's."""

    __tablename__ = "users"
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    role: Mapped[str]  # "user" or "admin"
    password_hash: Mapped[str]
    quotas: Mapped[dict[str, Any]]
    created_at: Mapped[dt.datetime]
    disabled_at: Mapped[dt.datetime | None]

    @property
    def disabled(self) -> bool:
        """Whether the user may not log in."""
        return self.disabled_at is not None


class Token(Base):
    """The SHA-256 of a bearer token, from a login or made by the user, or of the cookie of a login on the web page."""

    __tablename__ = "tokens"
    id: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey(_USER, ondelete="CASCADE"), index=True)
    kind: Mapped[str]  # "login", "made" or "web"
    name: Mapped[str]
    sha256: Mapped[str] = mapped_column(unique=True)
    last_four: Mapped[str]
    scopes: Mapped[list[str]]
    agents: Mapped[list[str] | None]  # names; None is all
    created_at: Mapped[dt.datetime]
    expires_at: Mapped[dt.datetime]
    idle_until: Mapped[dt.datetime | None]  # of a login: extended by use
    last_used: Mapped[dt.date | None]
    revoked_at: Mapped[dt.datetime | None]
    user: Mapped[User] = relationship(lazy="joined", innerjoin=True, viewonly=True)


class Agent(Base):
    """An agent. The service uses its id; names are for its owner.

    An agent marked for removal gets a name that no user could give, so that its own is free at once.
    """

    __tablename__ = "agents"
    __table_args__ = (UniqueConstraint("owner", "name"), Index(None, "status"))
    id: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str | None] = mapped_column(ForeignKey(_USER, ondelete="SET NULL"))
    name: Mapped[str]
    model: Mapped[str]
    description: Mapped[str]
    config: Mapped[dict[str, Any]]
    is_active: Mapped[bool]
    learning: Mapped[bool]
    status: Mapped[str]  # "creating", "ready", "failed" or "removing"
    status_detail: Mapped[str]
    home: Mapped[str | None]  # holder of the lease, with its epoch and its end
    epoch: Mapped[int]
    lease_until: Mapped[dt.datetime | None]
    created_at: Mapped[dt.datetime]
    last_active: Mapped[dt.datetime | None]
    bytes: Mapped[int] = mapped_column(BigInteger)


class IdempotencyKey(Base):
    """The stored answer for a repeated request. Without a status: not answered yet."""

    __tablename__ = "idempotency"
    user_id: Mapped[str] = mapped_column(ForeignKey(_USER, ondelete="CASCADE"), primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str]
    status: Mapped[int | None]
    body: Mapped[bytes]
    created_at: Mapped[dt.datetime] = mapped_column(index=True)


class AuditEntry(Base):
    """An action, or a refusal."""

    __tablename__ = "audit"
    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer(), "sqlite"), primary_key=True)
    time: Mapped[dt.datetime] = mapped_column(index=True)
    who: Mapped[str]
    address: Mapped[str]
    what: Mapped[str]
    target: Mapped[str]
    outcome: Mapped[str]  # "ok", or the code of a refusal
    request_id: Mapped[str]
    detail: Mapped[dict[str, Any]]


class Installation(Base):
    """The single row that names this database's data folder."""

    __tablename__ = "installation"
    id: Mapped[str] = mapped_column(primary_key=True)
    created_at: Mapped[dt.datetime]
    folder: Mapped[str]
    host: Mapped[str]
