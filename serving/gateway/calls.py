"""The call that a typed route serves."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Final

from fastapi import Depends, Request

from ..accounts import By, Grant
from .bodies import Upload
from .gateway import Gateway

KEY: Final = "axonrl.call"
"""Key of the call in a request's scope."""


@dataclasses.dataclass(frozen=True)
class Call:
    """A request that is authorised for its route.

    Args:
        gateway: shared by all routes.
        grant: permissions of its token.
        by: caller, for the audit log.
        body: the body as sent; empty if it is in a file.
        upload: the file.
    """

    gateway: Gateway
    grant: Grant
    by: By
    body: bytes
    upload: Upload | None = None


async def _call(request: Request) -> Call:
    found: Call = request.scope[KEY]
    return found


Called = Annotated[Call, Depends(_call)]
"""Argument of a route. :mod:`.routes` says who may call it."""
