"""Routes that transfer the state of an agent."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from fastapi import APIRouter, Response
from pydantic_core import from_json

from .agents import own
from .calls import Call, Managing, Reading
from .gateway import LONG
from .models import Snapshot
from .ports import AgentRow, Answer

SAFETENSORS = "application/octet-stream"

router = APIRouter(tags=["states"])


@router.get("/snapshots/{name}", response_model=Snapshot)
async def get_snapshot(call: Reading, name: str) -> Response:
    """An agent's state in six fields."""
    row, answer = await _transferred(call, name, "get_state", form="snapshot")
    body = answer.body
    if "obs_size" in row.config:  # as its client calls it
        body = await asyncio.to_thread(_with_obs_size, body)
    return Response(body, media_type="application/json")


@router.post("/snapshots/{name}", status_code=201, openapi_extra={"requestBody": {"required": True, "content": {
    "application/json": {"schema": {"$ref": "#/components/schemas/Snapshot"}}}}})  # fmt: skip
async def put_snapshot(call: Managing, name: str) -> dict[str, str]:
    """Give an agent the state of another of the same model and sizes, or an earlier one of its own."""
    await _transferred(call, name, "put_state", call.body, form="snapshot")
    return {"uploaded": name}


@router.get("/agents/{name}/state", responses={200: {"content": {SAFETENSORS: {}}}}, response_class=Response)
async def get_state(call: Reading, name: str) -> Response:
    """An agent's state as one safetensors file; the configuration is JSON in its metadata."""
    _, answer = await _transferred(call, name, "get_state", form="safetensors")
    return Response(answer.body, media_type=SAFETENSORS)


@router.put("/agents/{name}/state", openapi_extra={"requestBody": {"required": True, "content": {
    SAFETENSORS: {"schema": {"type": "string", "format": "binary"}}}}})  # fmt: skip
async def put_state(call: Managing, name: str) -> dict[str, str]:
    """As `POST /snapshots/{name}`, of one safetensors file."""
    await _transferred(call, name, "put_state", call.body, form="safetensors")
    return {"uploaded": name}


async def _transferred(call: Call, name: str, do: str, body: bytes = b"", **head: Any) -> tuple[AgentRow, Answer]:
    row = await own(call, name)
    call.gateway.charge_transfer(call.grant, row.id)
    answer = await call.gateway.ask(row, do, body, deadline=time.time() + LONG, **head)
    await call.gateway.record(f"agent.{do}", call.by, name)
    return row, answer


def _with_obs_size(body: bytes) -> bytes:
    content = from_json(body)
    content["obs_size"] = content.pop("state_size")
    return json.dumps(content).encode()
