"""The parser of ``axonrl service``, the accounts and agents of an HTTP service.

Help loads nothing but this; what the commands do is in serving/commands/, whose packages the extra ``serving`` brings.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
from pathlib import Path
from typing import Any, Final

from ..console import USAGE, say
from .arguments import Command, debug_option, json_option, positive

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


def add_commands(commands: Any) -> dict[str, argparse.ArgumentParser]:
    """Add ``axonrl service`` and ``serve`` to what ``add_subparsers`` returned; returns the parsers of all commands."""
    service = Command("service", "manage the accounts and agents of an HTTP service", (), _EXAMPLES)
    parser = service.parser(commands, _MODULE)
    inner = parser.add_subparsers(dest="service_command", required=True, metavar="COMMAND", title="commands")

    def add(name: str, about: str) -> argparse.ArgumentParser:
        return Command(name, about, (data_options, json_option, debug_option)).parser(inner, _MODULE)

    _add_users(add)
    _add_tokens(add)
    about = "list agents, of all users or of one"
    add("list-agents", about).add_argument("user", metavar="USER", nargs="?", help="an account; default: all")
    remove = add("remove-agent", "remove an agent and all that it learned")
    remove.add_argument("agent", metavar="USER/NAME", help="the agent")
    _add_yes(remove)
    add("migrate", "bring the database of an older version up to date")
    audit = add("audit", "show who did what")
    audit.add_argument("--last", type=positive, metavar="N", default=100, help="how many entries; default: 100")
    _add_folders(add)
    about = "host agents for environments that ask over HTTP"
    serve = Command("serve", about, (data_options, debug_option), _SERVE_EXAMPLES, _add_serve)
    found = {"service": parser, **{f"service {name}": one for name, one in inner.choices.items()}}
    return {**found, "serve": serve.parser(commands, _MODULE)}


def _add_serve(serve: argparse.ArgumentParser) -> None:
    where = serve.add_argument_group("where it listens")
    where.add_argument("--host", metavar="HOST", help="default: 127.0.0.1; others need TLS or a proxy")
    where.add_argument("--port", type=int, metavar="PORT", help="default: 8000; 0: a free one")
    where.add_argument("--tls-cert", metavar="FILE", help="certificate, with those that signed it")
    where.add_argument("--tls-key", metavar="FILE", help="its key")
    about = "a proxy that speaks TLS, and whose X-Forwarded-For is believed; may be given again"
    where.add_argument("--behind-proxy", metavar="CIDR", action="append", help=about)
    about = "other servers use the same data folder and PostgreSQL database; each agent is in one of them at a time"
    serve.add_argument("--shared", action="store_true", help=about)
    serve.add_argument("--workers", type=positive, metavar="N", help="default: processors less one")
    about = "an answer to a step means that it is on the disk (default), or only outside of the process that has it"
    serve.add_argument("--durability", choices=("disk", "process"), default="disk", help=about)
    serve.add_argument("--config", type=Path, metavar="FILE", help="configuration, as YAML")
    about = "set one value of the configuration; may be given again"
    serve.add_argument("--set", metavar="PATH=VALUE", action="append", help=about)
    serve.add_argument("--migrate", action="store_true", help="bring an older PostgreSQL database up to date")
    serve.add_argument("--grace", type=float, metavar="SECONDS", help="to save everything after a signal; default: 30")


def data_options() -> argparse.ArgumentParser:
    """``--data`` and ``--database``, which all commands of a service take."""
    parser = argparse.ArgumentParser(add_help=False)
    group = parser.add_argument_group("where the service keeps its data")
    about = f"the data folder; default: {DATA}, or ./axonrl-data"
    folder = Path(os.environ.get(DATA) or "axonrl-data")
    group.add_argument("--data", type=Path, metavar="DIR", default=folder, help=about)
    about = f"postgresql://USER@HOST/NAME; default: {DATABASE}, or service.db in the data folder"
    group.add_argument("--database", metavar="URL", default=os.environ.get(DATABASE) or None, help=about)
    return parser


def _add_users(add: Any) -> None:
    for name, about in (
        ("add-user", "create an account; asks for its password twice"),
        ("set-password", "give an account another password, and end its logins"),
        ("disable-user", "refuse an account's logins, and revoke its tokens"),
        ("enable-user", "allow an account's logins again"),
        ("remove-user", "remove an account with its tokens and agents"),
    ):
        parser = add(name, about)
        parser.add_argument("user", metavar="NAME", help="the account")
        if name == "add-user":
            parser.add_argument("--admin", action="store_true", help="an administrator of the service")
        if name in ("add-user", "set-password"):
            _add_password_stdin(parser)
        if name == "remove-user":
            _add_yes(parser)
    add("list-users", "list accounts")
    quota = add("set-quota", "change what an account may have and do")
    quota.add_argument("user", metavar="USER", help="the account")
    about = "agents=200, bytes=4294967296, ...; 0 is no limit, and KEY=default the service's own"
    quota.add_argument("quotas", metavar="KEY=VALUE", nargs="+", type=_quota, help=about)


def _add_tokens(add: Any) -> None:
    create = add("create-token", "create a token; it is printed once")
    create.add_argument("user", metavar="USER", help="the account")
    create.add_argument("--name", required=True, metavar="N", help="what it is for")
    about = "read, act, learn, manage, metrics, admin; default: the first four"
    create.add_argument("--scopes", type=_names, metavar="A,B", help=about)
    create.add_argument("--agents", type=_names, metavar="A,B", help="the agents that it is for; default: all")
    about = "how long it is good for: 90d, 12h, 30m; default: 90d, at most 365d"
    create.add_argument("--expires", type=_duration, metavar="TIME", help=about)
    about = "list tokens, of all users or of one"
    add("list-tokens", about).add_argument("user", metavar="USER", nargs="?", help="an account; default: all")
    add("revoke-token", "revoke a token").add_argument("token", metavar="ID", help="its id, from list-tokens")


def _add_folders(add: Any) -> None:
    take = add("import-run", "make a run that axonrl trained an agent, which goes on acting and learning")
    take.add_argument("run", metavar="DIR", type=Path, help="the run folder, trained with one environment")
    take.add_argument("--user", required=True, metavar="U", help="whose agent it is to be")
    take.add_argument("--name", required=True, metavar="N", help="the agent's name")
    take.add_argument("--description", metavar="TEXT", help="what it is for; default: where it came from")
    for option in ("--first-update", "--update-frequency"):
        about = "as of train(); default: as the run recorded it"
        take.add_argument(option, type=positive, metavar="N", help=about)
    export = add("export-policy", "write an agent's policy, which acts without a service and without TensorFlow")
    export.add_argument("agent", metavar="USER/NAME", help="the agent")
    export.add_argument("directory", metavar="DIR", type=Path, help="a new folder, or an export, which is replaced")
    backup = add("backup", "copy database and agents, also while a server runs; then verify the copy")
    backup.add_argument("directory", metavar="DIR", type=Path, help="a new folder, to be used with --data")
    about = "leave the database out: of PostgreSQL, make its dump before (pg_dump)"
    backup.add_argument("--without-database", action="store_true", help=about)
    add("verify", "read every checkpoint and journal, and say which are damaged")


def _add_password_stdin(parser: argparse.ArgumentParser) -> None:
    about = "read the password from the first line of standard input"
    parser.add_argument("--password-stdin", action="store_true", help=about)


def _add_yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", required=True, help="do it; there is no way back")


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


def service(arguments: argparse.Namespace) -> int:
    """Manage accounts and agents; refused where the packages of a service are missing."""
    return _carried_out("service", arguments)


def serve(arguments: argparse.Namespace) -> int:
    """Host agents; refused likewise."""
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
