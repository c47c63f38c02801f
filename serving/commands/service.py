"""``axonrl service``: manage accounts, tokens and agents of a service, with or without a running server."""

from __future__ import annotations

import argparse
import contextlib
import getpass
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ...core.errors import ArgumentError
from ..accounts import (
    Database,
    RefusedError,
    UnusableError,
    agents,
    audit,
    data_folder,
    folder,
    open_service,
    passwords,
    schema,
    tokens,
)
from ..accounts import accounts as users
from ..accounts.token_store import to_json as token_json
from ..hosting.programs import PROGRAMS, nbytes_for
from .backup import backup
from .context import DONE, FAILED, USAGE, Service
from .export_policy import export_policy
from .import_run import import_run
from .output import print_done, print_rows
from .verify import verify

_CREATES: Final = ("add-user", "migrate")
"""Commands that create the data folder."""


def carry_out(arguments: argparse.Namespace) -> int:
    """Carry out a command of ``axonrl service``.

    Returns:
        The exit code: 0; 1 for a refusal; 2 for invalid arguments, or an unusable folder or database.
    """
    try:
        with folder.named(arguments.data.expanduser()):
            if arguments.service_command == "migrate":
                return _migrate(arguments)
            with _opened(arguments) as database:
                return COMMANDS[arguments.service_command](Service(arguments, database))
    except (RefusedError, ArgumentError, UnusableError) as error:
        if arguments.debug:
            traceback.print_exception(error)
        print(f"axonrl: error: {error}", file=sys.stderr)
        return FAILED if isinstance(error, RefusedError) else USAGE


@contextlib.contextmanager
def _opened(arguments: argparse.Namespace) -> Iterator[Database]:
    path: Path = arguments.data.expanduser()
    if arguments.service_command not in _CREATES and not path.is_dir():
        raise UnusableError(
            f"Data folder {path} does not exist. Name it with --data, or create it with: axonrl service add-user NAME"
        )
    database = open_service(path, arguments.database)
    try:
        yield database
    finally:
        database.close()


def _migrate(arguments: argparse.Namespace) -> int:
    path = folder.prepare(arguments.data)
    with folder.holding(path, "axonrl service migrate", data_folder.described(path, arguments.database)):
        database = open_service(path, arguments.database, migrate=True, serving=True)
        database.close()
    version = schema.head()
    print_done(f"The database has schema {version}.", {"schema": version}, as_json=arguments.json)
    return DONE


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
    what = f" with {len(removed)} agents" if removed else ""
    when = " The running server removes the agents' files within 5 seconds." if removed and later else ""
    return service.done(f"Removed {name}{what}.{when}", name=name, agents=len(removed))


def _list_users(service: Service) -> int:
    rows = []
    for user in service.accounts.users():
        usage = service.agents.usage(user.id)
        paths = (service.folder / folder.AGENTS / one for one in service.agents.ids(user.id))
        usage["bytes"] += nbytes_for(paths, service.folder / PROGRAMS)
        rows.append({**users.to_json(user), "disabled": user.disabled_at is not None, "usage": usage})
    columns = ("name", "role", "disabled", "created_at", "usage", "quotas")
    print_rows(rows, columns, as_json=service.as_json)
    return DONE


def _set_quota(service: Service) -> int:
    name, given = service.arguments.user, service.arguments.quotas
    quotas = service.accounts.set_quota(name, dict(given), by=service.by)
    shown = ", ".join(f"{key}={value}" for key, value in quotas.items())
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
    columns = ("id", "user", "name", "scopes", "agents", "last_four", "expires_at", "last_used", "revoked_at")
    print_rows(rows, columns, as_json=service.as_json)
    return DONE


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
    columns = ("user", "name", "model", "status", "is_active", "created_at", "last_active", "bytes")
    print_rows(rows, columns, as_json=service.as_json)
    return DONE


def _agent_json(owner: str, row: Any) -> dict[str, Any]:
    names = ("id", "name", "model", "description", "status", "status_detail", "is_active", "learning", "bytes")
    times = {name: getattr(row, name) for name in ("created_at", "last_active")}
    shown = {name: None if time is None else time.isoformat() for name, time in times.items()}
    return {"user": owner, **{name: getattr(row, name) for name in names}, **shown}


def _remove_agent(service: Service) -> int:
    path = service.arguments.agent
    user, name = agents.split(path)
    row = service.agents.by_name(service.accounts.user(user).id, name)
    if row is None or not service.agents.mark_removed(row.id, by=service.by):
        raise RefusedError("not_found", f"There is no agent {path}")
    if _remove_marked(service, [row.id]):
        return service.done(f"Removed {path}.", removed=path)
    return service.done(f"Removed {path}; the running server removes its files within 5 seconds.", removed=path)


def _remove_marked(service: Service, ids: list[str]) -> bool:
    """Remove folders and rows of marked agents; False if a running server does so itself."""
    with contextlib.ExitStack() as stack:
        try:
            what, database = f"axonrl service {service.arguments.service_command}", service.arguments.database
            described = data_folder.described(service.folder, database)
            stack.enter_context(folder.holding(service.folder, what, described))
        except UnusableError:
            return False
        for agent_id in ids:
            folder.remove_agent(service.folder, agent_id)
            service.agents.remove(agent_id)
    return True


# -- audit ------------------------------------------------------------------------------------------------------------


def _audit(service: Service) -> int:
    rows = [audit.to_json(entry) for entry in reversed(service.audit.entries(service.arguments.last))]
    columns = ("time", "who", "address", "what", "target", "outcome", "request_id", "detail")
    print_rows(rows, columns, as_json=service.as_json)
    return DONE


def _password(arguments: argparse.Namespace) -> str:
    """The password, from standard input, or from the terminal, which asks for it twice."""
    if arguments.password_stdin:
        line = sys.stdin.readline(passwords.LONGEST + 2)
        return line.removesuffix("\n").removesuffix("\r")
    if not sys.stdin.isatty():
        raise ArgumentError("there is no terminal to ask for a password: use --password-stdin", "--password-stdin")
    password = getpass.getpass(f"Password for {arguments.user}: ")
    if getpass.getpass("The same again: ") != password:
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
    "audit": _audit,
    "import-run": import_run,
    "export-policy": export_policy,
    "backup": backup,
    "verify": verify,
}
"""Function of each command."""
