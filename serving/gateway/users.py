"""Routes of one's own account: login, password, tokens."""

from __future__ import annotations

import urllib.parse
from typing import Any

from fastapi import APIRouter, Request

from ..accounts.names import QUOTAS
from ..accounts.tables import Token
from .calls import KEY, Call, Called
from .gateway import API
from .models import CreatedToken, LoggedIn, Me, NewPassword, NewToken, TokenObject, time_text
from .problems import ProblemError, invalid

router = APIRouter(prefix=API, tags=["account"])
_FORM = {"username", "password", "grant_type"}
_FORM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["username", "password"],
    "properties": {name: {"type": "string"} for name in sorted(_FORM)},
}


@router.post("/login/access-token", openapi_extra={"requestBody": {"required": True, "content": {
    "application/x-www-form-urlencoded": {"schema": _FORM_SCHEMA}}}})  # fmt: skip
async def login(request: Request) -> LoggedIn:
    """A login token, for a name and a password."""
    call: Call = request.scope[KEY]
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
        raise ProblemError("invalid_request", "the body must be a form with username and password") from None
    form = dict(pairs)
    if len(form) != len(pairs):
        raise invalid("body", "a field is given twice")
    for unknown in form.keys() - _FORM:
        raise invalid(unknown[:80], "is not known")
    for wanted in ("username", "password"):
        if wanted not in form:
            raise invalid(wanted, "is missing")
    return form["username"], form["password"]


@router.post("/logout", status_code=204)
async def logout(call: Called) -> None:
    """Revoke the token that is used."""
    await revoked(call)


@router.get("/users/me")
async def get_me(call: Called) -> Me:
    """One's own account."""
    gateway, grant = call.gateway, call.grant
    usage = await gateway.usage(grant.user_id)
    quotas = {name: gateway.limit(grant, name) for name in sorted(QUOTAS)}
    return Me(name=grant.user, role=grant.role, quotas=quotas, usage=usage)


@router.post("/users/me/password", status_code=204)
async def change_password(call: Called, body: NewPassword) -> None:
    """Change one's password. All login tokens but the one that is used are revoked."""
    gateway, grant = call.gateway, call.grant
    change = gateway.accounts.change_password
    await gateway.threads.hash(change, grant.user, body.current, body.new, keep=grant.token_id, by=call.by)
    await gateway.tokens.refresh()


@router.get("/tokens")
async def list_tokens(call: Called) -> list[TokenObject]:
    """One's tokens."""
    found = await call.gateway.threads.call(call.gateway.accounts.tokens, call.grant.user)
    return [TokenObject(**_shown(token)) for token in found]


@router.post("/tokens", status_code=201)
async def create_token(call: Called, body: NewToken) -> CreatedToken:
    """Create a token. It may do no more than the token that is used, and is shown this once."""
    gateway, grant = call.gateway, call.grant
    beyond = sorted(set(body.scopes) - grant.scopes)
    if beyond:
        raise ProblemError("forbidden_scope", f"the token that is used does not have {', '.join(beyond)} itself")
    text, token = await gateway.threads.call(
        gateway.accounts.create_token, grant.user, body.name, body.scopes, body.agents, body.expires_in, by=call.by
    )
    await gateway.tokens.refresh()
    return CreatedToken(token=text, **_shown(token))


@router.delete("/tokens/{token_id}", status_code=204)
async def revoke_token(call: Called, token_id: str) -> None:
    """Revoke a token."""
    await revoked(call, token_id)


async def revoked(call: Call, token_id: str | None = None) -> None:
    """Revoke a token of the caller's, or the one that is used."""
    gateway, token_id = call.gateway, token_id or call.grant.token_id
    await gateway.threads.call(gateway.accounts.revoke_token, token_id, user=call.grant.user, by=call.by)
    gateway.tokens.drop(token_id)  # even if the refresh fails
    await gateway.tokens.refresh()


def _shown(token: Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "scopes": sorted(token.scopes),
        "agents": None if token.agents is None else sorted(token.agents),
        "last_four": token.last_four,
        "created_at": time_text(token.created_at),
        "expires_at": time_text(token.expires_at),
        "last_used": None if token.last_used is None else token.last_used.isoformat(),
        "revoked_at": time_text(token.revoked_at),
    }
