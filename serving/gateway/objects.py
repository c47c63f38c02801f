"""Agent objects: an agent's data in the database and in its worker, merged."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..accounts.agents import CREATING
from ..accounts.tables import Agent
from .gateway import Gateway, info_of
from .models import AgentObject, Counters, time_text
from .problems import of_failure

_OF_WORKER: Final = ("status", "status_detail", "learning", "counters", "episode_return_mean", "bytes", "executor")
"""Fields that ``info`` answers, where the worker is more current than the row."""


async def agent_object(gateway: Gateway, row: Agent) -> AgentObject:
    """One agent's object.

    Raises:
        ProblemError: its worker does not answer.
    """
    if row.status == CREATING:
        return joined(row, {})
    answer = await gateway.pool.ask(row.id, "info", wake=row.is_active)
    if answer.status < 400:
        return joined(row, info_of(answer), gateway.used.get(row.id))
    problem = of_failure(answer.status, answer.body, answer.retry_after)
    if problem.code != "agent_failed":
        raise problem
    return joined(row, {"status": "failed", "status_detail": problem.detail}, gateway.used.get(row.id))


async def agent_objects(gateway: Gateway, rows: Sequence[Agent]) -> list[AgentObject]:
    """The objects of a page of agents; only the database's data where a worker does not answer."""
    answers = await asyncio.gather(*(gateway.pool.ask(row.id, "info", wake=False) for row in rows))
    infos = [info_of(answer) if answer.status < 400 else {} for answer in answers]
    return [joined(row, info, gateway.used.get(row.id)) for row, info in zip(rows, infos, strict=True)]


def joined(row: Agent, info: Mapping[str, Any], used: float | None = None) -> AgentObject:
    """Merge a row with the answer of ``info``; ``used``: time of the last use, if it is later than the row's."""
    last_active = row.last_active if used is None else dt.datetime.fromtimestamp(used, dt.timezone.utc)
    values = {
        "status": row.status,
        "status_detail": row.status_detail,
        "learning": row.learning,
        "counters": Counters(),
        "episode_return_mean": None,
        "bytes": row.bytes,
        "executor": None,
        **{name: info[name] for name in _OF_WORKER if name in info},
    }
    values["status_detail"] = values["status_detail"] or ""
    return AgentObject(
        id=row.id,
        name=row.name,
        model=row.model,
        description=row.description,
        config=row.config,
        discrete=bool(row.config.get("discrete", False)),
        is_active=row.is_active and row.status != CREATING,
        created_at=time_text(row.created_at) or "",
        last_active=time_text(last_active),
        **values,
    )
