"""Routes of one's own account (login, password, tokens) and about the service."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic_core import to_json

from ..accounts.names import QUOTAS
from ..accounts.tables import Token
from ..refusals import RefusedError
from .declaration import JSON, READ, BodyKind, Route, Routes
from .http_messages import FORM_TYPE, Request
from .models import (
    CreatedToken,
    LoggedIn,
    LoginForm,
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
FORM: Final = BodyKind((FORM_TYPE,), lambda limits: FORM_BYTES, ())
_ACCOUNT: Final = Route("manage", is_whole=True)
_CHANGE: Final = Route("manage", JSON, is_whole=True)


@routes("POST", "/login/access-token", Route("", FORM))
async def login(request: Request, body: LoginForm) -> LoggedIn:
    """Exchange a username and a password for a login token."""
    text = await logged_in(request, body, request.gateway.accounts.login)
    return LoggedIn(access_token=text, expires_in=request.gateway.accounts.lifetimes.login_seconds)


async def logged_in(request: Request, form: LoginForm, log_in: Callable[..., str]) -> str:
    """The new token or cookie of a login; refused logins raise ``RefusedError``."""
    address = request.address
    text = await request.gateway.threads.hash(log_in, form.username, form.password, address, request_id=request.id)
    await request.gateway.tokens.follow()
    return text


@routes("POST", "/logout", _ACCOUNT, status=204)
async def logout(request: Request) -> None:
    """Revoke the token in use."""
    await revoke(request)


@routes("GET", "/users/me", READ)
async def get_me(request: Request) -> Me:
    """The account of the token in use."""
    gateway, grant = request.gateway, request.grant
    usage = await gateway.usage(grant.user_id)
    quotas = {name: gateway.limit(grant, name) for name in sorted(QUOTAS)}
    return Me(name=grant.user, role=grant.role, quotas=quotas, usage=usage)


@routes("POST", "/users/me/password", _CHANGE, status=204)
async def change_password(request: Request, body: NewPassword) -> None:
    """Change the account's password. All login tokens except the one in use are revoked."""
    gateway, grant = request.gateway, request.grant
    change = gateway.accounts.change_password
    await gateway.threads.hash(change, grant.user, body.current, body.new, keep=grant.token_id, by=request.by)
    await gateway.tokens.follow(lambda other: other.user == grant.user and other.token_id != grant.token_id)


@routes("GET", "/tokens", Route("manage", is_whole=True, page=True), answers=list[TokenObject])
async def list_tokens(request: Request) -> Sequence[Token]:
    """The account's tokens."""
    return await request.call(request.gateway.accounts.tokens, request.grant.user)


@routes("POST", "/tokens", _CHANGE, status=201)
async def create_token(request: Request, body: NewToken) -> CreatedToken:
    """Create a token. It has at most the scopes and agents of the token in use, and is shown only once."""
    gateway, grant = request.gateway, request.grant
    beyond = sorted(set(body.scopes) - grant.scopes)
    if beyond:
        raise RefusedError("forbidden_scope", f"the token in use does not have {', '.join(beyond)} itself")
    text, token = await request.call(
        gateway.accounts.create_token, grant.user, body.name, body.scopes, body.agents, body.expires_in, by=request.by
    )
    await gateway.tokens.follow()
    return CreatedToken(token=text, **TokenObject.model_validate(token).model_dump())


@routes("DELETE", "/tokens/{token_id}", _ACCOUNT, status=204)
async def revoke_token(request: Request) -> None:
    """Revoke a token."""
    await revoke(request, request.names["token_id"])


async def revoke(request: Request, token_id: str | None = None) -> None:
    """Revoke one of the caller's tokens, or the one in use."""
    gateway, token_id = request.gateway, token_id or request.grant.token_id
    await request.call(gateway.accounts.revoke_token, token_id, user=request.grant.user, by=request.by)
    await gateway.tokens.follow(lambda grant: grant.token_id == token_id)


@about_service("GET", "/models", READ, answers=list[ModelObject])
async def get_models(request: Request) -> bytes:
    """The hosted models, with their hyperparameters and defaults."""
    return await asyncio.to_thread(_models, request.gateway.catalogue)


@functools.cache
def _models(catalogue: Any) -> bytes:
    return to_json(TypeAdapter(list[ModelObject]).validate_python(catalogue.model_descriptions()))


@about_service("GET", "/service", READ)
async def get_service(request: Request) -> ServiceObject:
    """The interface's version, and the limits of the account."""
    gateway = request.gateway
    limits = {name: gateway.limit(request.grant, name) for name in type(gateway.limits).model_fields}
    return ServiceObject(version="v1", limits=limits)
