"""Routes of acting and stepping, which every timestep pays for: their bodies are parsed by the workers."""

from __future__ import annotations

import json
import time
from typing import Any, Final

from ..idempotency import key_of
from ..refusals import invalid
from ..workers.messages import MAX_BODY
from .bodies import read
from .declaration import JSON, BodyKind, Route, Routes
from .http_messages import JSON_TYPE, REPLAYED, Reply, Request
from .models import Accepted, Act, Acted, ActedBatch, EndEpisode, Step, Steps
from .problems import of_failure

routes = Routes("acting")
_END: Final = JSON._replace(is_frame=True, required=False, limits=("body_bytes",))
_DATA: Final = JSON._replace(
    is_frame=True,
    most=lambda limits: min(limits.batch_bytes or MAX_BODY, MAX_BODY),
    limits=("batch_bytes",),
)
"""Observations, of which one may have 100,000 numbers."""
_LIMITS: Final = ("steps_per_second", "bytes")


@routes("POST", "/agents/{name}/act", Route("act", _DATA), takes=list[Any] | Act, answers=Acted | ActedBatch)
async def act(request: Request) -> Reply:
    """Get an action for one observation, or for several."""
    return await _ask_worker(request, "act", _DATA)


@routes("POST", "/agents/{name}/step", Route("learn", _DATA, _LIMITS), takes=Step, answers=Accepted)
async def step(request: Request) -> Reply:
    """Report a step."""
    return await _ask_worker(request, "step", _DATA)


@routes("POST", "/agents/{name}/steps", Route("learn", _DATA, _LIMITS), takes=Steps, answers=Accepted)
async def steps(request: Request) -> Reply:
    """Report up to 1,000 steps."""
    return await _ask_worker(request, "steps", _DATA)


@routes("POST", "/agents/{name}/end_episode", Route("learn", _END, ("bytes",)), takes=EndEpisode, answers=Accepted)
async def end_episode(request: Request) -> Reply:
    """Report that an environment was reset without `done`."""
    return await _ask_worker(request, "end_episode", _END)


async def _ask_worker(request: Request, do: str, body: BodyKind) -> Reply:
    """Have an agent's worker carry out a request.

    Raises:
        RefusedError: the request is refused.
    """
    gateway = request.gateway
    known = await gateway.known_agent(request.grant, request.name)
    head = _noise(request.scope["query_string"], do) if request.scope["query_string"] else {}
    key = key_of(request.headers.get(b"idempotency-key"))
    if key is not None and do != "act":
        head["key"] = key
    if do != "act":
        gateway.check_growth(request.grant)
    if do in ("step", "steps"):
        gateway.charge("steps_per_second", request.grant, known.id)
    values = known.batch_values if do in ("act", "steps") else known.step_values
    await read(request, body.most(gateway.limits), values, known.step_values)
    if gateway.known.get((request.grant.user_id, request.name)) is not known:  # forgotten while the body arrived
        known = await gateway.known_agent(request.grant, request.name)
    gateway.used[known.id] = time.time()
    answer = await gateway.pool.ask(known.id, do, request.body, **head)
    if answer.status == 404:
        gateway.forget(known.id)
    if answer.status >= 400:
        raise of_failure(answer)
    if do == "steps" and not answer.replayed:
        gateway.owe_steps(known.id, json.loads(answer.body)["accepted"] - 1)
    return Reply(answer.status, answer.body, JSON_TYPE, REPLAYED if answer.replayed else ())


def _noise(query: bytes, do: str) -> dict[str, Any]:
    """``noise`` of an act, and nothing else; RefusedError for others, an invalid value, or two."""
    found: dict[str, Any] = {}
    for part in query.decode("latin-1").split("&"):
        name, _, text = part.partition("=")
        if do != "act" or name != "noise":
            raise invalid(f"query.{name[:80]}", f"is not known; there is {'noise' if do == 'act' else 'none'}")
        if found:
            raise invalid("query.noise", "is given twice")
        try:
            found["noise"] = float(text)
        except ValueError:
            found["noise"] = -1.0
        if not 0.0 <= found["noise"] <= 1.0:
            raise invalid("noise", f"must be a number in 0 .. 1, got {text[:40]!r}")
    return found
