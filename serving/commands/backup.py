"""``axonrl service backup``: copy database and agents, with or without a running server."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ...core.checks import counted
from ...core.errors import ArgumentError
from ...policies import compiled
from ...run_dir.files import sync_folder
from ..accounts import AgentRows, Database, RefusedError, UnusableError, folder
from ..accounts.accounts import REMOVING
from ..accounts.tables import Agent
from ..hosting.agent_files import MovedError, copy_agent, link_tree
from ..hosting.programs import PROGRAMS, use, used_by
from .context import DONE, FAILED, Service, for_nobody_else
from .verify import damages_of, say

_FILES: Final = ("identity.json", "audit.jsonl")
Rows = Sequence[tuple[str, Agent]]


def backup(service: Service) -> int:
    """Run the command; returns 1 if the copy is complete, but has damage."""
    target: Path = service.arguments.directory.expanduser().resolve()
    _check(service, target)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir(mode=0o700)
        with for_nobody_else():
            rows = _copy_database(service, temporary)
        damages = damages_of(temporary, rows)
        os.sync()
        with contextlib.suppress(FileNotFoundError):
            target.rmdir()  # an empty one
        temporary.replace(target)
        sync_folder(target.parent)
    except (OSError, MovedError, RefusedError) as error:
        raise UnusableError(f"The backup {target} cannot be written: {error}{folder.space(target)}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for one in damages:
        one["file"] = one["file"].replace(str(temporary), str(target))
    what = "" if service.arguments.without_database else ", with the database"
    service.done(
        f"Copied {counted(len(rows), 'agent')}{what}, to {target}.",
        directory=str(target),
        agents=len(rows),
        damages=damages,
    )
    if not service.as_json:
        say(len(rows), damages)
    return FAILED if damages else DONE


def _check(service: Service, target: Path) -> None:
    if not service.database.is_sqlite and not service.arguments.without_database:
        raise UnusableError(
            f"Database {service.database.url} is not copied: make its dump first (pg_dump), then copy the agents with"
            " --without-database; agents that the dump does not have are left out when both are restored"
        )
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UnusableError(f"{target} already exists and is not empty: name a new folder")
    if target.is_relative_to(service.folder.resolve()):
        raise ArgumentError("the backup must be outside of the data folder", "DIR", target)


def _copy_database(service: Service, target: Path) -> Rows:
    """Copy the database first, so that each agent in it has at least what it had accepted by then."""
    copy = None
    if not service.arguments.without_database:
        service.database.copy(target / folder.DATABASE)
        copy = Database.open(target / folder.DATABASE, migrate=False)
    try:
        known = service.agents if copy is None else AgentRows(copy)
        kept = []
        for owner, row in known.all():
            source, path = service.folder / folder.AGENTS / row.id, target / folder.AGENTS / row.id
            if copy_agent(source, path) or not _is_removed(service, row):
                kept.append((owner, row))
            elif copy is not None:
                known.remove(row.id)
    finally:
        if copy is not None:
            copy.close()
    for one in sorted((service.folder / PROGRAMS).glob(f"[!.]*/{compiled.FILE}")):
        copied = target / PROGRAMS / one.parent.name
        try:
            link_tree(one.parent, copied)
        except FileNotFoundError:  # no agent used it, and the server has removed it: it can be built again
            shutil.rmtree(copied, ignore_errors=True)
    for _, row in kept:
        if (program := used_by(service.folder / folder.AGENTS / row.id)) is not None:
            use(target / PROGRAMS / program, target / folder.AGENTS / row.id)
    for name in _FILES:
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(service.folder / name, target / name)
            (target / name).chmod(0o600)
    return kept


def _is_removed(service: Service, row: Agent) -> bool:
    now: Any = service.agents.by_id(row.id)
    return now is None or now.status == REMOVING
