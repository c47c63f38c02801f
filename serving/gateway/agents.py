"""Routes of agents, but for acting and stepping."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from ...errors import ArgumentError
from .calls import Call, Managing, Reading
from .gateway import LONG, NAME, Gateway
from .models import AgentChange, AgentObject, NewAgent, Removed
from .objects import agent_object, agent_objects
from .ports import AgentRow, Recipe
from .problems import ProblemError, invalid, of_error, of_failure

router = APIRouter(prefix="/agents", tags=["agents"])


@router.get("")
async def list_agents(
    call: Reading, limit: Annotated[int, Query(ge=1, le=1000)] = 100, after: str | None = None
) -> list[AgentObject]:
    """One's own agents, by name; `after` is the last name of the page before."""
    rows = await call.gateway.threads.call(call.gateway.rows.of, call.grant.user_id, limit, _cursor(after))
    allowed = call.grant.agents
    return await agent_objects(call.gateway, [row for row in rows if allowed is None or row.name in allowed])


@router.post("", status_code=201)
async def create_agent(call: Managing, body: NewAgent) -> AgentObject:
    """Create an agent. When this answers, the agent acts."""
    gateway, grant = call.gateway, call.grant
    if not NAME.fullmatch(body.name):
        rule = "must be 1 to 64 letters, digits, '.', '_' or '-', of which the first is a letter or a digit"
        raise invalid("name", rule)
    gateway.check_agent(grant, body.name)
    check_description(gateway, body.description)
    gateway.charge_creation(grant)
    config = dict(body.config)
    has_obs = "obs_size" in config
    if has_obs and "state_size" in config:
        raise invalid("config.obs_size", "is another name of state_size: give one of them")
    if has_obs:
        config["state_size"] = config.pop("obs_size")
    recipe = _recipe(gateway, body.model, config)
    stored = {("obs_size" if has_obs and key == "state_size" else key): one for key, one in recipe.config.items()}
    row = await _added(call, body, recipe, stored)
    try:
        await _opened(gateway, row, recipe, is_active=body.is_active)
        await gateway.threads.call(gateway.rows.set_status, row.id, "ready")
    except BaseException:
        await asyncio.shield(_undo(gateway, row))
        raise
    await gateway.record("agent.create", call.by, body.name, model=recipe.model)
    return await agent_object(gateway, await gateway.row(grant.user_id, body.name))


@router.get("/{name}")
async def get_agent(call: Reading, name: str) -> AgentObject:
    """One agent."""
    return await agent_object(call.gateway, await own(call, name))


@router.patch("/{name}")
async def change_agent(call: Managing, name: str, body: AgentChange) -> AgentObject:
    """Describe, activate, deactivate, stop or go on learning, or go on after a failure."""
    row = await own(call, name)
    if body.description is not None:
        check_description(call.gateway, body.description)
    changes = body.model_dump(exclude_none=True, exclude={"description"})
    if changes:
        await call.gateway.ask(row, "patch", json.dumps(changes).encode(), deadline=time.time() + LONG)
    if body.description is not None:
        await call.gateway.threads.call(call.gateway.rows.describe, row.id, body.description)
    if body.status is not None:
        await call.gateway.threads.call(call.gateway.rows.set_status, row.id, body.status)
    await call.gateway.record("agent.change", call.by, name, **changes)
    return await agent_object(call.gateway, await own(call, name))


@router.delete("/{name}", status_code=202)
async def remove_agent(call: Managing, name: str) -> Removed:
    """Remove an agent. When this answers, it is gone."""
    row = await own(call, name)
    await call.gateway.remove(row)
    await call.gateway.record("agent.remove", call.by, name)
    return Removed(removed=name)


@router.get("/{name}/loss", response_model=dict[str, Any])
async def get_loss(call: Reading, name: str) -> Response:
    """The last update's loss and metrics; null where not finite."""
    answer = await call.gateway.ask(await own(call, name), "loss")
    return Response(answer.body, media_type="application/json")


@router.get("/{name}/episodes", response_model=list[dict[str, Any]])
async def get_episodes(
    call: Reading,
    name: str,
    after: Annotated[int | None, Query(ge=0)] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
) -> Response:
    """The last episodes that ended; with `after`, the first ones that follow an episode."""
    head: dict[str, Any] = {"limit": limit} if after is None else {"limit": limit, "after": after}
    answer = await call.gateway.ask(await own(call, name), "episodes", **head)
    return Response(answer.body, media_type="application/json")


async def own(call: Call, name: str) -> AgentRow:
    """The row of one of the caller's agents; ``not_found``."""
    call.gateway.check_agent(call.grant, name)
    return await call.gateway.row(call.grant.user_id, name)


def check_description(gateway: Gateway, description: str) -> None:
    """Refuse a description that is too long."""
    longest = gateway.limits.description_characters
    if longest and len(description) > longest:
        raise invalid("description", f"may have {longest} characters, got {len(description)}")


def _cursor(after: str | None) -> str | None:
    if after is not None and not NAME.fullmatch(after):
        raise invalid("query.after", "must be the name of an agent")
    return after


def _recipe(gateway: Gateway, model: str, config: Mapping[str, Any]) -> Recipe:
    try:
        return gateway.catalogue.recipe(model, config)
    except ArgumentError as error:
        raise of_error(error, "" if error.argument == "model" else "config") or error from None


async def _added(call: Call, body: NewAgent, recipe: Recipe, config: dict[str, Any]) -> AgentRow:
    """The new row, if the account may have one more."""
    gateway, owner = call.gateway, call.grant.user_id
    most = gateway.limit(call.grant, "agents")
    async with gateway.creating:  # else two at once could both be the last one
        if most and await gateway.threads.call(gateway.rows.count, owner) >= most:
            raise ProblemError("quota_exceeded", f"the account may have {most:g} agents: remove one first")
        return await gateway.threads.call(
            gateway.rows.add, owner, body.name, recipe.model, body.description, config
        )  # fmt: skip


async def _opened(gateway: Gateway, row: AgentRow, recipe: Recipe, *, is_active: bool) -> None:
    deadline = time.time() + LONG
    await gateway.ask(row, "open", json.dumps(recipe.to_json()).encode(), deadline=deadline)
    if not is_active:
        await gateway.ask(row, "patch", b'{"is_active":false}', deadline=deadline)


async def _undo(gateway: Gateway, row: AgentRow) -> None:
    """Leave nothing of an agent that could not be created. What cannot be undone now is done at the next start."""
    answer = await gateway.pool.ask(row.id, "remove")
    if answer.status >= 400 and answer.status != 404:
        raise of_failure(answer.status, answer.body, answer.retry_after)
    await gateway.threads.call(gateway.rows.remove, row.id)
