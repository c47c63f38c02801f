"""Routes of administrators: users, their agents, the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from ..accounts.grants import ADMIN
from ..accounts.passwords import accept
from ..accounts.tables import Agent, AuditEntry, User
from ..refusals import invalid
from .agents import agent_object, agent_objects
from .declaration import JSON, Route, Routes
from .http_messages import Request
from .models import AgentObject, Answer, Body, Removed, Time

routes = Routes("administration")
_ADMIN: Final = Route(ADMIN)
_CHANGE: Final = Route(ADMIN, JSON)


class NewUser(Body):
    """A user to create."""

    name: str
    password: str
    role: Literal["user", "admin"] = "user"


class UserChange(Body):
    """Changes to a user."""

    password: str | None = None
    disabled: bool | None = None
    quotas: dict[str, int | None] | None = None
    """Null resets a quota to the service's default; 0: no limit."""


class UserObject(Answer):
    """A user."""

    name: str
    role: str
    disabled: bool
    created_at: Time
    quotas: dict[str, int]


class AuditObject(Answer):
    """An entry of the audit log."""

    id: int
    time: Time
    who: str
    address: str
    what: str
    target: str
    outcome: str
    request_id: str
    detail: dict[str, Any]


@routes("GET", "/users", _ADMIN, answers=list[UserObject])
async def list_users(request: Request) -> Sequence[User]:
    """All users, by name."""
    users = await request.call(request.gateway.accounts.users)
    await request.record("user.list")
    return users


@routes("POST", "/users", _CHANGE, status=201, answers=UserObject)
async def add_user(request: Request, body: NewUser) -> User:
    """Add a user."""
    add, is_admin = request.gateway.accounts.add_user, body.role == "admin"
    return await request.gateway.threads.hash(add, body.name, body.password, admin=is_admin, by=request.by)


@routes("GET", "/users/{name}", _ADMIN, answers=UserObject)
async def get_user(request: Request) -> User:
    """One user."""
    user = await _user(request)
    await request.record("user.read", request.name)
    return user


@routes("PATCH", "/users/{name}", _CHANGE, answers=UserObject)
async def change_user(request: Request, body: UserChange) -> User:
    """Set a user's password or quotas, or disable or enable the user."""
    accounts, name, by = request.gateway.accounts, request.name, request.by
    await _user(request)
    if body.disabled and name == request.grant.user:
        raise invalid("disabled", "an administrator cannot disable their own account")
    if body.password is not None:
        accept(name, body.password)  # before anything is changed
    if body.quotas is not None:
        await request.call(accounts.set_quota, name, body.quotas, by=by)
    if body.password is not None:
        await request.gateway.threads.hash(accounts.set_password, name, body.password, by=by)
    if body.disabled is not None:
        await request.call(accounts.disable_user if body.disabled else accounts.enable_user, name, by=by)
    await request.gateway.tokens.follow(lambda grant: grant.user == name)
    return await _user(request)


@routes("DELETE", "/users/{name}", _ADMIN, status=202)
async def remove_user(request: Request) -> Removed:
    """Remove a user and all their agents."""
    gateway = request.gateway
    if request.name == request.grant.user:
        raise invalid("name", "an administrator cannot remove their own account")
    agents = await request.call(gateway.accounts.remove_user, request.name, by=request.by)
    await gateway.tokens.follow(lambda grant: grant.user == request.name)
    for agent in agents:
        await gateway.finish_removal(agent)
    return Removed(removed=request.name)


@routes("GET", "/users/{name}/agents", _ADMIN)
async def list_user_agents(
    request: Request, limit: Annotated[int, Field(ge=1, le=1000)] = 100, after: str | None = None
) -> list[AgentObject]:
    """A user's agents, by name."""
    user = await _user(request)
    rows = await request.call(request.gateway.rows.of, user.id, limit, after)
    await request.record("agent.list", request.name)
    return await agent_objects(request.gateway, rows)


@routes("GET", "/users/{name}/agents/{agent}", _ADMIN)
async def get_user_agent(request: Request) -> AgentObject:
    """One of a user's agents."""
    row = await _agent(request)
    await request.record("agent.read", row.name, owner=row.owner)
    return await agent_object(request.gateway, row)


@routes("DELETE", "/users/{name}/agents/{agent}", _ADMIN, status=202)
async def remove_user_agent(request: Request) -> Removed:
    """Remove one of a user's agents."""
    row = await _agent(request)
    await request.gateway.remove(row, request.by)
    return Removed(removed=row.name)


@routes("GET", "/audit", _ADMIN, answers=list[AuditObject])
async def get_audit(
    request: Request,
    limit: Annotated[int, Field(ge=1, le=1000)] = 100,
    before: Annotated[int | None, Field(ge=0, lt=2**63)] = None,
) -> Sequence[AuditEntry]:
    """The audit log, newest first; `before` is the last id on the previous page."""
    entries = await request.call(request.gateway.audit.entries, limit, before)
    await request.record("audit.read")
    return entries


async def _user(request: Request) -> User:
    return await request.call(request.gateway.accounts.user, request.name)


async def _agent(request: Request) -> Agent:
    return await request.gateway.row((await _user(request)).id, request.names["agent"])
