"""Rows of agents. Learned state is in an agent's folder, not here."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from ...core import checks
from ...core.errors import ArgumentError
from ..refusals import RefusedError
from . import names
from .accounts import REMOVING, removal_columns
from .audit import SERVICE, By, Records
from .tables import Agent, User
from .tokens import new_id

CREATING: Final = "creating"
READY: Final = "ready"
_ALIVE: Final = Agent.status != REMOVING


@dataclasses.dataclass(frozen=True)
class Lease:
    """Holder and epoch of an agent, and seconds until the lease expires."""

    home: str
    epoch: int
    seconds: float


class AgentRows(Records):
    """The agents of all users; owners are users' ids."""

    def add(
        self,
        owner: str,
        name: str,
        model: str,
        description: str,
        config: Mapping[str, Any],
        *,
        is_active: bool = True,
        most: int = 0,
        by: By = SERVICE,
    ) -> Agent:
        """Create a row with the status ``creating``.

        Args:
            owner: a user's id.
            name: the agent's name, unique for this user.
            model: ``"dqn"``, ...
            description: text of any length: a service has its own limit.
            config: a JSON object.
            is_active: whether it may act and learn.
            most: the owner's quota of agents; 0 is no limit.
            by: the caller.

        Raises:
            ArgumentError: an argument is invalid.
            RefusedError: ``name_taken``, ``quota_exceeded``, ``not_found`` (the owner).
        """
        row = Agent(id=new_id(), owner=owner, name=names.name("name", name), model=model, config=dict(config))
        row.description = names.text("description", description)
        row.is_active, row.learning, row.status, row.status_detail = is_active, True, CREATING, ""
        row.epoch, row.bytes, row.created_at = 0, 0, self._clock()
        with self._audit.recorded("agent.create", by, name, model=model, owner=owner) as session:
            if session.scalars(select(User.id).where(User.id == owner).with_for_update()).one_or_none() is None:
                raise RefusedError("not_found", "There is no such user")
            if session.scalars(_select_by_name(owner, name)).first() is not None:
                raise RefusedError("name_taken", f"Agent {name} already exists")
            used = session.execute(_usage(owner)).one()[0]
            if most and used >= most:
                raise RefusedError("quota_exceeded", f"The account has {used} agents, and its quota is {most}")
            session.add(row)
        return row

    def by_name(self, owner: str, name: str) -> Agent | None:
        """A user's agent by name; None if there is none. Accepts any text."""
        return self._database.first(_select_by_name(owner, name)) if names.is_name(name) else None

    def by_id(self, agent_id: str) -> Agent | None:
        """An agent by id; None if there is none."""
        return self._database.first(select(Agent).where(Agent.id == agent_id))

    def of(
        self, owner: str, limit: int = 100, after: str | None = None, only: Collection[str] | None = None
    ) -> Sequence[Agent]:
        """A user's agents, sorted by name; ``after``: last name of the previous page; ``only``: restrict to some names.

        Raises:
            ArgumentError: ``after`` is not a name.
        """
        query = select(Agent).where(Agent.owner == owner, _ALIVE).order_by(Agent.name).limit(limit)
        if after is not None:
            query = query.where(Agent.name > names.name("after", after))
        return self._database.all(query if only is None else query.where(Agent.name.in_(only)))

    def all(self) -> Sequence[tuple[str, Agent]]:
        """All agents not marked for removal, with their owners' names, sorted by both names."""
        query = select(User.name, Agent).join(User, Agent.owner == User.id).where(_ALIVE)
        with self._database.reading() as session:
            return [(row[0], row[1]) for row in session.execute(query.order_by(User.name, Agent.name))]

    def all_unfinished(self) -> Sequence[Agent]:
        """Agents with an unfinished creation or removal: a server finishes both at its start, removals later, too."""
        return self._database.all(
            select(Agent).where(Agent.status.in_([CREATING, REMOVING])).order_by(Agent.created_at)
        )

    def usage(self, owner: str) -> dict[str, int]:
        """Number of a user's agents, and the bytes that they use: ``{"agents": 2, "bytes": 12345}``."""
        with self._database.reading() as session:
            agents, size = session.execute(_usage(owner)).one()
        return {"agents": agents, "bytes": int(size)}

    def sizes(self) -> dict[str, int]:
        """Bytes that the agents of each user have, by owner."""
        query = select(Agent.owner, func.sum(Agent.bytes)).where(_ALIVE).group_by(Agent.owner)
        with self._database.reading() as session:
            return {owner: int(size) for owner, size in session.execute(query) if owner is not None}

    def ids(self, owner: str) -> Sequence[str]:
        """The ids of a user's agents."""
        return self._database.all(select(Agent.id).where(Agent.owner == owner, _ALIVE))

    def set_ready(self, agent_id: str) -> bool:
        """End an agent's creation; False if it is gone, or marked for removal."""
        return self._change(agent_id, status=READY)

    def set_config(self, agent_id: str, config: Mapping[str, Any]) -> bool:
        """Store an agent's hyperparameters; False if it is gone, or marked for removal."""
        return self._change(agent_id, config=dict(config))

    def _change(self, agent_id: str, **values: Any) -> bool:
        query = update(Agent).where(Agent.id == agent_id, _ALIVE).values(**values)
        with self._database.writing() as session:
            return session.execute(query.returning(Agent.id)).first() is not None

    def describe(
        self,
        agent_id: str,
        *,
        description: str | None = None,
        is_active: bool | None = None,
        learning: bool | None = None,
        by: By = SERVICE,
    ) -> Agent:
        """Change the given fields.

        Raises:
            ArgumentError: the description is invalid.
            RefusedError: ``not_found``.
        """
        text = None if description is None else names.text("description", description)
        values = {"description": text, "is_active": is_active, "learning": learning}
        given = {name: value for name, value in values.items() if value is not None}
        with self._audit.recorded("agent.change", by, agent_id, changed=sorted(given)) as session:
            row = session.scalars(select(Agent).where(Agent.id == agent_id, _ALIVE).with_for_update()).one_or_none()
            if row is None:
                raise RefusedError("not_found", "There is no such agent")
            for name, value in given.items():
                setattr(row, name, value)
        return row

    def mark_removed(self, agent_id: str, *, by: By = SERVICE) -> bool:
        """Begin an agent's removal: hide it, and free its name. False if it was already gone."""
        row = self.by_id(agent_id)
        if row is None or row.status == REMOVING:
            return False
        with self._audit.recorded("agent.remove", by, row.name, id=agent_id, owner=row.owner) as session:
            alive = update(Agent).where(Agent.id == agent_id, _ALIVE)
            return session.execute(alive.values(**removal_columns(agent_id)).returning(Agent.id)).first() is not None

    def remove(self, agent_id: str) -> None:
        """Delete the row, after the folder was removed."""
        self._database.write(delete(Agent).where(Agent.id == agent_id))

    def note(self, seen: Mapping[str, tuple[dt.datetime | None, int | None]]) -> None:
        """Store the times of agents' last requests, and their bytes. A server does so periodically.

        Args:
            seen: both by agent id; None keeps the stored value.
        """
        if not seen:
            return
        with self._database.writing() as session:
            for agent_id, (time, size) in seen.items():
                values: dict[str, Any] = {} if time is None else {"last_active": time}
                values |= {} if size is None else {"bytes": size}
                if values:
                    session.execute(update(Agent).where(Agent.id == agent_id).values(**values))

    # -- leases -------------------------------------------------------------------------------------------------------

    def take(self, agent_id: str, home: str, seconds: float) -> Lease:
        """Lease an agent, if nobody else has it. The database's clock decides.

        Args:
            agent_id: the agent.
            home: the lessee: a name that no other process has.
            seconds: duration of the lease.

        Returns:
            The lease; or the current holder's, if there is one.

        Raises:
            RefusedError: ``not_found``.
        """
        with self._database.writing() as session:
            time = self._time(session)
            values = {"epoch": Agent.epoch + 1, "home": home, "lease_until": time + dt.timedelta(seconds=seconds)}
            free = (
                Agent.home.is_(None) | Agent.lease_until.is_(None) | (Agent.lease_until <= time) | (Agent.home == home)
            )
            query = update(Agent).where(Agent.id == agent_id, free).values(**values).returning(Agent.epoch)
            epoch = session.execute(query).scalar_one_or_none()
            if epoch is not None:
                return Lease(home, epoch, seconds)
            row = session.get(Agent, agent_id)
            if row is None:
                raise RefusedError("not_found", "There is no such agent")
            left = time if row.lease_until is None else row.lease_until
            return Lease(row.home or "", row.epoch, (left - time).total_seconds())

    def renew(self, home: str, seconds: float) -> dict[str, int]:
        """Renew all unexpired leases of a home, in one statement; returns ids and epochs."""
        with self._database.writing() as session:
            time = self._time(session)
            query = update(Agent).where(Agent.home == home, Agent.lease_until > time)
            values = {"lease_until": time + dt.timedelta(seconds=seconds)}
            found = session.execute(query.values(**values).returning(Agent.id, Agent.epoch))
            return {row[0]: row[1] for row in found}

    def release(self, home: str, agent_id: str | None = None, epoch: int | None = None) -> None:
        """Release one lease of a home, that of an epoch, or all."""
        query = update(Agent).where(Agent.home == home)
        if agent_id is not None:
            query = query.where(Agent.id == agent_id, Agent.epoch == epoch)
        self._database.write(query.values(home=None, lease_until=None))

    def _time(self, session: Session) -> dt.datetime:
        """The time common to all servers: the database's, if there are several."""
        if self._database.is_sqlite:
            return self._clock()
        time: dt.datetime = session.execute(select(func.clock_timestamp())).scalar_one()
        return time


def split(path: str) -> tuple[str, str]:
    """Split ``USER/NAME`` of a command line.

    Raises:
        ArgumentError: it has another form.
    """
    user, slash, name = path.partition("/")
    if not slash or not names.is_name(user) or not names.is_name(name):
        raise ArgumentError(f"the agent must be USER/NAME, got {checks.shortened(path)}", "agent", path)
    return user, name


def _select_by_name(owner: str, name: str) -> Any:
    return select(Agent).where(Agent.owner == owner, Agent.name == name)


def _usage(owner: str) -> Any:
    query = select(func.count(Agent.id), func.coalesce(func.sum(Agent.bytes), 0))
    return query.where(Agent.owner == owner, _ALIVE)
