"""The call that a typed route serves."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Final

from fastapi import Depends, Request

from ..accounts import By, Grant
from .bodies import Upload
from .gateway import Gateway

KEY: Final = "axonrl.call"
"""Where a request's scope has its call."""


@dataclasses.dataclass(frozen=True)
class Call:
    """A request, with what was found out about it before it came to its route: that it may ask it is known.

    Args:
        gateway: what all routes share.
        grant: what its token allows.
        by: for the audit log.
        body: as it was sent; empty where it is in a file.
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
"""What a route is given. Who may ask it is said in :mod:`.routes`."""
