"""Carry out one request of one agent; the answering frame has the agent's answer or the failure."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ...core.errors import CheckpointError
from ..catalogue.recipes import Recipe
from ..hosting import agent_files
from ..hosting.agent import HostedAgent, Reply, to_bytes
from ..hosting.agent_store import of_storage
from ..hosting.fencing import OutdatedError
from ..hosting.programs import ProgramMissingError
from ..refusals import RefusedError
from .messages import MAX_BODY, Head, answer, refusal
from .slots import Slot, Slots

logger = logging.getLogger("axonrl.serving")


class _ReplayingError(Exception):
    """The agent was loaded, and must apply its journal before it answers."""


def respond(agents: Slots, slot: Slot, head: Head, body: bytes) -> bytes:
    """Carry out a request; returns the answering frame. Any error becomes the answer to one request.

    Empty if the agent was only loaded: the request is to be carried out once the journal's records are applied.
    """
    try:
        if time.time() > head.get("deadline", float("inf")):
            raise RefusedError("unavailable", "the request waited too long, and was not started", retry_after=1)
        agents.follow(slot, head)
        reply = _carried_out(agents, slot, head, body)
        content = reply.value if isinstance(reply.value, bytes) else to_bytes(reply.value)
        if len(content) > MAX_BODY:
            what = f"the answer has {len(content):,} bytes, more than the limit of {MAX_BODY:,}"
            raise RefusedError("body_too_large", f"{what}: download the state as a file, which is smaller")
        return answer(head, 200, content, **({"replayed": True} if reply.replayed else {}))
    except _ReplayingError:
        return b""
    except ProgramMissingError as error:
        return answer(head, 503, to_bytes(error.recipe.to_json()), needs_program=True)
    except RefusedError as error:
        return refusal(head, error)
    except OutdatedError as error:
        agents.lose(slot)
        return refusal(head, RefusedError("unavailable", str(error), retry_after=1), outdated=True)
    except Exception as error:
        refused = RefusedError("internal", "the service failed; its log says why")
        logger.error("request %s of agent %s failed", head["do"], slot.name, exc_info=error)
        agents.reopen(slot)
        return refusal(head, of_storage(error) if isinstance(error, CheckpointError | OSError) else refused)


def _carried_out(agents: Slots, slot: Slot, head: Head, body: bytes) -> Reply:
    do = head["do"]
    if do in _ENDS:
        _ENDS[do](agents, slot)
        return Reply({})
    if do == "open":
        return agents.open(slot, head, Recipe.from_json(json.loads(body))).info()
    if slot.agent is None and head.get("wake") is False:
        return Reply(agent_files.stored_info(agents.folder_of(slot.name)))
    was_loaded, agent = slot.agent is not None, agents.open(slot, head)
    if not was_loaded and agent.learning.has_work:
        raise _ReplayingError
    if do == "put_state":
        body = Path(head["file"]).read_bytes() if "file" in head else body
        return agent.put_state(body, agents.stepper_of, is_file=_is_file(head))
    return _ASKED[do](agent, head, body)


_ENDS: Final[Mapping[str, Callable[[Slots, Slot], None]]] = {"remove": Slots.remove, "close": Slots.put_away}
"""Requests after which an agent is not in memory."""
_ASKED: Final[Mapping[str, Callable[[HostedAgent, Head, bytes], Reply]]] = {
    "act": lambda agent, head, body: agent.act(body, head.get("noise", 0.0)),
    "step": lambda agent, head, body: agent.step(body, head.get("key")),
    "steps": lambda agent, head, body: agent.step(body, head.get("key"), several=True),
    "end_episode": lambda agent, head, body: agent.end_episode(body, head.get("key")),
    "info": lambda agent, head, body: agent.info(),
    "loss": lambda agent, head, body: agent.loss(),
    "episodes": lambda agent, head, body: agent.episodes(head.get("after"), head.get("limit", 100)),
    "get_state": lambda agent, head, body: agent.get_state(as_file=_is_file(head), has_obs="obs_size" in head),
    "patch": lambda agent, head, body: agent.patch(head.get("learning"), recover=bool(head.get("recover"))),
}
"""Requests of an agent in memory."""


def _is_file(head: Head) -> bool:
    return head.get("form") == "safetensors"
