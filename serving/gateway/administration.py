"""Routes of administrators: users, their agents, the audit log."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from ..accounts.tables import User
from .calls import Called
from .gateway import API, Gateway
from .models import AgentObject, AuditObject, NewUser, Removed, UserChange, UserObject, time_text
from .objects import agent_object, agent_objects
from .problems import invalid

router = APIRouter(prefix=API, tags=["administration"])


@router.get("/users")
async def list_users(call: Called) -> list[UserObject]:
    """All users, by name."""
    found = await call.gateway.threads.call(call.gateway.accounts.users)
    await call.gateway.record("user.list", call.by)
    return [_shown(user) for user in found]


@router.post("/users", status_code=201)
async def add_user(call: Called, body: NewUser) -> UserObject:
    """Add a user."""
    add, admin = call.gateway.accounts.add_user, body.role == "admin"
    return _shown(await call.gateway.threads.hash(add, body.name, body.password, admin=admin, by=call.by))


@router.get("/users/{name}")
async def get_user(call: Called, name: str) -> UserObject:
    """One user."""
    user = await _user(call.gateway, name)
    await call.gateway.record("user.read", call.by, name)
    return _shown(user)


@router.patch("/users/{name}")
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
    return _shown(await _user(gateway, user.name))


@router.delete("/users/{name}", status_code=202)
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


@router.get("/users/{name}/agents")
async def list_user_agents(
    call: Called, name: str, limit: Annotated[int, Query(ge=1, le=1000)] = 100, after: str | None = None
) -> list[AgentObject]:
    """A user's agents, by name."""
    user = await _user(call.gateway, name)
    rows = await call.gateway.threads.call(call.gateway.rows.of, user.id, limit, after)
    await call.gateway.record("agent.list", call.by, name)
    return await agent_objects(call.gateway, rows)


@router.get("/users/{name}/agents/{agent}")
async def get_user_agent(call: Called, name: str, agent: str) -> AgentObject:
    """One agent of a user."""
    user = await _user(call.gateway, name)
    row = await call.gateway.row(user.id, agent)
    await call.gateway.record("agent.read", call.by, agent, owner=user.id)
    return await agent_object(call.gateway, row)


@router.delete("/users/{name}/agents/{agent}", status_code=202)
async def remove_user_agent(call: Called, name: str, agent: str) -> Removed:
    """Remove an agent of a user."""
    user = await _user(call.gateway, name)
    await call.gateway.remove(await call.gateway.row(user.id, agent), call.by)
    return Removed(removed=agent)


@router.get("/audit")
async def get_audit(
    call: Called,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Annotated[int | None, Query(ge=0, lt=2**63)] = None,
) -> list[AuditObject]:
    """The audit log, the newest first; `before` is the last id of the page before."""
    entries = await call.gateway.threads.call(call.gateway.rooms.audit.entries, limit, before)
    await call.gateway.record("audit.read", call.by)
    return [
        AuditObject(
            id=one.id, time=time_text(one.time) or "", who=one.who, address=one.address, what=one.what,
            target=one.target, outcome=one.outcome, request_id=one.request_id, detail=dict(one.detail),
        )
        for one in entries
    ]  # fmt: skip


async def _user(gateway: Gateway, name: str) -> User:
    return await gateway.threads.call(gateway.accounts.user, name)


def _shown(user: User) -> UserObject:
    return UserObject(
        name=user.name,
        role=user.role,
        disabled=user.disabled_at is not None,
        created_at=time_text(user.created_at) or "",
        quotas=user.quotas,
    )
