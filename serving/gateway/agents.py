"""Routes of agents, except acting and stepping."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import Field

from ...core.errors import ArgumentError
from ..accounts import names
from ..accounts.agents import CREATING, READY
from ..accounts.tables import Agent
from ..catalogue.recipes import Recipe
from ..refusals import RefusedError, invalid
from .declaration import AGENT, JSON, READ, Route, Routes
from .gateway import Gateway, info_of
from .http_messages import Request
from .models import AgentChange, AgentObject, ChangedAgent, Counters, EpisodeObject, Loss, NewAgent, Removed
from .problems import being_created, of_error, of_failure

routes = Routes("agents")
_CREATION: Final = ("creations_per_minute", "agents", "bytes", "description_characters")
_OF_WORKER: Final = ("status", "status_detail", "learning", "counters", "episode_return_mean", "bytes", "executor")
"""Fields that ``info`` answers, where the worker is more current than the row."""


async def charge_creation(request: Request) -> None:
    """Count a creation before its body is read; ``rate_limited``."""
    request.gateway.charge("creations_per_minute", request.grant, request.grant.user_id)


async def own_agent_row(request: Request) -> Agent:
    """The row of the caller's agent that is in the path; ``not_found``."""
    request.gateway.check_agent(request.grant, request.name)
    return await request.gateway.row(request.grant.user_id, request.name)


async def created_agent_row(request: Request) -> Agent:
    """:func:`own_agent_row` for a completely created agent; ``unavailable`` until then, as there is nothing to open."""
    row = await own_agent_row(request)
    if row.status == CREATING:
        raise being_created()
    return row


@routes("GET", "/agents", READ)
async def list_agents(
    request: Request, limit: Annotated[int, Field(ge=1, le=1000)] = 100, after: str | None = None
) -> list[AgentObject]:
    """The account's agents, by name; `after` is the last name on the previous page."""
    grant, of = request.grant, request.gateway.rows.of
    rows = await request.gateway.threads.call(of, grant.user_id, limit, after, grant.agents)
    return await agent_objects(request.gateway, rows)


@routes("POST", "/agents", Route("manage", AGENT, _CREATION, admit=charge_creation), status=201)
async def create_agent(request: Request, body: NewAgent) -> AgentObject:
    """Create an agent. It can act as soon as this call answers."""
    gateway, grant = request.gateway, request.grant
    gateway.check_agent(grant, names.name("name", body.name))
    names.text("description", body.description or "", gateway.limits.description_characters)
    config = dict(body.config)
    has_obs = "obs_size" in config
    if has_obs and "state_size" in config:
        raise invalid("config.obs_size", "is another name of state_size: give one of them")
    if has_obs:
        config["state_size"] = config.pop("obs_size")
    recipe = await asyncio.to_thread(_recipe, gateway, body.model, config)  # bounds may be 100,000 numbers
    stored = {("obs_size" if has_obs and key == "state_size" else key): one for key, one in recipe.config.items()}
    async with gateway.building[grant.user_id]:
        return await _create_agent(request, body, recipe, stored)


async def _create_agent(request: Request, body: NewAgent, recipe: Recipe, stored: dict[str, Any]) -> AgentObject:
    gateway, row = request.gateway, await _add_row(request, body, recipe, stored)
    gateway.creating.add(row.id)
    try:
        made = await asyncio.to_thread(lambda: json.dumps(recipe.to_json()).encode())
        info = info_of(await gateway.ask(row.id, "open", made))
        row.config = await note_info(gateway, row, info)
        if not body.is_active:
            await gateway.ask(row.id, "close")
            info["executor"] = None
        if not await gateway.threads.call(gateway.rows.set_ready, row.id):
            raise RefusedError("not_found", "the agent was removed while it was being created")
    except BaseException:
        gateway.creating.discard(row.id)
        # What cannot be undone now is undone shortly, or at the next start.
        await asyncio.shield(gateway.remove(row, request.by))
        raise
    gateway.creating.discard(row.id)
    row.status = READY
    return make_agent_object(row, info)


@routes("GET", "/agents/{name}", READ)
async def get_agent(request: Request) -> AgentObject:
    """One agent."""
    return await agent_object(request.gateway, await own_agent_row(request))


@routes("PATCH", "/agents/{name}", Route("manage", JSON, ("description_characters",), admit=created_agent_row))
async def change_agent(request: Request, body: AgentChange) -> ChangedAgent:
    """Change an agent's description, activity or learning, or continue it after a failure."""
    gateway, row, lost = request.gateway, await created_agent_row(request), 0
    if body.description is not None:
        names.text("description", body.description, gateway.limits.description_characters)
    if body.status is not None or body.learning is not None:
        patched = await gateway.ask_once(row, "patch", learning=body.learning, recover=body.status is not None)
        lost = int(json.loads(patched.body).get("lost", 0))
    fields = body.model_dump(exclude_none=True, exclude={"status"})
    if fields:
        row = await gateway.threads.call(gateway.rows.describe, row.id, by=request.by, **fields)
    if body.is_active is False:  # it takes no memory
        gateway.forget(row.id)
        await gateway.ask(row.id, "close")
    shown = await agent_object(gateway, await own_agent_row(request))
    return ChangedAgent(**shown.model_dump(), lost=lost)


@routes("DELETE", "/agents/{name}", Route("manage"), status=202)
async def remove_agent(request: Request) -> Removed:
    """Remove an agent. It is gone as soon as this call answers."""
    await request.gateway.remove(await own_agent_row(request), request.by)
    return Removed(removed=request.name)


@routes("GET", "/agents/{name}/loss", READ, answers=Loss)
async def get_loss(request: Request) -> bytes:
    """Loss and metrics of the last update; null where not finite."""
    answer = await request.gateway.ask_once(await created_agent_row(request), "loss")
    return answer.body


@routes("GET", "/agents/{name}/episodes", READ, answers=list[EpisodeObject])
async def get_episodes(
    request: Request,
    after: Annotated[int | None, Field(ge=0)] = None,
    limit: Annotated[int, Field(ge=1, le=10_000)] = 100,
) -> bytes:
    """The latest finished episodes; with `after`, the first ones after that episode."""
    head: dict[str, Any] = {"limit": limit} if after is None else {"limit": limit, "after": after}
    answer = await request.gateway.ask_once(await created_agent_row(request), "episodes", **head)
    return answer.body


async def agent_object(gateway: Gateway, row: Agent) -> AgentObject:
    """One agent's object.

    Raises:
        RefusedError: its worker does not answer.
    """
    if row.status == CREATING:
        return make_agent_object(row, {})
    answer = await gateway.pool.ask(row.id, "info", wake=row.is_active)
    if answer.status < 400:
        return make_agent_object(row, info_of(answer), gateway.used.get(row.id))
    problem = of_failure(answer)
    if problem.code != "agent_failed":
        raise problem
    return make_agent_object(row, {"status": "failed", "status_detail": problem.detail}, gateway.used.get(row.id))


async def agent_objects(gateway: Gateway, rows: Sequence[Agent]) -> list[AgentObject]:
    """The objects of a page of agents; only the database's data where a worker does not answer."""
    answers = await asyncio.gather(*(gateway.pool.ask(row.id, "info", wake=False) for row in rows))
    infos = [info_of(answer) if answer.status < 400 else {} for answer in answers]
    return [make_agent_object(row, info, gateway.used.get(row.id)) for row, info in zip(rows, infos, strict=True)]


def make_agent_object(row: Agent, info: Mapping[str, Any], used: float | None = None) -> AgentObject:
    """Merge a row with the answer of ``info``; ``used``: time of the last use, if it is later than the row's."""
    last_active = row.last_active if used is None else dt.datetime.fromtimestamp(used, dt.timezone.utc)
    own = {name: getattr(row, name) for name in AgentObject.model_fields if hasattr(row, name)}
    absent = {"counters": Counters(), "episode_return_mean": None, "executor": None}
    values = {**own, **absent, **{name: info[name] for name in _OF_WORKER if name in info}, "last_active": last_active}
    values["status_detail"] = values["status_detail"] or ""
    values["discrete"] = bool(row.config.get("discrete", False))
    values["is_active"] = row.is_active and row.status != CREATING
    return AgentObject.model_validate(values)


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


def _recipe(gateway: Gateway, model: str, config: Mapping[str, Any]) -> Recipe:
    try:
        made: Recipe = gateway.catalogue.recipe(model, config)
    except ArgumentError as error:
        raise of_error(error, "" if error.argument == "model" else "config") or error from None
    return made


async def _add_row(request: Request, body: NewAgent, recipe: Recipe, config: dict[str, Any]) -> Agent:
    """Add a row if the account may have one more agent."""
    gateway, grant = request.gateway, request.grant
    try:
        await gateway.check_bytes(grant)
    except RefusedError as problem:
        await gateway.record("agent.create", request.by, body.name, problem.code)
        raise
    return await gateway.threads.call(
        gateway.rows.add, grant.user_id, body.name, recipe.model, body.description or "", config,
        is_active=body.is_active, most=gateway.limit(grant, "agents"), by=request.by,
    )  # fmt: skip
