"""``axonrl service verify``: check all agents' files for damage."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...core.checks import counted
from ..accounts import folder
from ..accounts.agents import CREATING
from ..accounts.tables import Agent
from ..hosting.agent_files import Damage, check
from .context import DONE, FAILED, Service


def verify(service: Service) -> int:
    """Run the command; returns 1 if anything is damaged."""
    rows = service.agents.all()
    damages = [_row("", "", Damage(service.folder / folder.DATABASE, None, what)) for what in service.database.check()]
    damages += damages_of(service.folder, rows)
    if service.as_json:
        print(json.dumps({"agents": len(rows), "damages": damages}, indent=2))
    else:
        say(len(rows), damages)
    return FAILED if damages else DONE


def damages_of(data: Path, rows: Iterable[tuple[str, Agent]]) -> list[dict[str, Any]]:
    """Damage of these agents, as JSON.

    Args:
        data: the data folder, or a copy of it.
        rows: owners' names and rows. An agent that is being created is read as far as it exists.
    """
    found = []
    for owner, row in rows:
        path = data / folder.AGENTS / row.id
        if row.status == CREATING and not path.exists():
            continue
        found += [_row(f"{owner}/{row.name}", row.id, damage) for damage in check(path)]
    return found


def say(agents: int, damages: list[dict[str, Any]]) -> None:
    """Print the result for people."""
    for one in damages:
        at = "" if one["offset"] is None else f", byte {one['offset']:,}"
        print(f"{one['agent'] or 'database'}: {one['file']}{at}: {one['what']}")
    state = counted(len(damages), "damaged place") if damages else "all are whole"
    print(f"Verified {counted(agents, 'agent')}: {state}.")


def _row(agent: str, agent_id: str, damage: Damage) -> dict[str, Any]:
    return {
        "agent": agent,
        "id": agent_id,
        "file": str(damage.path),
        "offset": damage.offset,
        "what": damage.what,
    }
