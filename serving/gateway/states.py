"""Routes that transfer the state of an agent."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

from fastapi import Response

from ..accounts.audit import OK
from ..accounts.tables import Agent
from ..refusals import RefusedError
from ..workers.pool import WorkerResponse
from .agents import note_info, whole
from .calls import READ, BodyKind, Call, Called, Route, Routes, takes
from .gateway import info_of
from .http_messages import JSON_TYPE, STATE_TYPES
from .models import Snapshot, Uploaded

SAFETENSORS = "application/octet-stream"

routes = Routes("states")
_TRANSFERS = ("transfers_per_minute",)
_OF_STATE = 100
"""JSON values of a state: six fields, one of which may be a list; large content is text."""


async def charge_upload(call: Call, name: str) -> None:
    """Check, before a state is received, the transfers per minute and the account's bytes.

    Raises:
        RefusedError: a limit is reached, or there is no such agent.
    """
    gateway, row = call.gateway, await whole(call, name)
    await _charge(call, row, "state.write")
    async with _recorded(call, name, "state.write", only_refusals=True):
        await gateway.check_bytes(call.grant)


_READ: Final = READ._replace(own_limits=_TRANSFERS)
_WRITE: Final = Route("manage", own_limits=(*_TRANSFERS, "bytes"), admit=charge_upload)
_SNAPSHOT: Final = BodyKind(
    (JSON_TYPE,), lambda limits: limits.state_bytes, ("state_bytes", "json_depth"), _OF_STATE, is_state=True
)
_FILE: Final = BodyKind(STATE_TYPES, lambda limits: limits.state_bytes, ("state_bytes",), is_state=True)
_SIX_FIELDS: Final = takes("application/json", {"$ref": "#/components/schemas/Snapshot"})
_ONE_FILE: Final = takes(SAFETENSORS, {"type": "string", "format": "binary"})
_SENT: Final[dict[int | str, Any]] = {200: {"content": {SAFETENSORS: {}}}}


@routes("GET", "/snapshots/{name}", _READ, response_model=Snapshot)
async def get_snapshot(call: Called, name: str) -> Response:
    """An agent's state in six fields."""
    answer = await _downloaded(call, name, "snapshot")
    return Response(answer.body, media_type="application/json")


@routes("POST", "/snapshots/{name}", _WRITE._replace(body=_SNAPSHOT), status_code=201, openapi_extra=_SIX_FIELDS)
async def put_snapshot(call: Called, name: str) -> Uploaded:
    """Give an agent the state of another of the same model and sizes, or an earlier one of its own."""
    await _uploaded(call, name, "snapshot")
    return Uploaded(uploaded=name)


@routes("GET", "/agents/{name}/state", _READ, responses=_SENT, response_class=Response)
async def get_state(call: Called, name: str) -> Response:
    """An agent's state as one safetensors file; the configuration is JSON in its metadata."""
    answer = await _downloaded(call, name, "safetensors")
    return Response(answer.body, media_type=SAFETENSORS)


@routes("PUT", "/agents/{name}/state", _WRITE._replace(body=_FILE), openapi_extra=_ONE_FILE)
async def put_state(call: Called, name: str) -> Uploaded:
    """Give an agent a state, as `POST /snapshots/{name}` does, from one safetensors file."""
    await _uploaded(call, name, "safetensors")
    return Uploaded(uploaded=name)


async def _uploaded(call: Call, name: str, form: str) -> None:
    gateway, row = call.gateway, await whole(call, name)
    head: dict[str, Any] = {} if call.upload is None else {"file": call.upload.path}
    async with _recorded(call, name, "state.write"):
        answer = await gateway.ask_once(row, "put_state", call.body, form=form, **head)
    await note_info(gateway, row, info_of(answer))


async def _downloaded(call: Call, name: str, form: str) -> WorkerResponse:
    gateway, row = call.gateway, await whole(call, name)
    await _charge(call, row, "state.read")
    head: dict[str, Any] = {"obs_size": True} if "obs_size" in row.config else {}  # the client's name for it
    async with _recorded(call, name, "state.read"):
        return await gateway.ask_once(row, "get_state", form=form, **head)


async def _charge(call: Call, row: Agent, what: str) -> None:
    try:
        call.gateway.charge_transfer(call.grant, row.id)
    except RefusedError as problem:
        await call.gateway.record_refusal(problem.code, call.by, row.name, what)  # limited there: there may be many
        raise


@contextlib.asynccontextmanager
async def _recorded(call: Call, name: str, what: str, *, only_refusals: bool = False) -> AsyncIterator[None]:
    """Record the operation in this context in the audit log, with its outcome."""
    outcome = "internal"
    try:
        yield
        outcome = OK
    except RefusedError as problem:
        outcome = problem.code
        raise
    finally:
        if outcome != OK or not only_refusals:
            await call.gateway.record(what, call.by, name, outcome)
