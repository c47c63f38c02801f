"""The parser of ``axonrl service``, the accounts and agents of an HTTP service.

Help loads only this module; the commands are implemented in serving/commands/, whose packages come with the extra
``serving``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..console import USAGE, say
from .arguments import DEBUG, JSON, Command, Declared, argument, group, positive

DATA: Final = "AXONRL_DATA"
DATABASE: Final = "AXONRL_DATABASE"
NEEDED: Final = "This command needs more packages: pip install 'axonrl[serving]'"

_EXAMPLES: Final = """\
examples:
  axonrl service add-user alice
  axonrl service create-token alice --name game --scopes act --agents cart --expires 30d
  axonrl service list-agents --json
A running server notices changes within 5 seconds.
"""
_SERVE_EXAMPLES: Final = """\
examples:
  axonrl service add-user alice
  axonrl serve
  axonrl serve --host 0.0.0.0 --port 443 --tls-cert cert.pem --tls-key key.pem
When it is ready, the first line of standard output is its address. Logs go to standard error.
"""
_MODULE: Final = ".services"
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _duration(text: str) -> int:
    found = re.fullmatch(r"(\d{1,9})([smhd])", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"must be a number with a unit: 90d, 12h, 30m or 45s; got {text!r}")
    return int(found[1]) * _SECONDS[found[2]]


def _quota(text: str) -> tuple[str, int | None]:
    key, _, value = text.partition("=")
    if value == "default":
        return key, None
    try:
        return key, int(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be KEY=INTEGER or KEY=default, got {text!r}") from None


def _data(parser: Any) -> None:
    """``--data`` and ``--database``, which all commands of a service take."""
    group = parser.add_argument_group("data of the service")
    about = f"the data folder; default: {DATA}, or ./axonrl-data"
    folder = Path(os.environ.get(DATA) or "axonrl-data")
    group.add_argument("--data", type=Path, metavar="DIR", default=folder, help=about)
    about = f"postgresql://USER@HOST/NAME; default: {DATABASE}, or service.db in the data folder"
    group.add_argument("--database", metavar="URL", default=os.environ.get(DATABASE) or None, help=about)


_SERVE: Final = (
    *(_data, DEBUG),
    group(
        "where it listens",
        argument("--host", metavar="HOST", help="address to listen on; default: 127.0.0.1; others need TLS or a proxy"),
        argument("--port", type=int, metavar="PORT", help="port to listen on; default: 8000; 0: a free one"),
        argument("--tls-cert", metavar="FILE", help="the TLS certificate, followed by its intermediate certificates"),
        argument("--tls-key", metavar="FILE", help="the certificate's private key"),
        argument(
            "--behind-proxy",
            metavar="CIDR",
            action="append",
            help="address of a proxy that terminates TLS and whose X-Forwarded-For is trusted; repeatable",
        ),
    ),
    argument(
        "--shared",
        action="store_true",
        help="share the data folder and the PostgreSQL database with other servers; each agent is on one at a time",
    ),
    argument("--workers", type=positive, metavar="N", help="number of worker processes; default: processors minus one"),
    argument(
        "--durability",
        choices=("disk", "process"),
        default="disk",
        help="acknowledge a step once it is on disk (default), or once it is handed to the operating system",
    ),
    argument("--config", type=Path, metavar="FILE", help="the configuration, a YAML file"),
    argument("--set", metavar="PATH=VALUE", action="append", help="set one value of the configuration; repeatable"),
    argument("--migrate", action="store_true", help="bring an older PostgreSQL database up to date"),
    argument("--grace", type=float, metavar="SECONDS", help="time to save all agents after a signal; default: 30"),
)
_ACCOUNT: Final = argument("user", metavar="NAME", help="the account")
_USER: Final = argument("user", metavar="USER", help="the account")
_ANY_USER: Final = argument("user", metavar="USER", nargs="?", help="an account; default: all accounts")
_AGENT: Final = argument("agent", metavar="USER/NAME", help="the agent")
_YES: Final = argument("--yes", action="store_true", required=True, help="confirm; this cannot be undone")
_PASSWORD: Final = argument(
    "--password-stdin", action="store_true", help="read the password from the first line of standard input"
)
_QUOTAS: Final = argument(
    "quotas",
    metavar="KEY=VALUE",
    nargs="+",
    type=_quota,
    help="agents=200, bytes=4294967296, ...; 0: no limit; KEY=default: the service's default",
)
_TOKEN: Final = (
    _USER,
    argument("--name", required=True, metavar="N", help="a text that identifies the token in lists"),
    argument(
        "--scopes", type=_names, metavar="A,B", help="read, act, learn, manage, metrics, admin; default: the first four"
    ),
    argument("--agents", type=_names, metavar="A,B", help="the agents that the token is for; default: all"),
    argument(
        "--expires",
        type=_duration,
        metavar="TIME",
        help="the token's lifetime: 90d, 12h, 30m; default: 90d, at most 365d",
    ),
)
_IMPORT: Final = (
    argument("run", metavar="DIR", type=Path, help="the run folder, trained with one environment"),
    argument("--user", required=True, metavar="U", help="the account that will own the agent"),
    argument("--name", required=True, metavar="N", help="the agent's name"),
    argument("--description", metavar="TEXT", help="the agent's description; default: imported from RUN"),
    *(
        argument(option, type=positive, metavar="N", help="as in train(); default: as recorded by the run")
        for option in ("--first-update", "--update-frequency")
    ),
)
_BACKUP: Final = (
    argument("directory", metavar="DIR", type=Path, help="a new folder, which --data accepts"),
    argument(
        "--without-database",
        action="store_true",
        help="omit the database: with PostgreSQL, dump it first (pg_dump)",
    ),
)
_EXPORT: Final = argument("directory", metavar="DIR", type=Path, help="a new folder, or an export, which is replaced")
_ADMIN: Final = argument("--admin", action="store_true", help="make the account an administrator")
_LAST: Final = argument("--last", type=positive, metavar="N", default=100, help="number of entries; default: 100")
_REVOKED: Final = argument("token", metavar="ID", help="the token's id, from list-tokens")
SERVICE: Final[Mapping[str, tuple[str, Sequence[Declared]]]] = {
    "add-user": ("create an account; asks for its password twice", (_ACCOUNT, _ADMIN, _PASSWORD)),
    "set-password": ("change an account's password, and end its logins", (_ACCOUNT, _PASSWORD)),
    "disable-user": ("refuse an account's logins, and revoke its tokens", (_ACCOUNT,)),
    "enable-user": ("allow an account's logins again", (_ACCOUNT,)),
    "remove-user": ("remove an account with its tokens and agents", (_ACCOUNT, _YES)),
    "list-users": ("list accounts", ()),
    "set-quota": ("change an account's quotas", (_USER, _QUOTAS)),
    "create-token": ("create a token; it is printed once", _TOKEN),
    "list-tokens": ("list the tokens of all users, or of one", (_ANY_USER,)),
    "revoke-token": ("revoke a token", (_REVOKED,)),
    "list-agents": ("list the agents of all users, or of one", (_ANY_USER,)),
    "remove-agent": ("remove an agent and everything it learned", (_AGENT, _YES)),
    "migrate": ("bring the database of an older version up to date", ()),
    "audit": ("show the audit log", (_LAST,)),
    "import-run": ("import a run folder as an agent that continues to act and learn", _IMPORT),
    "export-policy": (
        "export an agent's policy, which acts without a service and without TensorFlow",
        (_AGENT, _EXPORT),
    ),
    "backup": ("copy database and agents, even while a server runs, and verify the copy", _BACKUP),
    "verify": ("read every checkpoint and journal, and list damaged ones", ()),
}
"""Commands of ``axonrl service``: what each does, and its own arguments."""


def add_commands(commands: Any) -> dict[str, argparse.ArgumentParser]:
    """Add ``axonrl service`` and ``serve`` to the result of ``add_subparsers``; returns the parsers of all commands."""
    service = Command("service", "manage the accounts and agents of an HTTP service", (), _EXAMPLES)
    parser = service.parser(commands, _MODULE)
    about = "one of the commands below"
    inner = parser.add_subparsers(
        dest="service_command", required=True, metavar="COMMAND", title="commands", help=about
    )
    found = {"service": parser}
    for name, (about, own) in SERVICE.items():
        found[f"service {name}"] = Command(name, about, (_data, JSON, DEBUG, *own)).parser(inner, _MODULE)
    serve = Command("serve", "host agents for environments that connect over HTTP", _SERVE, _SERVE_EXAMPLES)
    return {**found, "serve": serve.parser(commands, _MODULE)}


def service(arguments: argparse.Namespace) -> int:
    """Manage accounts and agents; refused if the packages of the service are missing."""
    return _carried_out("service", arguments)


def serve(arguments: argparse.Namespace) -> int:
    """Host agents; refused where the packages of a service are missing."""
    return _carried_out("serve", arguments)


def _carried_out(command: str, arguments: argparse.Namespace) -> int:
    try:
        module = importlib.import_module(f"....serving.commands.{command}", __name__)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("axonrl"):
            raise
        say(f"error: {NEEDED} ({error.name} is missing)")
        return USAGE
    status: int = module.carry_out(arguments)
    return status
