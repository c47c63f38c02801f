"""Tokens: their text, and their rows, which a server reads all at once and checks in memory."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import secrets
import string
import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, delete, not_, or_, select, update
from sqlalchemy.orm import Session

from ...core import checks
from ...core.errors import ArgumentError
from ..refusals import RefusedError
from . import names
from .audit import SERVICE, By, Records
from .grants import ADMIN, LOGIN, MADE, ORDINARY, SCOPES, WEB, Grant, Lifetimes, scopes_of
from .tables import Token, User, iso_times

_PREFIXES: Final = {LOGIN: "axl_", MADE: "axp_", WEB: "axw_"}
_ALPHABET: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM: Final = 40
_CHECKSUM: Final = 6
_FORM: Final = re.compile(rf"ax[lpw]_[0-9A-Za-z]{{{_RANDOM + _CHECKSUM}}}")
MAX_DAYS: Final = 365
_MOST: Final = {
    MADE: (100, "tokens. Revoke one that is not in use"),
    LOGIN: (
        1000,
        "logins. One ends by RemoteAgent.close() or POST /logout, or when it is idle; all end with another password."
        " For programs that start often, make one token: axonrl service create-token",
    ),
    WEB: (1000, "logins on the web page. One ends by logging out there, or when it is idle"),
}
"""Maximum number of a user's valid tokens by kind, and what to do about it."""
_MOST_ENDED: Final = 500
"""Maximum number of a user's ended tokens of a kind that are kept. Revoked ones are deleted first: clients with expired
ones log in again, as long as these are called expired."""
_MOST_AGENTS: Final = 1000
"""Maximum agents of one token: databases limit the names in one query."""
_MOST_EXPIRED: Final = 10_000
"""Maximum number of expired tokens that a server knows, so that many short-lived ones do not slow it down."""
_AT_A_TIME: Final = 500
"""Maximum rows of one query."""


class Tokens(Records):
    """The tokens of all users: a part of :class:`~axonrl.serving.accounts.Accounts`."""

    lifetimes: Lifetimes
    _quotas: Mapping[str, int]

    def create_token(
        self,
        user: str,
        name: str,
        scopes: Iterable[str] | None = None,
        agents: Iterable[str] | None = None,
        expires_in: float | None = None,
        *,
        by: By = SERVICE,
        by_administrator: bool = False,
    ) -> tuple[str, Token]:
        """Create a token.

        Args:
            user: the user's name.
            name: its purpose, for people.
            scopes: some of :data:`SCOPES`; None for all of every account.
            agents: names of at most 1,000 agents that it is for, which need not exist yet; None for all.
            expires_in: seconds, at most 365 days.
            by: the caller.
            by_administrator: whether ``metrics`` may be granted.

        Returns:
            The token, which is not stored, and its row.

        Raises:
            ArgumentError: an argument is invalid.
            RefusedError: ``not_found``, ``quota_exceeded``.
        """
        known = names.label("name", name)
        named = None if agents is None else sorted({names.name("agents", one) for one in agents})
        if named is not None and not 1 <= len(named) <= _MOST_AGENTS:
            wanted = f"must name 1 to {_MOST_AGENTS:,} agents, or be left out for all"
            raise ArgumentError(f"agents {wanted}; got {len(named)}", "agents", agents)
        lifetime = dt.timedelta(days=self.lifetimes.default_days)
        if expires_in is not None:
            most = MAX_DAYS * 86_400
            lifetime = dt.timedelta(seconds=checks.number("expires_in", expires_in, at_least=1, at_most=most))
        with self._audit.recorded("token.create", by, user, name=known, agents=named) as session:
            owner = find_user(session, user, lock=True)
            allowed = SCOPES if owner.role == ADMIN else (*ORDINARY, *(["metrics"] if by_administrator else []))
            text, row = self._issue(session, owner, MADE, known, scopes_of(scopes, allowed), lifetime, named)
        found = self._database.all(select(Token).where(Token.id == row.id))  # with its user
        return text, found[0]

    def tokens(self, user: str | None = None) -> Sequence[Token]:
        """The tokens of a user or of all, newest first, including revoked and expired ones, without the web page's."""
        query = select(Token).where(Token.kind != WEB).order_by(Token.created_at.desc(), Token.id)
        if user is not None:
            with self._database.reading() as session:
                query = query.where(Token.user_id == find_user(session, user).id)
        return self._database.all(query)

    def revoke_token(self, token_id: str, *, user: str | None = None, by: By = SERVICE) -> None:
        """Revoke a token or a login of the web page; idempotent.

        Args:
            token_id: its id, as in a grant.
            user: require that it is this user's.
            by: the caller.

        Raises:
            RefusedError: ``not_found``.
        """
        shown = token_id if token_id.isalnum() else ""
        with self._audit.recorded("token.revoke", by, shown) as session:
            row = session.get(Token, shown) if shown else None
            if row is None or (user is not None and row.user.name != user):
                # Do not repeat the argument: it may be a token instead of an id.
                raise RefusedError("not_found", "There is no token with this id: see the list of tokens for theirs")
            row.revoked_at = row.revoked_at or self._clock()

    def active_tokens(self) -> dict[str, Grant]:
        """All valid tokens, and logins of the web page, by SHA-256; a server reads them every 4 seconds."""
        query = select(Token).join(User, Token.user_id == User.id)
        valid = self._database.all(query.where(*_good(self._clock()), User.disabled_at.is_(None)))
        return {token.sha256: self._grant(token) for token in valid}

    def expired_tokens(self) -> dict[str, str]:
        """The newest 10,000 expired tokens that were not revoked: SHA-256 to kind, while the rows exist."""
        time = self._clock()
        over = (Token.revoked_at.is_(None), or_(Token.expires_at <= time, Token.idle_until <= time))
        known = select(Token.sha256, Token.kind).join(User, Token.user_id == User.id).where(*over)
        known = known.where(User.disabled_at.is_(None)).order_by(Token.expires_at.desc())
        with self._database.reading() as session:
            return {row[0]: row[1] for row in session.execute(known.limit(_MOST_EXPIRED))}

    def used(self, times: Mapping[str, dt.datetime]) -> None:
        """Store the times of tokens' last use, by SHA-256, which extends logins. A server does so every 4 seconds."""
        digests = list(times)
        for start in range(0, len(digests), _AT_A_TIME):
            some = digests[start : start + _AT_A_TIME]
            known = self._database.all(select(Token).where(Token.sha256.in_(some)))
            changes = {row.id: values for row in known if (values := self._token_used(row, times[row.sha256]))}
            if changes:
                with self._database.writing() as session:
                    for token_id, values in changes.items():
                        session.execute(update(Token).where(Token.id == token_id).values(**values))

    def tidy(self) -> None:
        """Delete logins that ended 30 days ago. A server does so once a day."""
        before = self._clock() - dt.timedelta(days=30)
        ended = or_(Token.revoked_at < before, Token.expires_at < before, Token.idle_until < before)
        self._database.write(delete(Token).where(Token.kind != MADE, ended))

    def _idle(self, kind: str) -> dt.timedelta:
        """Time without use after which a login of this kind ends."""
        if kind == WEB:
            return dt.timedelta(minutes=self.lifetimes.web_idle_minutes)
        return dt.timedelta(hours=self.lifetimes.login_idle_hours)

    def _issue(
        self,
        session: Session,
        owner: User,
        kind: str,
        name: str,
        scopes: Sequence[str],
        lifetime: dt.timedelta,
        agents: list[str] | None = None,
    ) -> tuple[str, Token]:
        """Add a token, and delete old ones that have ended.

        One beyond the limit is refused: it must not replace another, which may be in use.
        """
        time = self._clock()
        most, advice = _MOST[kind]
        alike, valid = (Token.user_id == owner.id, Token.kind == kind), and_(*_good(time))
        if len(session.scalars(select(Token.id).where(*alike, valid)).all()) >= most:
            raise RefusedError("quota_exceeded", f"{owner.name} has {most:,} {advice}")
        ended = select(Token.id).where(*alike, not_(valid))
        ended = ended.order_by(Token.revoked_at.is_not(None), Token.created_at.desc()).offset(_MOST_ENDED)
        session.execute(delete(Token).where(Token.id.in_(ended)))
        text = make(kind)
        row = Token(id=new_id(), user_id=owner.id, kind=kind, name=name, sha256=digest(text), last_four=text[-4:])
        row.scopes, row.agents, row.created_at, row.expires_at = list(scopes), agents, time, time + lifetime
        row.idle_until = None if kind == MADE else time + self._idle(kind)
        session.add(row)
        return text, row

    def _grant(self, row: Token) -> Grant:
        user, quotas = row.user, {**self._quotas, **row.user.quotas}
        agents = None if row.agents is None else frozenset(row.agents)
        about = user.id, user.name, user.role, frozenset(row.scopes), agents
        return Grant(row.id, row.kind, *about, row.expires_at, row.idle_until, quotas)

    def _token_used(self, row: Token, time: dt.datetime) -> dict[str, Any]:
        """Columns to change; a login is not extended by less than a twentieth of its time, which avoids most writes."""
        day, idle = time.astimezone(dt.timezone.utc).date(), self._idle(row.kind)
        values: dict[str, Any] = {} if row.last_used is not None and row.last_used >= day else {"last_used": day}
        if row.idle_until is not None and time + idle - row.idle_until > idle / 20:
            values["idle_until"] = time + idle
        return values


def _good(time: dt.datetime) -> tuple[ColumnElement[bool], ...]:
    """Conditions of tokens that are valid at a time, if their users are."""
    used = or_(Token.idle_until.is_(None), Token.idle_until > time)
    return Token.revoked_at.is_(None), Token.expires_at > time, used


def find_user(session: Session, name: str, *, lock: bool = False) -> User:
    """A user by name; ``lock`` prevents changes by others until the transaction ends.

    Raises:
        RefusedError: ``not_found``.
    """
    query = select(User).where(User.name == name)
    user = session.scalars(query.with_for_update() if lock else query).one_or_none() if names.is_name(name) else None
    if user is None:
        raise RefusedError("not_found", f"There is no user {checks.shortened(name)}")
    return user


def revoke_all(session: Session, user: User, time: dt.datetime, *, made: bool, keep: str | None = None) -> None:
    """Revoke a user's logins, and with ``made`` the other tokens, except the one with the id ``keep``."""
    query = update(Token).where(Token.user_id == user.id, Token.revoked_at.is_(None), Token.id != (keep or ""))
    query = query if made else query.where(Token.kind != MADE)
    session.execute(query.values(revoked_at=time))


def new_id() -> str:
    """A random id for a row, which reveals nothing about others."""
    return uuid.uuid4().hex


def to_json(token: Token) -> dict[str, Any]:
    """A token's row as a JSON value, without the token or its hash."""
    return {
        "id": token.id,
        "user": token.user.name,
        "name": token.name,
        "scopes": token.scopes,
        "agents": token.agents,
        "last_four": token.last_four,
        **iso_times(token, "created_at", "expires_at", "last_used", "revoked_at"),
    }


def make(kind: str) -> str:
    """A new token: a prefix, 40 random characters (238 bits), and 6 of checksum, for scanners of secrets."""
    text = _PREFIXES[kind] + "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM))
    return text + checksum(text)


def checksum(text: str) -> str:
    """The CRC-32 of a token's beginning, in base 62."""
    number, digits = zlib.crc32(text.encode()), ""
    for _ in range(_CHECKSUM):
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits


def is_token(text: str) -> bool:
    """Whether this can be a token. A text with another form or a wrong checksum never was one."""
    return _FORM.fullmatch(text) is not None and checksum(text[:-_CHECKSUM]) == text[-_CHECKSUM:]


def digest(text: str) -> str:
    """SHA-256 of a token in hexadecimal, for storage. A token has so many bits that a slow hash would add nothing."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
