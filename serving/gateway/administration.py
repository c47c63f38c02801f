"""Routes of administrators: users, their agents, the audit log."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import Query

from ..accounts.grants import ADMIN
from ..accounts.tables import User
from ..refusals import invalid
from .agents import agent_object, agent_objects
from .calls import JSON, Called, Route, Routes
from .gateway import Gateway
from .models import AgentObject, Answer, Body, Removed, Time

routes = Routes("administration")
_ADMIN: Final = Route(ADMIN)
_CHANGE: Final = _ADMIN._replace(body=JSON)


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
    """Null resets a quota to the service's; 0 is no limit."""


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


@routes("GET", "/users", _ADMIN)
async def list_users(call: Called) -> list[UserObject]:
    """All users, by name."""
    found = await call.gateway.threads.call(call.gateway.accounts.users)
    await call.gateway.record("user.list", call.by)
    return [UserObject.model_validate(user) for user in found]


@routes("POST", "/users", _CHANGE, status_code=201)
async def add_user(call: Called, body: NewUser) -> UserObject:
    """Add a user."""
    add, admin = call.gateway.accounts.add_user, body.role == "admin"
    return UserObject.model_validate(
        await call.gateway.threads.hash(add, body.name, body.password, admin=admin, by=call.by)
    )


@routes("GET", "/users/{name}", _ADMIN)
async def get_user(call: Called, name: str) -> UserObject:
    """One user."""
    user = await _user(call.gateway, name)
    await call.gateway.record("user.read", call.by, name)
    return UserObject.model_validate(user)


@routes("PATCH", "/users/{name}", _CHANGE)
async def change_user(call: Called, name: str, body: UserChange) -> UserObject:
    """Set a user's password or quotas, disable or enable the user."""
    gateway, accounts = call.gateway, call.gateway.accounts
    user = await _user(gateway, name)
    if body.disabled and name == call.grant.user:
        raise invalid("disabled", "an administrator cannot disable the own account")
    if body.quotas is not None:
        await gateway.threads.call(accounts.set_quota, name, body.quotas, by=call.by)
    if body.password is not None:
        await gateway.threads.hash(accounts.set_password, name, body.password, by=call.by)
    if body.disabled is not None:
        change = accounts.disable_user if body.disabled else accounts.enable_user
        await gateway.threads.call(change, name, by=call.by)
    await gateway.tokens.refresh()
    return UserObject.model_validate(await _user(gateway, user.name))


@routes("DELETE", "/users/{name}", _ADMIN, status_code=202)
async def remove_user(call: Called, name: str) -> Removed:
    """Remove a user with all agents."""
    gateway = call.gateway
    if name == call.grant.user:
        raise invalid("name", "an administrator cannot remove the own account")
    agents = await gateway.threads.call(gateway.accounts.remove_user, name, by=call.by)
    await gateway.tokens.refresh()
    for agent in agents:
        await gateway.finish_removal(agent)
    return Removed(removed=name)


@routes("GET", "/users/{name}/agents", _ADMIN)
async def list_user_agents(
    call: Called, name: str, limit: Annotated[int, Query(ge=1, le=1000)] = 100, after: str | None = None
) -> list[AgentObject]:
    """A user's agents, by name."""
    user = await _user(call.gateway, name)
    rows = await call.gateway.threads.call(call.gateway.rows.of, user.id, limit, after)
    await call.gateway.record("agent.list", call.by, name)
    return await agent_objects(call.gateway, rows)


@routes("GET", "/users/{name}/agents/{agent}", _ADMIN)
async def get_user_agent(call: Called, name: str, agent: str) -> AgentObject:
    """One agent of a user."""
    user = await _user(call.gateway, name)
    row = await call.gateway.row(user.id, agent)
    await call.gateway.record("agent.read", call.by, agent, owner=user.id)
    return await agent_object(call.gateway, row)


@routes("DELETE", "/users/{name}/agents/{agent}", _ADMIN, status_code=202)
async def remove_user_agent(call: Called, name: str, agent: str) -> Removed:
    """Remove an agent of a user."""
    user = await _user(call.gateway, name)
    await call.gateway.remove(await call.gateway.row(user.id, agent), call.by)
    return Removed(removed=agent)


@routes("GET", "/audit", _ADMIN)
async def get_audit(
    call: Called,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Annotated[int | None, Query(ge=0, lt=2**63)] = None,
) -> list[AuditObject]:
    """The audit log, the newest first; `before` is the last id of the page before."""
    entries = await call.gateway.threads.call(call.gateway.audit.entries, limit, before)
    await call.gateway.record("audit.read", call.by)
    return [AuditObject.model_validate(entry) for entry in entries]


async def _user(gateway: Gateway, name: str) -> User:
    return await gateway.threads.call(gateway.accounts.user, name)
