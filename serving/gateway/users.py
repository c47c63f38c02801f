"""Routes of one's own account (login, password, tokens) and about the service."""

from __future__ import annotations

import urllib.parse
from typing import Any, Final

from ..accounts.names import QUOTAS
from ..refusals import RefusedError, invalid
from .calls import JSON, READ, BodyKind, Call, Called, Route, Routes, takes
from .http_messages import FORM_TYPE
from .models import (
    CreatedToken,
    LoggedIn,
    Me,
    ModelObject,
    NewPassword,
    NewToken,
    ServiceObject,
    TokenObject,
)

routes = Routes("account")
about_service = Routes("service")
FORM_BYTES: Final = 2**14
"""Maximum of a login form: a password has up to 1,024 characters of up to 4 bytes, each three characters in a form."""
_LOGIN: Final = Route("", BodyKind((FORM_TYPE,), lambda limits: FORM_BYTES, ()))
_ACCOUNT: Final = Route("manage", is_whole=True)
_CHANGE: Final = _ACCOUNT._replace(body=JSON)
_FORM = {"username", "password", "grant_type"}
_FORM_BODY: Final = takes(
    "application/x-www-form-urlencoded",
    {
        "type": "object",
        "required": ["username", "password"],
        "properties": {name: {"type": "string"} for name in sorted(_FORM)},
    },
)


@routes("POST", "/login/access-token", _LOGIN, openapi_extra=_FORM_BODY)
async def login(call: Called) -> LoggedIn:
    """A login token, for a name and a password."""
    gateway = call.gateway
    name, password = credentials(call.body)
    text = await gateway.threads.hash(
        gateway.accounts.login, name, password, call.by.address, request_id=call.by.request_id
    )
    await gateway.tokens.refresh()
    return LoggedIn(access_token=text, expires_in=gateway.accounts.lifetimes.login_seconds)


def credentials(body: bytes) -> tuple[str, str]:
    """Name and password from a login form."""
    try:
        pairs = urllib.parse.parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=True, errors="strict")
    except ValueError:
        raise RefusedError("invalid_request", "the body must be a form with username and password") from None
    form = dict(pairs)
    if len(form) != len(pairs):
        raise invalid("body", "a field is given twice")
    for unknown in form.keys() - _FORM:
        raise invalid(unknown[:80], "is not known")
    for wanted in ("username", "password"):
        if wanted not in form:
            raise invalid(wanted, "is missing")
    return form["username"], form["password"]


@routes("POST", "/logout", _ACCOUNT, status_code=204)
async def logout(call: Called) -> None:
    """Revoke the token that is used."""
    await revoked(call)


@routes("GET", "/users/me", READ)
async def get_me(call: Called) -> Me:
    """One's own account."""
    gateway, grant = call.gateway, call.grant
    usage = await gateway.usage(grant.user_id)
    quotas = {name: gateway.limit(grant, name) for name in sorted(QUOTAS)}
    return Me(name=grant.user, role=grant.role, quotas=quotas, usage=usage)


@routes("POST", "/users/me/password", _CHANGE, status_code=204)
async def change_password(call: Called, body: NewPassword) -> None:
    """Change one's password. All login tokens but the one that is used are revoked."""
    gateway, grant = call.gateway, call.grant
    change = gateway.accounts.change_password
    await gateway.threads.hash(change, grant.user, body.current, body.new, keep=grant.token_id, by=call.by)
    await gateway.tokens.refresh()


@routes("GET", "/tokens", _ACCOUNT._replace(page=True))
async def list_tokens(call: Called) -> list[TokenObject]:
    """One's tokens."""
    found = await call.gateway.threads.call(call.gateway.accounts.tokens, call.grant.user)
    return [TokenObject.model_validate(token) for token in found]


@routes("POST", "/tokens", _CHANGE, status_code=201)
async def create_token(call: Called, body: NewToken) -> CreatedToken:
    """Create a token. It may do no more than the token that is used, and is shown this once."""
    gateway, grant = call.gateway, call.grant
    beyond = sorted(set(body.scopes) - grant.scopes)
    if beyond:
        raise RefusedError("forbidden_scope", f"the token that is used does not have {', '.join(beyond)} itself")
    text, token = await gateway.threads.call(
        gateway.accounts.create_token, grant.user, body.name, body.scopes, body.agents, body.expires_in, by=call.by
    )
    await gateway.tokens.refresh()
    return CreatedToken(token=text, **TokenObject.model_validate(token).model_dump())


@routes("DELETE", "/tokens/{token_id}", _ACCOUNT, status_code=204)
async def revoke_token(call: Called, token_id: str) -> None:
    """Revoke a token."""
    await revoked(call, token_id)


async def revoked(call: Call, token_id: str | None = None) -> None:
    """Revoke a token of the caller's, or the one that is used."""
    gateway, token_id = call.gateway, token_id or call.grant.token_id
    await gateway.threads.call(gateway.accounts.revoke_token, token_id, user=call.grant.user, by=call.by)
    gateway.tokens.drop(token_id)  # even if the refresh fails
    await gateway.tokens.refresh()


@about_service("GET", "/models", READ, responses={200: {"model": list[ModelObject]}})
async def get_models(call: Called) -> list[dict[str, Any]]:
    """The models that are hosted, with their hyperparameters and defaults."""
    return [dict(one) for one in call.gateway.catalogue.described()]


@about_service("GET", "/service", READ, responses={200: {"model": ServiceObject}})
async def get_service(call: Called) -> dict[str, Any]:
    """The interface's version, and the limits of the account."""
    gateway = call.gateway
    limits = {name: int(gateway.limit(call.grant, name)) for name in type(gateway.limits).model_fields}
    return {"version": "v1", "limits": limits}
