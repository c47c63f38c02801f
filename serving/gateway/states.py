"""Routes that transfer the state of an agent."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fastapi import APIRouter, Response

from ..accounts.audit import OK
from ..accounts.tables import Agent
from .agents import note_info, whole
from .calls import Call, Managing, Reading
from .gateway import API, info_of
from .incoming import checked_json
from .models import Snapshot, Uploaded
from .ports import Answer
from .problems import ProblemError

SAFETENSORS = "application/octet-stream"

router = APIRouter(prefix=API, tags=["states"])


@router.get("/snapshots/{name}", response_model=Snapshot)
async def get_snapshot(call: Reading, name: str) -> Response:
    """An agent's state in six fields."""
    row, answer = await _transferred(call, name, "get_state", form="snapshot")
    body = answer.body
    if "obs_size" in row.config:  # as its client calls it
        body = await asyncio.to_thread(_with, body, "state_size", "obs_size")
    return Response(body, media_type="application/json")


@router.post("/snapshots/{name}", status_code=201, openapi_extra={"requestBody": {"required": True, "content": {
    "application/json": {"schema": {"$ref": "#/components/schemas/Snapshot"}}}}})  # fmt: skip
async def put_snapshot(call: Managing, name: str) -> Uploaded:
    """Give an agent the state of another of the same model and sizes, or an earlier one of its own."""
    body = call.body
    if b'"obs_size"' in body:
        body = await asyncio.to_thread(_with, body, "obs_size", "state_size")
    await _uploaded(call, name, body, "snapshot")
    return Uploaded(uploaded=name)


@router.get("/agents/{name}/state", responses={200: {"content": {SAFETENSORS: {}}}}, response_class=Response)
async def get_state(call: Reading, name: str) -> Response:
    """An agent's state as one safetensors file; the configuration is JSON in its metadata."""
    _, answer = await _transferred(call, name, "get_state", form="safetensors")
    return Response(answer.body, media_type=SAFETENSORS)


@router.put("/agents/{name}/state", openapi_extra={"requestBody": {"required": True, "content": {
    SAFETENSORS: {"schema": {"type": "string", "format": "binary"}}}}})  # fmt: skip
async def put_state(call: Managing, name: str) -> Uploaded:
    """As `POST /snapshots/{name}`, of one safetensors file."""
    await _uploaded(call, name, call.body, "safetensors")
    return Uploaded(uploaded=name)


async def _uploaded(call: Call, name: str, body: bytes, form: str) -> None:
    row, answer = await _transferred(call, name, "put_state", body, form=form)
    await note_info(call.gateway, row, info_of(answer))


async def _transferred(call: Call, name: str, do: str, body: bytes = b"", **head: Any) -> tuple[Agent, Answer]:
    gateway, what = call.gateway, "state.read" if do == "get_state" else "state.write"
    row, outcome = await whole(call, name), "internal"
    try:
        gateway.charge_transfer(call.grant, row.id)
    except ProblemError as problem:
        await gateway.record_refusal(problem.code, call.by, name, what)  # of these there may be any number
        raise
    try:
        if do == "put_state":
            await gateway.check_bytes(call.grant)
        answer = await gateway.ask_once(row, do, body, **head)
        outcome = OK
    except ProblemError as problem:
        outcome = problem.code
        raise
    finally:
        await gateway.record(what, call.by, name, outcome)
    return row, answer


def _with(body: bytes, old: str, new: str) -> bytes:
    """The JSON object with a field under another name."""
    content = checked_json(body, 0)
    if not isinstance(content, dict) or old not in content or new in content:
        return body  # which the worker refuses
    content[new] = content.pop(old)
    return json.dumps(content).encode()
