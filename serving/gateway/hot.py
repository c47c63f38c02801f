"""Acting and stepping. Nothing of a framework is on their path: what they cost, every timestep costs."""

from __future__ import annotations

import json
import time
from typing import Any, Final, NamedTuple

from starlette.types import Receive, Scope

from ..accounts import Grant
from .calls import check_scope
from .gateway import Gateway
from .incoming import JSON_TYPE, Head, body_of, parameters
from .ports import Answer
from .problems import invalid, of_failure


class Hot(NamedTuple):
    """One of the calls.

    Args:
        scope: that a token must have.
        is_batch: the body may be large, the steps are counted when they are done.
        is_step: counts as a step.
    """

    scope: str
    is_batch: bool = False
    is_step: bool = False


HOT: Final = {
    "act": Hot("act", is_batch=True),
    "step": Hot("learn", is_step=True),
    "steps": Hot("learn", is_batch=True, is_step=True),
    "end_episode": Hot("learn"),
}
"""``POST /api/v1/agents/{name}/...``."""

_QUERY: Final = ("noise",)
_JSON: Final = (JSON_TYPE,)


async def done(
    gateway: Gateway, scope: Scope, receive: Receive, head: Head, grant: Grant, name: str, do: str
) -> Answer:
    """Have an agent act or step.

    Args:
        gateway: what all routes share.
        scope: ASGI.
        receive: ASGI.
        head: the request's headers.
        grant: what its token allows; the request is counted already.
        name: of the agent.
        do: a key of ``HOT``.

    Raises:
        ProblemError: it is refused.
    """
    hot = HOT[do]
    head.check_type(_JSON)
    check_scope(grant, hot.scope)
    agent = gateway.agent_ids.get((grant.user_id, name)) if grant.agents is None else None
    if agent is None:
        agent = await gateway.agent_id(grant, name)
    asked = asked_for(scope["query_string"], do) if scope["query_string"] else {}
    if head.key is not None:
        key = head.idempotency_key()
        if do != "act":
            asked["key"] = key
    most = gateway.limits.batch_bytes if hot.is_batch else gateway.limits.body_bytes
    body = await body_of(receive, head, most)
    if hot.is_step:
        gateway.charge_step(grant, agent)
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
    """What the query asks for.

    Raises:
        ProblemError: a parameter is unknown, or its value is.
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
