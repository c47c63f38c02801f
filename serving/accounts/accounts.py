"""Users with passwords, logins and quotas."""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import delete, exc, select, update
from sqlalchemy.orm import Session

from ...core.errors import ArgumentError
from ..limits import LoginLimits
from ..refusals import RefusedError
from . import names
from .audit import SERVICE, Audit, By
from .database import Database
from .grants import ADMIN, LOGIN, ORDINARY, SCOPES, WEB, Lifetimes
from .passwords import Passwords, accept
from .tables import Agent, Clock, User, iso_times, now
from .tokens import Tokens, find_user, new_id, revoke_all

USER: Final = "user"
REMOVING: Final = "removing"
"""Status of an agent that is marked for removal."""


class Accounts(Tokens):
    """The users of a service and their tokens. Thread-safe.

    Args:
        database: an open database.
        audit: records logins and changes; None for the table alone.
        lifetimes: validity of tokens.
        quotas: the service's, for accounts without their own; missing ones have defaults.
        limits: limits of login attempts.
        clock: returns the time in UTC.
    """

    def __init__(
        self,
        database: Database,
        *,
        audit: Audit | None = None,
        lifetimes: Lifetimes | None = None,
        quotas: Mapping[str, int] | None = None,
        limits: LoginLimits | None = None,
        clock: Clock = now,
    ) -> None:
        super().__init__(database, audit=audit, clock=clock)
        self.lifetimes = lifetimes or Lifetimes()
        self._quotas = {**names.QUOTAS, **(quotas or {})}
        self._limits, self._passwords = limits or LoginLimits(), Passwords()
        self._limited = _Counter()

    # -- users --------------------------------------------------------------------------------------------------------

    def add_user(self, name: str, password: str, *, admin: bool = False, by: By = SERVICE) -> User:
        """Create an account.

        Raises:
            ArgumentError: the name or the password is not acceptable.
            RefusedError: ``name_taken``.
        """
        if name == "me":
            raise ArgumentError("name must not be 'me': GET /users/me is about the caller", "name", name)
        known = self._passwords.hash(accept(names.name("name", name), password))
        role = ADMIN if admin else USER
        user = User(id=new_id(), name=name, role=role, password_hash=known, quotas={}, created_at=self._clock())
        with self._audit.recorded("user.add", by, name, role=role) as session:
            session.add(user)
            try:
                session.flush()
            except exc.IntegrityError:
                raise RefusedError("name_taken", f"User {name} already exists") from None
        return user

    def set_password(self, name: str, password: str, *, by: By = SERVICE) -> None:
        """Set a user's password, as an administrator; ends all logins.

        Raises:
            ArgumentError: the password is not acceptable.
            RefusedError: ``not_found``.
        """
        known = self._passwords.hash(accept(names.name("name", name), password))
        with self._audit.recorded("user.set_password", by, name) as session:
            user = find_user(session, name, lock=True)
            user.password_hash = known
            revoke_all(session, user, self._clock(), made=False)

    def disable_user(self, name: str, *, by: By = SERVICE) -> None:
        """Refuse all logins of a user, and revoke all tokens. Agents are unchanged."""
        with self._audit.recorded("user.disable", by, name) as session:
            user = find_user(session, name, lock=True)
            user.disabled_at = user.disabled_at or self._clock()
            revoke_all(session, user, self._clock(), made=True)

    def enable_user(self, name: str, *, by: By = SERVICE) -> None:
        """Allow logins again. Revoked tokens stay revoked."""
        with self._audit.recorded("user.enable", by, name) as session:
            find_user(session, name, lock=True).disabled_at = None

    def remove_user(self, name: str, *, by: By = SERVICE) -> list[str]:
        """Remove an account with its tokens, and mark its agents for removal by their host.

        Returns:
            The ids of these agents.
        """
        ids: list[str] = []
        with self._audit.recorded("user.remove", by, name, agents=ids) as session:
            user = find_user(session, name, lock=True)
            ids += session.scalars(select(Agent.id).where(Agent.owner == user.id))
            for agent_id in ids:
                session.execute(update(Agent).where(Agent.id == agent_id).values(**removal_columns(agent_id)))
            session.execute(delete(User).where(User.id == user.id))
        return ids

    def users(self) -> Sequence[User]:
        """All users, by name."""
        return self._database.all(select(User).order_by(User.name))

    def user(self, name: str) -> User:
        """A user by name.

        Raises:
            RefusedError: ``not_found``.
        """
        with self._database.reading() as session:
            return find_user(session, name)

    def set_quota(self, name: str, quotas: Mapping[str, int | None], *, by: By = SERVICE) -> dict[str, int]:
        """Set a user's own quotas; None resets one to the service's, 0 is no limit.

        Returns:
            All quotas of the user.

        Raises:
            ArgumentError: a quota is unknown, or its value is invalid.
            RefusedError: ``not_found``.
        """
        known = {key: names.quota(key, 0 if value is None else value) for key, value in quotas.items()}
        given = {key: None if value is None else known[key] for key, value in quotas.items()}
        with self._audit.recorded("user.set_quota", by, name, quotas=given) as session:
            user = find_user(session, name, lock=True)
            changed = {**user.quotas, **given}
            user.quotas = {key: value for key, value in changed.items() if value is not None}
        return {**self._quotas, **user.quotas}

    def quotas(self, name: str) -> dict[str, int]:
        """All quotas of a user."""
        return {**self._quotas, **self.user(name).quotas}

    # -- logins -------------------------------------------------------------------------------------------------------

    def login(self, name: str, password: str, address: str, *, request_id: str = "") -> str:
        """Log in.

        Returns:
            A token.

        Raises:
            RefusedError: ``invalid_credentials``, the same for an unknown name, a disabled user and a wrong password;
                ``rate_limited``, ``unavailable``.
        """
        by = By(name, address, request_id)
        known = self._verify("login", by, name, password)
        with self._audit.recorded("login", by, name) as session:
            owner = self._unchanged_user(session, name, known)
            scopes = SCOPES if owner.role == ADMIN else ORDINARY
            return self._issue(session, owner, LOGIN, LOGIN, scopes, dt.timedelta(days=self.lifetimes.login_days))[0]

    def web_login(self, name: str, password: str, address: str, *, request_id: str = "") -> str:
        """Log in on the web page; returns a new cookie's value. Raises like :meth:`login`."""
        by = By(name, address, request_id)
        known = self._verify("web_login", by, name, password)
        with self._audit.recorded("web_login", by, name) as session:
            owner = self._unchanged_user(session, name, known)
            return self._issue(session, owner, WEB, WEB, ["read"], dt.timedelta(hours=self.lifetimes.web_hours))[0]

    def change_password(
        self, user: str, current: str, new: str, *, keep: str | None = None, by: By | None = None
    ) -> None:
        """Change one's own password; ends all other logins.

        Args:
            user: the user's name.
            current: the current password.
            new: the new password.
            keep: id of the token in use, which stays valid.
            by: the caller.

        Raises:
            ArgumentError: the new password is not acceptable.
            RefusedError: ``invalid_credentials`` and all others of :meth:`login`.
        """
        accept(names.name("user", user), new)
        by = by or By(user)
        known = self._verify("user.change_password", by, user, current, holder=True)
        changed = self._passwords.hash(new)
        with self._audit.recorded("user.change_password", by, user) as session:
            row = self._unchanged_user(session, user, known)
            row.password_hash = changed
            revoke_all(session, row, self._clock(), made=False, keep=keep)

    def _verify(self, what: str, by: By, name: str, password: str, *, holder: bool = False) -> str:
        """The hash that this password matched, renewed if its parameters are outdated.

        ``holder``: the caller has a token of the account.
        """
        key = name if names.is_name(name) else ""
        with self._recorded_limit(what, By("unknown", by.address, by.request_id)):
            tried = self._limits.begin(key, by.address, holder=holder)
        try:
            user = self._database.first(select(User).where(User.name == key))
            known = None if user is None else user.password_hash
            matches = self._passwords.matches(known, password)
        except RefusedError:
            self._limits.undo(tried)  # nothing was compared: an unavailable database must not lock anybody out
            raise
        if not matches or user is None or known is None or user.disabled_at is not None:
            # An unknown name may be a password in the wrong field.
            who = By("unknown" if user is None else user.name, by.address, by.request_id)
            self._audit.write(what, who, who.who if user else "", "invalid_credentials")
            raise _invalid()
        with self._recorded_limit(what, by, user.name):
            self._limits.succeeded(tried)
        if self._passwords.is_outdated(known):
            renewed = self._passwords.hash(password)
            same = User.id == user.id, User.password_hash == known
            self._database.write(update(User).where(*same).values(password_hash=renewed))
            return renewed
        return known

    @contextlib.contextmanager
    def _recorded_limit(self, what: str, by: By, target: str = "") -> Iterator[None]:
        """Record refusals by a limit in this context, but not each of them: a flood must not fill the disk."""
        try:
            yield
        except RefusedError as error:
            if count := self._limited.due():
                self._audit.write(what, by, target, error.code, refused=count)
            raise

    def _unchanged_user(self, session: Session, name: str, known: str) -> User:
        """The user, if neither the password nor the account has changed since the comparison."""
        user = session.scalars(select(User).where(User.name == name).with_for_update()).one_or_none()
        if user is None or user.disabled_at is not None or user.password_hash != known:
            raise _invalid()
        return user


def removal_columns(agent_id: str) -> dict[str, Any]:
    """Columns that mark an agent for removal, and free its name at once."""
    return {"name": f"~{agent_id}", "status": REMOVING, "is_active": False}


def to_json(user: User) -> dict[str, Any]:
    """A user as a JSON value."""
    about = iso_times(user, "created_at", "disabled_at")
    return {"name": user.name, "role": user.role, **about, "quotas": user.quotas}


def _invalid() -> RefusedError:
    return RefusedError("invalid_credentials", "The name or the password is not correct")


class _Counter:
    """Counts, and reports the count at most once a second."""

    def __init__(self) -> None:
        self._lock, self._count, self._next = threading.Lock(), 0, 0.0

    def due(self) -> int:
        with self._lock:
            self._count += 1
            if time.monotonic() < self._next:
                return 0
            count, self._count, self._next = self._count, 0, time.monotonic() + 1
            return count
