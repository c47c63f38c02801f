"""Agent objects: what the database and the worker know of an agent, in one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from .gateway import Gateway
from .models import AgentObject, Counters, time_text
from .ports import AgentRow, Answer
from .problems import of_failure

_OF_WORKER: Final = (
    "is_active", "status", "status_detail", "learning", "counters", "episode_return_mean", "last_active", "bytes",
    "executor",
)  # fmt: skip
"""What ``info`` answers: the worker knows it better than the row."""


async def agent_object(gateway: Gateway, row: AgentRow) -> AgentObject:
    """One agent's object.

    Raises:
        ProblemError: its worker does not answer.
    """
    if row.status == "creating":
        return _object(row, {})
    answer = await gateway.pool.ask(row.id, "info", wake=False)
    if answer.status >= 400:
        raise of_failure(answer.status, answer.body, answer.retry_after)
    return _object(row, _info(answer))


async def agent_objects(gateway: Gateway, rows: Sequence[AgentRow]) -> list[AgentObject]:
    """The objects of a page of agents. Where a worker does not answer, only what the database knows."""
    asked = [gateway.pool.ask(row.id, "info", wake=False) for row in rows]
    answers = await asyncio.gather(*asked)
    return [
        _object(row, _info(answer) if answer.status < 400 else {}) for row, answer in zip(rows, answers, strict=True)
    ]


def _info(answer: Answer) -> Mapping[str, Any]:
    found = json.loads(answer.body)
    return {name: found[name] for name in _OF_WORKER if name in found}


def _object(row: AgentRow, info: Mapping[str, Any]) -> AgentObject:
    ready = row.status == "ready"
    values = {
        "is_active": ready,
        "status": row.status,
        "status_detail": row.status_detail,
        "learning": ready,
        "counters": Counters(),
        "episode_return_mean": None,
        "last_active": None,
        "bytes": None,
        "executor": None,
        **info,
    }
    return AgentObject(
        id=row.id,
        name=row.name,
        model=row.model,
        description=row.description,
        config=dict(row.config),
        discrete=bool(row.config.get("discrete", False)),
        created_at=time_text(row.created_at) or "",
        **values,
    )
