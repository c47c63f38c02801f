"""Routes about the service itself: whether it lives and is ready, and its metrics."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from pydantic_core import to_json

from .declaration import Route, Routes
from .http_messages import JSON_TYPE, Reply, Request

routes: Final = Routes(prefix="")
metrics: Final = Routes(prefix="")
_TEXT: Final = b"text/plain; version=0.0.4; charset=utf-8"


@routes("GET", "/livez", Route(""))
async def get_life(request: Request) -> dict[str, Any]:
    """Whether the process runs."""
    return {"status": "alive"}


@routes("GET", "/readyz", Route(""))
async def get_readiness(request: Request) -> Reply:
    """Whether requests can be served, and what is wrong."""
    checks = request.gateway.health()
    ready = all(check == "ok" for check in checks.values())
    body = {"status": "ready" if ready else "not ready", "checks": checks}
    return Reply(200 if ready else 503, to_json(body), JSON_TYPE)


@routes("GET", "/metrics", Route("metrics"), type=_TEXT)
@metrics("GET", "/metrics", Route(""), type=_TEXT)
async def get_metrics(request: Request) -> bytes:
    """The metrics."""
    return await asyncio.to_thread(request.gateway.meters.text)
