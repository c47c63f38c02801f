"""Routes of agents, but for acting and stepping."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from ...core.errors import ArgumentError
from ..accounts.agents import CREATING, READY
from ..accounts.tables import Agent
from .calls import Call, Called
from .gateway import API, NAME, Gateway, info_of
from .models import AgentChange, AgentObject, ChangedAgent, EpisodeObject, Loss, NewAgent, Removed
from .objects import agent_object, agent_objects, joined
from .ports import Recipe
from .problems import ProblemError, being_created, invalid, of_error

router = APIRouter(prefix=f"{API}/agents", tags=["agents"])


@router.get("")
async def list_agents(
    call: Called, limit: Annotated[int, Query(ge=1, le=1000)] = 100, after: str | None = None
) -> list[AgentObject]:
    """One's own agents, by name; `after` is the last name of the page before."""
    grant, of = call.grant, call.gateway.rows.of
    rows = await call.gateway.threads.call(of, grant.user_id, limit, _cursor(after), grant.agents)
    return await agent_objects(call.gateway, rows)


@router.post("", status_code=201)
async def create_agent(call: Called, body: NewAgent) -> AgentObject:
    """Create an agent. When this answers, the agent acts."""
    gateway, grant = call.gateway, call.grant
    if not NAME.fullmatch(body.name):
        rule = "must be 1 to 64 letters, digits, '.', '_' or '-', of which the first is a letter or a digit"
        raise invalid("name", rule)
    gateway.check_agent(grant, body.name)
    check_description(gateway, body.description or "")
    config = dict(body.config)
    has_obs = "obs_size" in config
    if has_obs and "state_size" in config:
        raise invalid("config.obs_size", "is another name of state_size: give one of them")
    if has_obs:
        config["state_size"] = config.pop("obs_size")
    recipe = _recipe(gateway, body.model, config)
    stored = {("obs_size" if has_obs and key == "state_size" else key): one for key, one in recipe.config.items()}
    row = await _added(call, body, recipe, stored)
    gateway.creating.add(row.id)
    try:
        made = json.dumps(recipe.to_json()).encode()
        opened = await gateway.ask(row.id, "open", made, any_seed="seed" not in config)
        row.config = await note_info(gateway, row, info_of(opened))
        if not body.is_active:
            await gateway.ask(row.id, "close")
        if not await gateway.threads.call(gateway.rows.set_status, row.id, READY):
            raise ProblemError("not_found", "the agent was removed while it was being created")
    except BaseException:
        gateway.creating.discard(row.id)
        # What cannot be undone now is undone shortly, or at the next start.
        await asyncio.shield(gateway.remove(row, call.by))
        raise
    gateway.creating.discard(row.id)
    row.status = READY
    return joined(row, info_of(opened))


@router.get("/{name}")
async def get_agent(call: Called, name: str) -> AgentObject:
    """One agent."""
    return await agent_object(call.gateway, await own(call, name))


@router.patch("/{name}")
async def change_agent(call: Called, name: str, body: AgentChange) -> ChangedAgent:
    """Describe, activate, deactivate, stop or go on learning, or go on after a failure."""
    gateway, row, lost = call.gateway, await whole(call, name), 0
    if body.description is not None:
        check_description(gateway, body.description)
    if body.status is not None or body.learning is not None:
        patched = await gateway.ask_once(row, "patch", learning=body.learning, recover=body.status is not None)
        lost = int(json.loads(patched.body).get("lost", 0))
    if body.status is not None:
        await gateway.threads.call(gateway.rows.set_status, row.id, body.status)
    fields = body.model_dump(exclude_none=True, exclude={"status"})
    if fields:
        row = await gateway.threads.call(gateway.rows.describe, row.id, by=call.by, **fields)
    if body.is_active is False:  # it takes no memory
        gateway.forget(row.id)
        await gateway.ask(row.id, "close")
    shown = await agent_object(gateway, await own(call, name))
    return ChangedAgent(**shown.model_dump(), lost=lost)


@router.delete("/{name}", status_code=202)
async def remove_agent(call: Called, name: str) -> Removed:
    """Remove an agent. When this answers, it is gone."""
    await call.gateway.remove(await own(call, name), call.by)
    return Removed(removed=name)


@router.get("/{name}/loss", response_model=Loss)
async def get_loss(call: Called, name: str) -> Response:
    """The last update's loss and metrics; null where not finite."""
    answer = await call.gateway.ask_once(await whole(call, name), "loss")
    return Response(answer.body, media_type="application/json")


@router.get("/{name}/episodes", response_model=list[EpisodeObject])
async def get_episodes(
    call: Called,
    name: str,
    after: Annotated[int | None, Query(ge=0)] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
) -> Response:
    """The last episodes that ended; with `after`, the first ones that follow an episode."""
    head: dict[str, Any] = {"limit": limit} if after is None else {"limit": limit, "after": after}
    answer = await call.gateway.ask_once(await whole(call, name), "episodes", **head)
    return Response(answer.body, media_type="application/json")


async def charge_creation(call: Call, name: str) -> None:
    """Count a creation before its body is read; ``rate_limited``."""
    call.gateway.charge_creation(call.grant)


async def own(call: Call, name: str) -> Agent:
    """The row of one of the caller's agents; ``not_found``."""
    call.gateway.check_agent(call.grant, name)
    return await call.gateway.row(call.grant.user_id, name)


async def whole(call: Call, name: str) -> Agent:
    """:func:`own` for a completely created agent; ``unavailable`` until then, as there is nothing to open."""
    row = await own(call, name)
    if row.status == CREATING:
        raise being_created()
    return row


async def note_info(gateway: Gateway, row: Agent, info: Mapping[str, Any]) -> dict[str, Any]:
    """The agent's current hyperparameters; stored in its row if they changed, like its bytes."""
    if info.get("bytes", row.bytes) != row.bytes:
        await gateway.threads.call(gateway.rows.note, {row.id: (None, info["bytes"])})
    has_obs = "obs_size" in row.config
    found = info.get("config", {})
    config = {("obs_size" if has_obs and key == "state_size" else key): one for key, one in found.items()}
    if config and config != row.config:
        await gateway.threads.call(gateway.rows.set_config, row.id, config)
    return config or row.config


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


async def _added(call: Call, body: NewAgent, recipe: Recipe, config: dict[str, Any]) -> Agent:
    """Add a row if the account may have one more agent."""
    gateway, grant = call.gateway, call.grant
    try:
        await gateway.check_bytes(grant)
    except ProblemError as problem:
        await gateway.record("agent.create", call.by, body.name, problem.code)
        raise
    return await gateway.threads.call(
        gateway.rows.add, grant.user_id, body.name, recipe.model, body.description or "", config,
        is_active=body.is_active, most=gateway.limit(grant, "agents"), by=call.by,
    )  # fmt: skip
