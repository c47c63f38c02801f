"""Acting and stepping, without any framework: every timestep pays their cost."""

from __future__ import annotations

import json
import time
from typing import Any, Final, NamedTuple

from starlette.types import Receive, Scope

from ..accounts import Grant
from ..idempotency import key_of
from ..refusals import invalid
from ..workers.messages import MAX_BODY
from ..workers.pool import WorkerResponse
from .calls import JSON, BodyKind, Route
from .gateway import Gateway
from .http_messages import Head
from .problems import of_failure

STEP: Final = JSON._replace(values=0)
BATCH: Final = STEP._replace(
    most=lambda limits: min(limits.batch_bytes or MAX_BODY, MAX_BODY), limits=("batch_bytes", "json_depth")
)
_RATE: Final = ("steps_per_second",)


class Hot(NamedTuple):
    """One of the calls.

    Args:
        route: who may call it.
        body: the body that it takes.
        is_batch: many observations or steps, which are counted afterwards.
        is_step: counts as a step.
    """

    route: Route
    body: BodyKind
    is_batch: bool = False
    is_step: bool = False


PATH: Final = "/agents/{name}/"
HOT: Final = {
    "act": Hot(Route("act", BATCH), BATCH, is_batch=True),
    "step": Hot(Route("learn", STEP, _RATE), STEP, is_step=True),
    "steps": Hot(Route("learn", BATCH, _RATE), BATCH, is_batch=True, is_step=True),
    "end_episode": Hot(Route("learn", JSON), JSON),
}
"""``POST /api/v1/agents/{name}/...``."""


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
        RefusedError: the request is refused.
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
        key = key_of(head.key)
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
    """Parse the query: ``noise`` of an act, and nothing else.

    Raises:
        RefusedError: a parameter or its value is unknown, or it is given twice.
    """
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
