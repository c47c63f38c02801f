"""The call that a typed route serves, and what its token must allow."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Annotated, Final

from fastapi import Depends, Request

from ..accounts import By, Grant
from ..accounts.grants import WEB
from .gateway import Gateway
from .problems import ProblemError

KEY: Final = "axonrl.call"
"""Where a request's scope has its call."""


@dataclasses.dataclass(frozen=True)
class Call:
    """A request, with what was found out about it before it came to its route.

    Args:
        gateway: what all routes share.
        grant: what its token allows.
        by: for the audit log.
        body: as it was sent.
    """

    gateway: Gateway
    grant: Grant
    by: By
    body: bytes


def needs(scope: str, *, whole_account: bool = False, page: bool = False) -> Callable[[Request], Awaitable[Call]]:
    """A dependency: the call, if its token has a scope.

    Args:
        scope: that it must have; empty: any token.
        whole_account: and must not be for some agents only.
        page: a login of the web page will do as well, though it has no scope but ``read``.
    """

    async def call(request: Request) -> Call:
        found: Call = request.scope[KEY]
        grant = found.grant
        if not (page and grant.kind == WEB):
            check_scope(grant, scope)
        if scope == "admin" and grant.role != "admin":
            raise ProblemError("forbidden_scope", "this is for administrators only")
        if whole_account and grant.agents is not None:
            raise ProblemError("forbidden_scope", "the token is for some agents only, this is about the account")
        return found

    return call


def check_scope(grant: Grant, scope: str) -> None:
    """Refuse a token without a scope; ``forbidden_scope``."""
    if scope and scope not in grant.scopes:
        raise ProblemError("forbidden_scope", f"the token does not have the scope {scope}")


Anyone = Annotated[Call, Depends(needs(""))]
Reading = Annotated[Call, Depends(needs("read"))]
Managing = Annotated[Call, Depends(needs("manage"))]
ManagingAccount = Annotated[Call, Depends(needs("manage", whole_account=True))]
SeeingAccount = Annotated[Call, Depends(needs("manage", whole_account=True, page=True))]
Administering = Annotated[Call, Depends(needs("admin"))]
