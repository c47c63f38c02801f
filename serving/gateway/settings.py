"""The configuration: one YAML file, and `--set`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ...core import yaml_text
from ...core.checks import nearest
from ...core.yaml_text import Keys, Parsed, Place, dotted_key
from ..accounts.grants import Lifetimes
from ..accounts.names import MAX_DESCRIPTION, QUOTAS
from ..accounts.tokens import MAX_DAYS
from ..client.address import is_loopback

_MIB = 2**20
_SUBJECT = "a configuration"
_ORIGIN = re.compile(r"(?!http://.*:80$|https://.*:443$)[a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:\d+)?")


class SettingsError(ValueError):
    """The configuration is invalid; the message has a line for each fault.

    Args:
        message: file, line, key, and what is wrong.
        key: the first invalid key.
    """

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.key = key


def _integer_if_whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _origin(value: str) -> str:
    """An origin as browsers send it, which is compared with theirs."""
    if not _ORIGIN.fullmatch(value):
        what = "an origin like 'https://game.example.org': in lower case, without path, wildcard or default port"
        raise ValueError(f"must be {what}, got {value!r}")
    return value


def _network(value: str) -> str:
    ipaddress.ip_network(value)
    return value


Count = Annotated[int, BeforeValidator(_integer_if_whole), Field(ge=0)]
"""0 switches a limit off."""
Seconds = Annotated[float, Field(gt=0)]
Network = Annotated[str, AfterValidator(_network)]


class Section(BaseModel):
    """A mapping: no unknown keys, no conversion of types, immutable."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


class Listen(Section):
    """Where the service listens; the options of ``axonrl serve`` set these."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """Port to listen on; 0 picks a free one."""
    tls_cert: str | None = None
    """File with the TLS certificate, followed by its intermediate certificates."""
    tls_key: str | None = None
    """File of the certificate's private key."""
    behind_proxy: list[Network] = Field(default_factory=list)
    """Addresses and networks of proxies whose X-Forwarded-For is trusted."""
    grace: Seconds = 30.0
    """Seconds from SIGTERM to the end of the service: half for pending requests, half for saving agents."""


class Http(Section):
    """The HTTP server."""

    docs: bool = False
    """Serve a page about the interface at `/api/v1/docs`, which loads nothing from elsewhere."""
    allowed_origins: list[Annotated[str, AfterValidator(_origin)]] = Field(default_factory=list)
    """Origins of web pages that may call the interface, such as ``https://game.example.org``."""
    header_seconds: Seconds = 10.0
    """Time for a request's headers to arrive."""
    body_seconds: Seconds = 30.0
    """Time for a body to arrive, and for the client to read an answer; large ones get more."""
    idle_seconds: Seconds = 60.0
    """Time after which a connection without a request is closed."""
    max_connections: Count = 1000
    """Maximum of concurrent connections; 0: no limit."""
    connections_per_address: Count = 100
    """Maximum of concurrent connections from an address (IPv6: a /64); 0: no limit. `behind_proxy` is exempt."""


class Limits(Section):
    """Limits of requests; 0 switches one off."""

    url_bytes: Count = 4096
    """Size of a request's path and query."""
    header_bytes: Count = 16384
    """Size of a request's headers together."""
    body_bytes: Count = _MIB
    """Size of the body of most requests."""
    batch_bytes: Count = 8 * _MIB
    """Size of a body of acts or steps."""
    state_bytes: Count = 256 * _MIB
    """Size of an uploaded agent state."""
    json_depth: Count = 32
    """Nesting depth of JSON; acts, steps and states have the depth of the agent's spaces."""
    description_characters: Count = MAX_DESCRIPTION
    """Length of an agent's description."""
    agents: Count = QUOTAS["agents"]
    """Number of an account's agents."""
    bytes: Count = QUOTAS["bytes"]
    """Disk space of an account's agents, including the compiled programs that they use."""
    requests_per_minute: Count = QUOTAS["requests_per_minute"]
    """Requests of an account; up to a sixth of them in one burst."""
    steps_per_second: Count = QUOTAS["steps_per_second"]
    """Steps of an agent."""
    changes_per_minute: Count = QUOTAS["changes_per_minute"]
    """Changes to an account's agents, states, tokens and password in any minute."""
    creations_per_minute: Count = QUOTAS["creations_per_minute"]
    """Attempts of an account to create an agent in any minute."""
    transfers_per_minute: Count = QUOTAS["transfers_per_minute"]
    """Uploads and downloads of an agent's state in any minute."""


class Agents(Section):
    """Agents in the workers."""

    idle_seconds: Seconds = 900.0
    """An agent without requests for this long is unloaded; the next request loads it again."""
    memory_share: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of the machine's memory for all workers; above it, the least recently used agents are unloaded."""
    checkpoint_steps: Annotated[int, BeforeValidator(_integer_if_whole), Field(ge=1)] = 10_000
    """Steps after which a checkpoint is written."""
    checkpoint_seconds: Seconds = 60.0
    """Time after which a checkpoint is written if anything has changed."""
    hung_seconds: Annotated[float, Field(ge=3)] = 60.0
    """A worker that has requests to answer and sends nothing for this long is killed and restarted."""
    lease_seconds: Seconds = 10.0
    """With --shared: time after which the agents of a dead server are free to be taken over."""
    program_seconds: Seconds = 3600.0
    """A compiled program that no agent uses is removed after this long; the next agent of its kind rebuilds it."""
    program_bytes: Annotated[int, BeforeValidator(_integer_if_whole), Field(ge=0)] = 256 * _MIB
    """Size of all programs that no agent uses; above it, those unused for the longest time are removed."""


class Tokens(Section):
    """How long tokens are valid."""

    login_idle_hours: Seconds = Lifetimes.login_idle_hours
    """A login that is unused for this long ends."""
    login_days: Seconds = Lifetimes.login_days
    """A login ends after this long in any case."""
    web_idle_minutes: Seconds = Lifetimes.web_idle_minutes
    """A login on the web page that is unused for this long ends."""
    web_hours: Seconds = Lifetimes.web_hours
    """A login on the web page ends after this long in any case."""
    default_days: Annotated[float, Field(gt=0, le=MAX_DAYS)] = Lifetimes.default_days
    """Lifetime of a token that is created without an explicit one."""


class Metrics(Section):
    """Metrics."""

    port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """Loopback port that serves `/metrics` without a token; default: none."""


class Log(Section):
    """Logs, on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level of logged messages."""


class Settings(Section):
    """The whole configuration."""

    listen: Listen = Field(default_factory=Listen)
    http: Http = Field(default_factory=Http)
    limits: Limits = Field(default_factory=Limits)
    agents: Agents = Field(default_factory=Agents)
    tokens: Tokens = Field(default_factory=Tokens)
    metrics: Metrics = Field(default_factory=Metrics)
    log: Log = Field(default_factory=Log)

    def quotas(self) -> dict[str, int]:
        """Default quotas of accounts, for ``Accounts``."""
        return {name: getattr(self.limits, name) for name in QUOTAS}


def load(file: Path | None = None, sets: Mapping[str, str] | None = None) -> Settings:
    """Load the settings of a file, overridden by ``--set path=value``.

    Args:
        file: YAML; None: the defaults.
        sets: dotted paths and values, as YAML.

    Raises:
        SettingsError: lists all faults, with file, line and key.
    """
    source = "" if file is None else str(file)
    try:
        parsed = Parsed({}, {}, []) if file is None else yaml_text.parse_file(file, _SUBJECT)
    except yaml_text.UnreadableError as error:
        parsed = Parsed({}, {}, [error.fault])
    _refuse([(Place(source, one.line), one.key, one.message) for one in parsed.faults])
    values, places = {} if parsed.value is None else parsed.value, parsed.places
    for path, text in (sets or {}).items():
        _override(values, places, path, text)
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        _refuse([(_place(places, source, one["loc"]), dotted_key(one["loc"]), _what(one)) for one in faults])
    listen = settings.listen
    if (listen.tls_cert is None) != (listen.tls_key is None):
        raise SettingsError("tls_cert and tls_key need each other: give both or none", "listen.tls_cert")
    if not is_loopback(listen.host) and listen.tls_cert is None and not listen.behind_proxy:
        what = "passwords would be sent unencrypted: give a TLS certificate and key, or the proxy that has them"
        _refuse([(_place(places, source, ("listen", "host")), "listen.host", f"{listen.host!r}: {what}")])
    return settings


def _override(values: Any, places: dict[Keys, Place], path: str, text: str) -> None:
    """Set a value; SettingsError if the path leads through something that is not a mapping, or it is not YAML."""
    keys, place = tuple(path.split(".")), Place(f"--set {path}={text}")
    parsed = yaml_text.parse(text, place.source, _SUBJECT, keys)
    _refuse([(place, one.key, one.message) for one in parsed.faults])
    for length, key in enumerate(keys, start=1):
        if not isinstance(values, dict):
            raise SettingsError(f"{place.source}: {keys[length - 2]} has no keys to set", path)
        if length == len(keys):
            values[key] = parsed.value
        values = values.setdefault(key, {})
        places.setdefault(keys[:length], place)
    places[keys] = place


def _refuse(faults: Sequence[tuple[Place, str, str]]) -> None:
    """Raise all faults, each with its place and its key."""
    if faults:
        where = (place.source if place.line is None else f"{place.source}:{place.line}" for place, _, _ in faults)
        lines = [": ".join(filter(None, (at, key, what))) for at, (_, key, what) in zip(where, faults, strict=True)]
        raise SettingsError("\n".join(lines), faults[0][1])


def _place(places: Mapping[Keys, Place], source: str, keys: Keys) -> Place:
    """Place of a value, or of the mapping where it is missing."""
    while keys and keys not in places:
        keys = keys[:-1]
    return places[keys] if keys else Place(source)


def _what(error: Any) -> str:
    keys, kind, message = error["loc"], error["type"], str(error["msg"])
    if kind == "extra_forbidden":
        near = nearest(str(keys[-1]), _section(keys[:-1]).model_fields)
        return "unknown key" + (f"; did you mean {near!r}?" if near else "")
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    what = message.removeprefix("Input should be ").replace("greater than or equal to", "at least")
    what = what.replace("less than or equal to", "at most")
    words = {"a valid integer": "an integer", "a valid string": "text", "a valid boolean": "true or false"}
    if kind == "model_type":
        words[what] = f"a mapping with keys such as {next(iter(_section(keys).model_fields))}"
    return f"must be {words.get(what, what)}, got {error['input']!r:.80}"


def _section(keys: Keys) -> Any:
    """The section with these keys; the whole configuration without any."""
    return Settings.model_fields[str(keys[0])].annotation if keys else Settings
