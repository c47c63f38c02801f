"""Tables of agents over HTTP, from the catalogue and the configuration."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..serving import catalogue
from ..serving.catalogue import hosted
from ..serving.gateway.settings import Settings
from ..serving.refusals import STATUS

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
_ORDER: Final = ("dqn", "rainbow", "ddpg", "ppo")
_NOISE: Final = {
    "epsilon": "the probability of a random action",
    "gaussian": "the standard deviation of Gaussian noise, in half-ranges",
    "drawn": "nothing: actions are drawn from the policy",
}
_MEANINGS: Final[Mapping[str, str]] = types.MappingProxyType(
    {
        "invalid_json": "the body is no JSON, or has NaN; send other bytes",
        "invalid_request": "it is no request of HTTP/1.1",
        "invalid_credentials": (
            "name or password is wrong, or the account is disabled; it does "
            "not say which"
        ),
        "missing_token": "there is no `Authorization: Bearer`",
        "invalid_token": (
            "the token is unknown, or was revoked: log in again, or make "
            "another one"
        ),
        "token_expired": "likewise, since its time is over",
        "forbidden_scope": "the token is not for this: make one with that scope",
        "quota_exceeded": (
            "the account has as many agents, bytes, tokens or logins as it may: "
            "remove some, or `axonrl service set-quota`"
        ),
        "not_found": (
            "there is no such agent, user or path, or it is somebody else's"
        ),
        "method_not_allowed": "the path takes another method",
        "name_taken": "the account has an agent of this name",
        "agent_inactive": "it was deactivated: `activate()`",
        "agent_failed": (
            "a damaged record or an update that is not finite: see below"
        ),
        "learning_off": "somebody has switched learning off",
        "body_too_large": (
            "larger than `limits` allow, or more values than the request can "
            "mean: send less at once, or raise the limit"
        ),
        "unsupported_media_type": "another type than JSON, or compressed",
        "invalid_value": "`errors` names the place and what is wrong there",
        "state_mismatch": "the state is of another model or of other sizes",
        "unsafe_state": (
            "what was sent is no state: damaged, a pickle, or something else"
        ),
        "idempotency_key_reused": (
            "the same key with another body: use a new key for each request"
        ),
        "rate_limited": (
            "too many requests, steps, changes, creations or logins, or too much "
            "in bodies at once; `detail` says which limit it is and what helps; "
            "repeat after `Retry-After`"
        ),
        "internal": "a defect of ours: the log has it under `request_id`",
        "agent_busy": (
            "more than 1,000 requests wait, or more than 2 s of updates are "
            "due (above 0.1 s a step waits for them); repeat later"
        ),
        "unavailable": (
            "a worker is restarting, or took over 10 s, or too much "
            "in bodies is under way; repeat with the same key"
        ),
        "database_unavailable": "the database is not reached; it mends itself",
        "storage_full": (
            "the disk is full: acts go on, steps are refused until there is space"
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


TABLES: Final[Mapping[str, Callable[[], Table]]] = types.MappingProxyType(
    {
        "hyperparameters": hyperparameters,
        "models": models,
        "configuration": configuration,
        "codes": codes,
    }
)
