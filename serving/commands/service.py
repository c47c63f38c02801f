"""``axonrl service``: manage accounts, tokens and agents of a service, with or without a running server."""

from __future__ import annotations

import argparse
import contextlib
import getpass
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ...core.checks import counted
from ...core.errors import ArgumentError
from ..accounts import (
    RefusedError,
    UnusableError,
    audit,
    data_folder,
    folder,
    open_service,
    passwords,
    schema,
    tokens,
)
from ..accounts import accounts as users
from ..accounts.tables import iso_times
from ..accounts.tokens import to_json as token_json
from ..hosting.agent_store import remove_agent
from ..hosting.programs import PROGRAMS, nbytes_for
from .backup import backup
from .context import Service, exit_code
from .export_policy import export_policy
from .import_run import import_run
from .verify import verify


def carry_out(arguments: argparse.Namespace) -> int:
    """Carry out a command of ``axonrl service``; returns the exit code."""
    return exit_code(arguments, _carried_out)


def _carried_out(arguments: argparse.Namespace) -> int:
    command: str = arguments.service_command
    given: Path = arguments.data.expanduser()
    with folder.named(given), contextlib.ExitStack() as stack:
        if command == "migrate":
            stack.enter_context(_hold_folder(folder.prepare(given), arguments))
        elif command != "add-user" and not folder.is_known(given):
            what = "has no service" if given.is_dir() else "does not exist"
            raise UnusableError(
                f"Data folder {given} {what}. Name it with --data, or create it with: axonrl service add-user NAME"
            )
        migrates = command == "migrate"
        database = open_service(given, arguments.database, migrate=migrates or None, serving=migrates)
        stack.enter_context(contextlib.closing(database))
        return COMMANDS[command](Service(arguments, database))


def _hold_folder(path: Path, arguments: argparse.Namespace) -> contextlib.AbstractContextManager[None]:
    """Context in which this process is the only host of a folder's agents."""
    address = data_folder.database_address(path, arguments.database)
    return folder.holding(path, f"axonrl service {arguments.service_command}", address)


def _migrate(service: Service) -> int:
    version = schema.head()
    return service.done(f"The database has schema {version}.", schema=version)


# -- users ------------------------------------------------------------------------------------------------------------


def _add_user(service: Service) -> int:
    name, admin = service.arguments.user, service.arguments.admin
    user = service.accounts.add_user(name, _password(service.arguments), admin=admin, by=service.by)
    return service.done(f"Added {'administrator' if admin else 'user'} {name}.", **users.to_json(user))


def _set_password(service: Service) -> int:
    name = service.accounts.user(service.arguments.user).name
    service.accounts.set_password(name, _password(service.arguments), by=service.by)
    return service.done(f"Changed the password of {name}; its logins have ended.", name=name)


def _disable_user(service: Service) -> int:
    name = service.arguments.user
    service.accounts.disable_user(name, by=service.by)
    return service.done(f"Disabled {name}; its tokens are revoked.", **users.to_json(service.accounts.user(name)))


def _enable_user(service: Service) -> int:
    name = service.arguments.user
    service.accounts.enable_user(name, by=service.by)
    return service.done(f"Enabled {name}.", **users.to_json(service.accounts.user(name)))


def _remove_user(service: Service) -> int:
    name = service.arguments.user
    removed = service.accounts.remove_user(name, by=service.by)
    later = not _remove_marked(service, removed)
    what = f" with {counted(len(removed), 'agent')}" if removed else ""
    when = " The running server removes the agents' files within 5 seconds." if removed and later else ""
    return service.done(f"Removed {name}{what}.{when}", name=name, agents=len(removed))


def _list_users(service: Service) -> int:
    rows = []
    for user in service.accounts.users():
        usage = service.agents.usage(user.id)
        paths = (service.folder / folder.AGENTS / one for one in service.agents.ids(user.id))
        usage["bytes"] += nbytes_for(paths, service.folder / PROGRAMS)
        rows.append({**users.to_json(user), "disabled": user.disabled_at is not None, "usage": usage})
    return service.rows(rows, "name", "role", "disabled", "created_at", "usage", "quotas")


def _set_quota(service: Service) -> int:
    name, given = service.arguments.user, service.arguments.quotas
    quotas = service.accounts.set_quota(name, dict(given), by=service.by)
    own = service.accounts.user(name).quotas  # the service's defaults are in its configuration
    shown = ", ".join([*(f"{key}={value}" for key, value in own.items()), "else the service's"])
    return service.done(f"Quotas of {name}: {shown}", name=name, quotas=quotas)


# -- tokens -----------------------------------------------------------------------------------------------------------


def _create_token(service: Service) -> int:
    given = service.arguments
    text, row = service.accounts.create_token(
        given.user,
        given.name,
        given.scopes,
        given.agents,
        given.expires,
        by=service.by,
        by_administrator=True,
    )
    return service.done(text, token=text, **token_json(row))


def _list_tokens(service: Service) -> int:
    rows = [token_json(token) for token in service.accounts.tokens(service.arguments.user)]
    return service.rows(
        rows, "id", "user", "name", "scopes", "agents", "last_four", "expires_at", "last_used", "revoked_at"
    )


def _revoke_token(service: Service) -> int:
    token_id = service.arguments.token
    if tokens.is_token(token_id):
        raise ArgumentError("revoke-token takes the id of a token, from list-tokens, not the token itself", "token")
    service.accounts.revoke_token(token_id, by=service.by)
    return service.done(f"Revoked token {token_id}.", id=token_id)


# -- agents -----------------------------------------------------------------------------------------------------------


def _list_agents(service: Service) -> int:
    only = service.arguments.user
    if only is not None:
        service.accounts.user(only)
    rows = [_agent_json(owner, row) for owner, row in service.agents.all() if only in (None, owner)]
    return service.rows(rows, "user", "name", "model", "status", "is_active", "created_at", "last_active", "bytes")


def _agent_json(owner: str, row: Any) -> dict[str, Any]:
    names = ("id", "name", "model", "description", "status", "status_detail", "is_active", "learning", "bytes")
    return {
        "user": owner,
        **{name: getattr(row, name) for name in names},
        **iso_times(row, "created_at", "last_active"),
    }


def _remove_agent(service: Service) -> int:
    path = service.arguments.agent
    row = service.agent(path)
    if not service.agents.mark_removed(row.id, by=service.by):
        raise RefusedError("not_found", f"There is no agent {path}")
    if _remove_marked(service, [row.id]):
        return service.done(f"Removed {path}.", removed=path)
    return service.done(f"Removed {path}; the running server removes its files within 5 seconds.", removed=path)


def _remove_marked(service: Service, ids: list[str]) -> bool:
    """Remove folders and rows of marked agents; False if a running server does so itself."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(_hold_folder(service.folder, service.arguments))
        except UnusableError:
            return False
        for agent_id in ids:
            remove_agent(service.folder / folder.AGENTS / agent_id)
            service.agents.remove(agent_id)
    return True


# -- audit ------------------------------------------------------------------------------------------------------------


def _audit(service: Service) -> int:
    rows = [audit.to_json(entry) for entry in reversed(service.audit.entries(service.arguments.last))]
    return service.rows(rows, "time", "who", "address", "what", "target", "outcome", "request_id", "detail")


def _password(arguments: argparse.Namespace) -> str:
    """The password, from standard input, or from the terminal, which asks for it twice."""
    if arguments.password_stdin:
        line = sys.stdin.readline(passwords.LONGEST + 2)
        return line.removesuffix("\n").removesuffix("\r")
    if not sys.stdin.isatty():
        raise ArgumentError("there is no terminal to ask for a password: use --password-stdin", "--password-stdin")
    password = getpass.getpass(f"Password for {arguments.user}: ")
    if getpass.getpass("Repeat the password: ") != password:
        raise ArgumentError("the two passwords differ; nothing has changed", "password")
    return password


COMMANDS: Final[Mapping[str, Callable[[Service], int]]] = {
    "add-user": _add_user,
    "set-password": _set_password,
    "disable-user": _disable_user,
    "enable-user": _enable_user,
    "remove-user": _remove_user,
    "list-users": _list_users,
    "set-quota": _set_quota,
    "create-token": _create_token,
    "list-tokens": _list_tokens,
    "revoke-token": _revoke_token,
    "list-agents": _list_agents,
    "remove-agent": _remove_agent,
    "migrate": _migrate,
    "audit": _audit,
    "import-run": import_run,
    "export-policy": export_policy,
    "backup": backup,
    "verify": verify,
}
"""Function of each command."""
