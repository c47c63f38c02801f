"""Routes that transfer the state of an agent."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final, TypeAlias

from pydantic import WithJsonSchema

from ..accounts.audit import OK
from ..accounts.tables import Agent
from ..refusals import RefusedError
from .agents import created_agent_row, note_info
from .declaration import BodyKind, Route, Routes
from .gateway import info_of
from .http_messages import JSON_TYPE, STATE_TYPES, Request
from .models import Snapshot, Uploaded

routes = Routes("states")
_TRANSFERS = ("transfers_per_minute",)
_OF_STATE = 100
"""JSON values of a state: six fields, one of which may be a list; large content is text."""


async def charge_upload(request: Request) -> None:
    """Check, before a state is received, the transfers per minute and the account's bytes.

    Raises:
        RefusedError: a limit is reached, or there is no such agent.
    """
    gateway, row = request.gateway, await created_agent_row(request)
    await _charge(request, row, "state.write")
    async with _recorded(request, "state.write", only_refusals=True):
        await gateway.check_bytes(request.grant)


_READ: Final = Route("read", own_limits=_TRANSFERS)
_SNAPSHOT: Final = BodyKind((JSON_TYPE,), lambda limits: limits.state_bytes, ("state_bytes",), _OF_STATE, is_state=True)
_FILE: Final = BodyKind(STATE_TYPES, lambda limits: limits.state_bytes, ("state_bytes",), is_state=True)


def _write(body: BodyKind) -> Route:
    return Route("manage", body, (*_TRANSFERS, "bytes"), admit=charge_upload)


_File: TypeAlias = Annotated[bytes, WithJsonSchema({"type": "string", "format": "binary"})]


@routes("GET", "/snapshots/{name}", _READ, answers=Snapshot)
async def get_snapshot(request: Request) -> bytes:
    """An agent's state as JSON with six fields."""
    return await _download(request, "snapshot")


@routes("POST", "/snapshots/{name}", _write(_SNAPSHOT), status=201, takes=Snapshot)
async def put_snapshot(request: Request) -> Uploaded:
    """Replace an agent's state by an earlier one, or by that of another agent of the same model and sizes."""
    return await _upload(request, "snapshot")


@routes("GET", "/agents/{name}/state", _READ, type=STATE_TYPES[0])
async def get_state(request: Request) -> _File:
    """An agent's state as one safetensors file; the configuration is JSON in its metadata."""
    return await _download(request, "safetensors")


@routes("PUT", "/agents/{name}/state", _write(_FILE), takes=_File)
async def put_state(request: Request) -> Uploaded:
    """Replace an agent's state, as `POST /snapshots/{name}` does, from one safetensors file."""
    return await _upload(request, "safetensors")


async def _upload(request: Request, form: str) -> Uploaded:
    gateway, row = request.gateway, await created_agent_row(request)
    head: dict[str, Any] = {} if request.upload is None else {"file": request.upload.path}
    async with _recorded(request, "state.write"), gateway.building[request.grant.user_id]:
        answer = await gateway.ask_once(row, "put_state", request.body, form=form, **head)
    await note_info(gateway, row, info_of(answer))
    return Uploaded(uploaded=request.name)


async def _download(request: Request, form: str) -> bytes:
    gateway, row = request.gateway, await created_agent_row(request)
    await _charge(request, row, "state.read")
    head: dict[str, Any] = {"obs_size": True} if "obs_size" in row.config else {}  # the client's name for it
    async with _recorded(request, "state.read"):
        return (await gateway.ask_once(row, "get_state", form=form, **head)).body


async def _charge(request: Request, row: Agent, what: str) -> None:
    try:
        request.gateway.charge("transfers_per_minute", request.grant, row.id)
    except RefusedError as problem:
        await request.gateway.record_refusal(problem.code, request.by, request.name, what)  # limited there
        raise


@contextlib.asynccontextmanager
async def _recorded(request: Request, what: str, *, only_refusals: bool = False) -> AsyncIterator[None]:
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
            await request.record(what, request.name, outcome)
