"""Routes about the service."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from .calls import Called
from .gateway import API
from .models import ModelObject, ServiceObject

router = APIRouter(prefix=API, tags=["service"])


@router.get("/models", responses={200: {"model": list[ModelObject]}})
async def get_models(call: Called) -> list[dict[str, Any]]:
    """The models that are hosted, with their hyperparameters and defaults."""
    return [dict(one) for one in call.gateway.catalogue.described()]


@router.get("/service", responses={200: {"model": ServiceObject}})
async def get_service(call: Called) -> dict[str, Any]:
    """The interface's version, and the limits of the account."""
    gateway = call.gateway
    limits = {name: int(gateway.limit(call.grant, name)) for name in type(gateway.limits).model_fields}
    return {"version": "v1", "limits": limits}
