"""Tables of agents over HTTP, from the catalogue and the configuration."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..serving import catalogue
from ..serving.catalogue import hosted
from ..serving.gateway.settings import Settings
from ..serving.refusals import STATUS
from .tables import Table

_ORDER: Final = ("dqn", "rainbow", "ddpg", "ppo")
_NOISE: Final = {
    "epsilon": "the probability of a random action",
    "gaussian": (
        "the standard deviation of Gaussian noise, in units of half the action "
        "range"
    ),
    "drawn": "nothing: actions are drawn from the policy",
}
_MEANINGS: Final[Mapping[str, str]] = types.MappingProxyType(
    {
        "invalid_json": "the body is not valid JSON, or contains NaN",
        "invalid_request": "the request is not valid HTTP/1.1",
        "invalid_credentials": (
            "name or password is wrong, or the account is disabled; the answer "
            "does not say which"
        ),
        "missing_token": "the header `Authorization: Bearer TOKEN` is missing",
        "invalid_token": (
            "the token is unknown, or was revoked: log in again, or create a new "
            "token"
        ),
        "token_expired": (
            "the token has expired: log in again, or create a new token"
        ),
        "forbidden_scope": (
            "the token lacks the scope that this call requires: create one that "
            "has it"
        ),
        "quota_exceeded": (
            "the account has reached its limit of agents, bytes, tokens or logins: "
            "remove some, or raise a quota by `axonrl service set-quota`"
        ),
        "not_found": (
            "the agent, user or path does not exist, or belongs to somebody else"
        ),
        "method_not_allowed": "the path does not accept this method",
        "name_taken": "an agent or a user of this name already exists",
        "agent_inactive": "the agent was deactivated: call `activate()`",
        "agent_failed": (
            "a damaged record, or an update with non-finite values: see below"
        ),
        "learning_off": "learning of this agent is switched off",
        "body_too_large": (
            "the body exceeds a limit, or has more values than such a request can "
            "need: send less at once, or raise the limit"
        ),
        "unsupported_media_type": (
            "the body has another media type, or is compressed"
        ),
        "invalid_value": (
            "`errors` lists each invalid value, and what is wrong with it"
        ),
        "state_mismatch": "the state belongs to another model, or to other sizes",
        "unsafe_state": (
            "the upload is not a valid state: damaged, a pickle, or something else"
        ),
        "idempotency_key_reused": (
            "the key was sent before with another body: use a new key for each "
            "request"
        ),
        "rate_limited": (
            "too many requests, steps, changes, creations or logins, or too many "
            "bytes in bodies at once; `detail` names the limit and what helps; "
            "repeat after `Retry-After`"
        ),
        "internal": "a bug in axonrl: the log has its traceback under `request_id`",
        "agent_busy": (
            "1,000 requests wait for the agent, or more than 2 s of updates are "
            "due (above 0.1 s, a step waits for them); repeat later"
        ),
        "unavailable": (
            "a worker is restarting or took more than 10 s, or too many logins or "
            "bytes in bodies are under way; repeat with the same key"
        ),
        "database_unavailable": (
            "the database cannot be reached; recovery is automatic"
        ),
        "storage_full": (
            "the disk is full: agents still act, steps are refused until there is "
            "space"
        ),
    }
)


def hyperparameters() -> Table:
    """Documented names, their defaults, and what they become."""
    known = {
        one["model"]: {
            name: row
            for row in one["hyperparameters"]
            for name in (row["name"], *row["synonyms"])
        }
        for one in catalogue.model_descriptions()
    }
    names = dict.fromkeys(
        name for model in _ORDER for name in hosted.MODELS[model].documented
    )
    rows: list[tuple[str, ...]] = []
    for name in names:
        defaults = [
            _default(known[model][name]) if name in known[model] else ""
            for model in _ORDER
        ]
        becomes = {
            hosted.MODELS[model].documented.get(name) for model in _ORDER
        } - {None}
        rows.append(
            (
                f"`{name}`",
                *defaults,
                ", ".join(f"`{one}`" for one in sorted(map(str, becomes))),
            )
        )
    return ("name", *(f"`{model}`" for model in _ORDER), "in axonrl"), rows


def models() -> Table:
    """The models that are hosted."""
    rows: list[tuple[str, ...]] = []
    for one in catalogue.model_descriptions():
        noise = dict.fromkeys(_NOISE[kind] for kind in one["noise"].values())
        rows.append(
            (f"`{one['model']}`", ", ".join(one["actions"]), "; ".join(noise))
        )
    return ("model", "actions", "`noise` of `act`"), rows


def configuration() -> Table:
    """Every key of the configuration."""
    rows: list[tuple[str, ...]] = []
    for section, field in Settings.model_fields.items():
        model: Any = field.annotation
        for key, inner in model.model_fields.items():
            default = inner.get_default(call_default_factory=True)
            rows.append(
                (
                    f"`{section}.{key}`",
                    _value_cell(default),
                    (inner.description or "").replace("``", "`"),
                )
            )
    return ("key", "default", "meaning"), rows


def codes() -> Table:
    """The codes of errors."""
    rows: list[tuple[str, ...]] = [
        (f"`{code}`", str(status), _MEANINGS[code])
        for code, status in STATUS.items()
    ]
    return ("code", "status", "what it means, and what to do"), rows


def _default(row: Mapping[str, Any]) -> str:
    value = row["default"]
    return (
        ", ".join(map(str, value))
        if isinstance(value, list)
        else _value_cell(value)
    )


def _value_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:,}" if value >= 10_000 else f"{value:g}"
    return f"`{value}`" if value != [] else "`[]`"


TABLES: Final[Mapping[str, Callable[[], Table]]] = {
    f.__name__: f for f in (hyperparameters, models, configuration, codes)
}
