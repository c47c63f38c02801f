"""Acting and stepping, without any framework: every timestep pays their cost."""

from __future__ import annotations

import json
import time
from typing import Any, Final, NamedTuple

from starlette.types import Receive, Scope

from ..accounts import Grant
from ..workers.pool import WorkerResponse
from .gateway import API, Gateway
from .http_messages import Head, parameters
from .problems import invalid, of_failure
from .routes import ROUTES, Body, Route


class Hot(NamedTuple):
    """One of the calls.

    Args:
        path: path of its route.
        route: who may call it.
        body: the body that it takes.
        is_batch: many observations or steps, which are counted afterwards.
        is_step: counts as a step.
    """

    path: str
    route: Route
    body: Body
    is_batch: bool = False
    is_step: bool = False


def _hot(do: str, **more: bool) -> Hot:
    path = f"/agents/{{name}}/{do}"
    route = ROUTES[path]["POST"]
    if route.body is None:
        raise ValueError(f"{path} must take a body")
    return Hot(API + path, route, route.body, **more)


HOT: Final = {
    "act": _hot("act", is_batch=True),
    "step": _hot("step", is_step=True),
    "steps": _hot("steps", is_batch=True, is_step=True),
    "end_episode": _hot("end_episode"),
}
"""``POST /api/v1/agents/{name}/...``."""

_QUERY: Final = ("noise",)


async def done(
    gateway: Gateway, scope: Scope, receive: Receive, head: Head, grant: Grant, name: str, do: str
) -> WorkerResponse:
    """Make an agent act or step.

    Args:
        gateway: shared by all routes.
        scope: ASGI.
        receive: ASGI.
        head: the request's headers.
        grant: permissions of its token; the request is counted already.
        name: the agent's name.
        do: a key of ``HOT``.

    Raises:
        ProblemError: the request is refused.
    """
    hot = HOT[do]
    hot.route.check(grant)
    expected = hot.body
    head.check_type(expected.types)
    known = gateway.known.get((grant.user_id, name)) if grant.agents is None else None
    if known is None:
        known = await gateway.known_agent(grant, name)
    agent = known.id
    asked = asked_for(scope["query_string"], do) if scope["query_string"] else {}
    if head.key is not None:
        key = head.idempotency_key()
        if do != "act":
            asked["key"] = key
    if hot.is_step:
        gateway.charge_step(grant, agent)
    values = known.batch_values if hot.is_batch else known.step_values
    most = expected.most(gateway.limits)
    body = await gateway.bodies.read(
        receive, head, most, values, lambda: gateway.clients(scope, head, grant), known.step_values
    )
    gateway.used[agent] = time.time()
    answer = await gateway.pool.ask(agent, do, body, **asked)
    if answer.status == 404:
        gateway.forget(agent)
    if answer.status >= 400:
        raise of_failure(answer.status, answer.body, answer.retry_after)
    if hot.is_batch and hot.is_step and not answer.replayed:
        gateway.owe_steps(agent, json.loads(answer.body)["accepted"] - 1)
    return answer


def asked_for(query: bytes, do: str) -> dict[str, Any]:
    """Parse the query.

    Raises:
        ProblemError: a parameter or its value is unknown.
    """
    given = parameters(query, _QUERY if do == "act" else ())
    if "noise" not in given:
        return {}
    try:
        noise = float(given["noise"])
    except ValueError:
        noise = -1.0
    if not 0.0 <= noise <= 1.0:
        raise invalid("noise", f"must be a number in 0 .. 1, got {given['noise'][:40]!r}")
    return {"noise": noise}
