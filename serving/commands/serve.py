"""``axonrl serve``: run a service in this process, with workers beside it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import json
import logging
import os
import resource
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

from ...core.errors import ArgumentError
from .. import catalogue
from ..accounts import Accounts, AgentRows, Audit, Idempotency, Lifetimes, UnusableError, open_service
from ..accounts import folder as folders
from ..accounts.data_folder import database_address
from ..gateway.gateway import Gateway
from ..gateway.leases import LeasedPool
from ..gateway.server import serve
from ..gateway.settings import Listen, Settings, SettingsError, load
from ..hosting.programs import PROGRAMS, nbytes_for
from ..workers.pool import Pool, default_workers
from ..workers.settings import WorkerSettings
from .context import exit_code

DISK: Final = "disk"
_FILES: Final = 65_536
logger = logging.getLogger("axonrl.serving")


def carry_out(arguments: argparse.Namespace) -> int:
    """Serve until a signal arrives.

    Returns:
        128 plus the signal's number, after everything was saved; 1 if it failed; 2 for an unusable folder, database,
        port or configuration.
    """
    return exit_code(arguments, _carried_out, SettingsError)


def _carried_out(arguments: argparse.Namespace) -> int:
    _allow_many_files()
    settings = _settings(arguments)
    _check_shared(arguments)
    path = folders.prepare(arguments.data)
    about = "axonrl serve", database_address(path, arguments.database)
    with folders.named(path), folders.holding(path, *about, shared=arguments.shared):
        if full := folders.space(path):
            print(f"axonrl: warning: not ready until there is space{full}", file=sys.stderr)
        return _serve(arguments, settings, path)


def _check_shared(arguments: argparse.Namespace) -> None:
    """Check that several servers share a database, and force steps to the disk before acknowledging."""
    if not arguments.shared:
        return
    if not str(arguments.database or "").startswith("postgres"):
        raise UnusableError("--shared needs --database postgresql://...: SQLite is for one server")
    if arguments.durability != DISK:
        raise UnusableError("--shared needs --durability disk: another server continues from what is on the disk")


def _allow_many_files() -> None:
    """Raise the limit of open files, also for workers: an agent in memory has two, a connection one; 1,024 is usual."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, _FILES)) if hard > 0 else _FILES, hard))


def _serve(arguments: argparse.Namespace, settings: Settings, path: Path) -> int:
    database = open_service(path, arguments.database, migrate=arguments.migrate or None, serving=True)
    try:
        audit = Audit(database, path)
        lifetimes = Lifetimes(**settings.tokens.model_dump())
        accounts = Accounts(database, audit=audit, quotas=settings.quotas(), lifetimes=lifetimes)
        rows = AgentRows(database, audit=audit)
        workers = Pool(
            path,
            arguments.workers or default_workers(),
            _worker_settings(arguments, settings),
            settings.agents.hung_seconds,
            settings.agents.program_seconds,
            settings.agents.program_bytes,
        )
        pool = LeasedPool(workers, rows, settings.agents.lease_seconds) if arguments.shared else workers
        gateway = Gateway(
            settings=settings,
            accounts=accounts,
            rows=rows,
            pool=pool,
            catalogue=catalogue,
            audit=audit,
            idempotency=Idempotency(database),
            checks={"storage": lambda: _storage(path), "workers": pool.trouble},
            gauges=pool.gauges,
            program_bytes=lambda agents: nbytes_for((path / folders.AGENTS / one for one in agents), path / PROGRAMS),
            shared=arguments.shared,
        )
        return 128 + serve(gateway, during=_running(pool, settings.listen.grace / 2))
    finally:
        database.close()


@contextlib.asynccontextmanager
async def _running(pool: Pool | LeasedPool, seconds: float) -> AsyncIterator[None]:
    """Run the workers during the service, then save every agent.

    Args:
        pool: the workers.
        seconds: time for saving: half of the grace period. The other half is for requests in progress.
    """
    try:
        await pool.start()
        yield
    finally:
        await asyncio.shield(pool.stop(seconds))


def _settings(arguments: argparse.Namespace) -> Settings:
    """Settings from the configuration file, then ``--set``, then the named options."""
    given = {f"listen.{name}": getattr(arguments, name) for name in Listen.model_fields}
    own = {name: json.dumps(value) for name, value in given.items() if value is not None}  # a path may be no YAML
    return load(arguments.config, {**_sets(arguments.set), **own})


def _sets(given: list[str] | None) -> Mapping[str, str]:
    found = {}
    for one in given or []:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise ArgumentError(f"--set must be path=value, got {one!r}", "--set", one)
        found[name] = value
    return found


def _worker_settings(arguments: argparse.Namespace, settings: Settings) -> WorkerSettings:
    agents = settings.agents
    workers = arguments.workers or default_workers()
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return WorkerSettings(
        syncs=arguments.durability == DISK,
        idle_seconds=agents.idle_seconds,
        memory=int(physical * agents.memory_share / workers),
        checkpoint_steps=agents.checkpoint_steps,
        checkpoint_seconds=agents.checkpoint_seconds,
        log_level=settings.log.level,
    )


def _storage(path: Path) -> str:
    """Describe what is wrong with the disk; empty: nothing."""
    try:
        return "full" if folders.is_full(path) else ""
    except OSError as error:
        return f"{errno.errorcode.get(error.errno or 0, 'error')}"
