"""The Polyaxon server of a run: from an experiment file, an option or the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator

from ...core.yaml_text import show
from ..config.schema import ExperimentFile
from ..config.sections import Section
from ..errors import ExperimentError

KIND: Final = "polyaxon"
"""The tracker's name in the registry."""
HOST: Final = "POLYAXON_HOST"
"""The environment variable with the server's address."""
NO_OP: Final = "POLYAXON_NO_OP"
"""The environment variable that disables Polyaxon's client, and with it all tracking."""
IS_OFFLINE: Final = "POLYAXON_IS_OFFLINE"
"""The environment variable that disables Polyaxon servers: runs are then tracked in their folders and by other
trackers."""
_TRUE: Final = ("1", "true", "t", "y", "yes", "on")
"""Values of environment variables that Polyaxon treats as true, in lower case."""


def server_address(text: str) -> str:
    """Check the address of a server. An invalid one is not quoted, as it may contain a password.

    Raises:
        ValueError: it is not an address, or contains more than an address.
    """
    try:
        address = urlsplit(text)
        _ = address.port
    except ValueError:
        address = urlsplit("")
    if address.scheme not in ("http", "https") or not address.hostname:
        raise ValueError("must be an address that begins with http:// or https://")
    if "@" in address.netloc or address.query or address.fragment:
        raise ValueError("must be an address without user, password or query; set POLYAXON_AUTH_TOKEN for a token")
    return text.rstrip("/")


def project_name(text: str) -> str:
    """Check a project, ``OWNER/NAME`` or ``NAME``; Polyaxon's client accepts no other characters.

    Raises:
        ValueError: it is something else.
    """
    if not re.fullmatch(r"(?!.*--)[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)?", text):
        raise ValueError(f"must be OWNER/NAME or NAME, of letters, digits, '_' and single '-', got {show(text)}")
    return text


class PolyaxonSettings(Section):
    """The settings of a Polyaxon server in an experiment file."""

    host: Annotated[str, AfterValidator(server_address)] | None = None
    """The server's address, such as https://polyaxon.example.com."""
    project: Annotated[str, AfterValidator(project_name)] | None = None
    """The project that the run belongs to: OWNER/NAME, or NAME."""


def settings_of(experiment: ExperimentFile) -> PolyaxonSettings:
    """An experiment's settings; empty if its file has none."""
    return next((PolyaxonSettings(**one.kwargs) for one in experiment.tracker if one.kind == KIND), PolyaxonSettings())


def checked_option(option: str, check: Callable[[str], str], text: str) -> str:
    """The value of an option or an environment variable, checked by one of the functions above.

    Raises:
        ExperimentError: the value is invalid; the message begins with the option.
    """
    try:
        return check(text)
    except ValueError as error:
        raise ExperimentError(option, str(error)) from None


def resolved(settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Settings combined with the environment; None if no server is known, or servers are disabled.

    The experiment's host takes precedence over ``POLYAXON_HOST``; for a submitted run it is the other way round,
    because its experiment was written on another machine, where the server may have another address.

    Raises:
        ExperimentError: ``POLYAXON_HOST`` is invalid.
    """
    if is_offline():
        return None
    host, environment = settings.get("host"), os.environ.get(HOST)
    if environment and (submitted_run() or not host):
        host = checked_option(HOST, server_address, environment)
    return {**settings, "host": host} if host else None


def is_offline() -> bool:
    """Are Polyaxon servers disabled (``POLYAXON_IS_OFFLINE``)?"""
    return _is_true(IS_OFFLINE)


def tracking_is_off() -> bool:
    """Is all tracking disabled (``POLYAXON_NO_OP``)?"""
    return _is_true(NO_OP)


def submitted_run() -> tuple[str, str, str] | None:
    """Owner, project and uuid of the run that Polyaxon started this process for; None if it did not."""
    parts = os.environ.get("POLYAXON_RUN_INSTANCE", "").split(".")
    return (parts[0], parts[1], parts[3]) if len(parts) == 4 else None


def submitted_project() -> str | None:
    """The project of the submitted run, ``OWNER/NAME``."""
    run = submitted_run()
    return run and f"{run[0]}/{run[1]}"


def _is_true(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in _TRUE
