"""Routes of administrators: users, their agents, the audit log."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from .calls import Administering
from .gateway import NAME, Gateway
from .models import AgentObject, AuditObject, NewUser, Removed, UserChange, UserObject, time_text
from .objects import agent_object, agent_objects
from .ports import User
from .problems import ProblemError, invalid, not_found
from .settings import QUOTAS

router = APIRouter(tags=["administration"])


@router.get("/users")
async def list_users(call: Administering) -> list[UserObject]:
    """All users, by name."""
    users = await call.gateway.threads.call(call.gateway.accounts.users)
    return [await _shown(call.gateway, user) for user in users]


@router.post("/users", status_code=201)
async def add_user(call: Administering, body: NewUser) -> UserObject:
    """Add a user."""
    gateway = call.gateway
    user = await gateway.threads.hash(gateway.accounts.add_user, body.name, body.password, role=body.role)
    await gateway.record("user.add", call.by, body.name, role=body.role)
    return await _shown(gateway, user)


@router.get("/users/{name}")
async def get_user(call: Administering, name: str) -> UserObject:
    """One user."""
    return await _shown(call.gateway, await _user(call.gateway, name))


@router.patch("/users/{name}")
async def change_user(call: Administering, name: str, body: UserChange) -> UserObject:
    """Set a user's password or quotas, disable or enable the user."""
    gateway, accounts = call.gateway, call.gateway.accounts
    user = await _user(gateway, name)
    for key in body.quotas or {}:
        if key not in QUOTAS:
            raise invalid(f"quotas.{key[:80]}", f"is not known; there are {', '.join(sorted(QUOTAS))}")
    if body.disabled and name == call.grant.user:
        raise invalid("disabled", "an administrator cannot disable the own account")
    for key, value in (body.quotas or {}).items():
        await gateway.threads.call(accounts.set_quota, name, key, value)
    if body.password is not None:
        await gateway.threads.hash(accounts.set_password, name, body.password)
    if body.disabled is not None:
        await gateway.threads.call(accounts.disable_user if body.disabled else accounts.enable_user, name)
    await gateway.tokens.refresh()
    await gateway.record("user.change", call.by, name, fields=sorted(body.model_fields_set))
    return await _shown(gateway, await _user(gateway, user.name))


@router.delete("/users/{name}", status_code=202)
async def remove_user(call: Administering, name: str) -> Removed:
    """Remove a user with all agents."""
    gateway = call.gateway
    user = await _user(gateway, name)
    if name == call.grant.user:
        raise invalid("name", "an administrator cannot remove the own account")
    await gateway.threads.call(gateway.accounts.disable_user, name)
    await gateway.tokens.refresh()  # from here on the user makes no more agents
    while rows := await gateway.threads.call(gateway.rows.of, user.id, 100, None):
        for row in rows:
            await gateway.remove(row)
    await gateway.threads.call(gateway.accounts.remove_user, name)
    await gateway.record("user.remove", call.by, name)
    return Removed(removed=name)


@router.get("/users/{name}/agents")
async def list_user_agents(
    call: Administering, name: str, limit: Annotated[int, Query(ge=1, le=1000)] = 100, after: str | None = None
) -> list[AgentObject]:
    """A user's agents, by name."""
    user = await _user(call.gateway, name)
    rows = await call.gateway.threads.call(call.gateway.rows.of, user.id, limit, after)
    return await agent_objects(call.gateway, rows)


@router.get("/users/{name}/agents/{agent}")
async def get_user_agent(call: Administering, name: str, agent: str) -> AgentObject:
    """One agent of a user."""
    user = await _user(call.gateway, name)
    return await agent_object(call.gateway, await call.gateway.row(user.id, agent))


@router.delete("/users/{name}/agents/{agent}", status_code=202)
async def remove_user_agent(call: Administering, name: str, agent: str) -> Removed:
    """Remove an agent of a user."""
    user = await _user(call.gateway, name)
    await call.gateway.remove(await call.gateway.row(user.id, agent))
    await call.gateway.record("agent.remove", call.by, f"{name}/{agent}")
    return Removed(removed=agent)


@router.get("/audit")
async def get_audit(
    call: Administering, limit: Annotated[int, Query(ge=1, le=1000)] = 100, before: Annotated[int | None, Query()] = None
) -> list[AuditObject]:
    """The audit log, the newest first; `before` is the last id of the page before."""
    if before is not None and not 0 <= before < 2**63:
        raise invalid("query.before", "must be the id of an entry")
    entries = await call.gateway.threads.call(call.gateway.rooms.audit.entries, limit, before)
    return [
        AuditObject(
            id=one.id, time=time_text(one.time) or "", who=one.who, address=one.address, what=one.what,
            target=one.target, outcome=one.outcome, request_id=one.request_id, detail=dict(one.detail),
        )
        for one in entries
    ]  # fmt: skip


async def _user(gateway: Gateway, name: str) -> User:
    found = await gateway.threads.call(gateway.accounts.user, name) if NAME.fullmatch(name) else None
    if found is None:
        raise not_found("the user")
    return found


async def _shown(gateway: Gateway, user: User) -> UserObject:
    try:
        quotas = await gateway.threads.call(gateway.accounts.quotas, user.name)
    except ProblemError as problem:  # removed meanwhile
        if problem.code != "not_found":
            raise
        quotas = {}
    return UserObject(
        name=user.name,
        role=user.role,
        disabled=user.disabled_at is not None,
        created_at=time_text(user.created_at) or "",
        quotas={key: int(value) for key, value in quotas.items()},
    )
