"""Carry out one request of one agent; the answering frame has the agent's answer or the failure."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ...core.errors import CheckpointError
from ..catalogue.recipes import Recipe
from ..hosting import unloaded_agents
from ..hosting.agent import HostedAgent, Reply, to_bytes
from ..hosting.agent_store import of_checkpoint
from ..hosting.fencing import OutdatedError
from ..hosting.programs import ProgramMissingError
from ..refusals import RefusedError
from .messages import MAX_BODY, Head, cut, encode
from .slot import Slot
from .slots import Slots

logger = logging.getLogger("axonrl.serving")


class Answering:
    """Carries out requests. Any error becomes the answer to one request, not a failure of the worker.

    Args:
        agents: the worker's agents.
    """

    def __init__(self, agents: Slots) -> None:
        self._agents = agents

    def answer(self, name: str, slot: Slot, head: Head, body: bytes) -> bytes:
        """Carry out a request; returns the answering frame."""
        try:
            if time.time() > head.get("deadline", float("inf")):
                raise RefusedError("unavailable", "the request waited too long, and was not begun", retry_after=1)
            self._agents.follow(slot, head)
            content = b"{}"
            if head["do"] == "open":
                slot.agent = slot.agent or self._agents.open(name, head, Recipe.from_json(json.loads(body)))
                content = to_bytes(slot.agent.info().value)
            elif head["do"] == "remove":
                self._agents.remove(name, slot)
            elif head["do"] == "close":
                self._agents.put_away(name, slot)
            elif slot.agent is not None or head.get("wake") is not False:
                slot.agent = slot.agent or self._agents.open(name, head, None)
                return self._ask(slot.agent, head, body)
            else:
                content = to_bytes(unloaded_agents.known(self._agents.folder_of(name)))
            return _frame(head, 200, content)
        except ProgramMissingError as error:
            return _frame(head, 503, to_bytes(error.recipe.to_json()), needs_program=True)
        except Exception as error:
            return self._failure(name, slot, head, error)

    def _ask(self, agent: HostedAgent, head: Head, body: bytes) -> bytes:
        do = head["do"]
        is_file = head.get("form") == "safetensors"
        if do == "put_state":
            body = Path(head["file"]).read_bytes() if "file" in head else body
            answer = agent.put_state(body, self._agents.stepper_of, is_file=is_file)
        elif do == "get_state":
            answer = agent.get_state(as_file=is_file, has_obs="obs_size" in head)
        else:
            answer = _ASKED[do](agent, head, body)
        more = {"replayed": True} if answer.replayed else {}
        content = answer.value if isinstance(answer.value, bytes) else to_bytes(answer.value)
        if len(content) > MAX_BODY:
            what = f"the answer has {len(content):,} bytes, of which one may have {MAX_BODY:,}"
            raise RefusedError("body_too_large", f"{what}: a state is smaller as a file than as six fields")
        return _frame(head, 200, content, **more)

    def _failure(self, name: str, slot: Slot, head: Head, error: Exception) -> bytes:
        match error:
            case RefusedError():
                return _refusal(head, error)
            case OutdatedError():
                self._agents.lose(slot)
                return _refusal(head, RefusedError("unavailable", str(error), retry_after=1), outdated=True)
            case CheckpointError():
                refused = of_checkpoint(error)
            case _:
                refused = RefusedError("internal", "the service failed; its log says why")
        logger.error("request %s of agent %s failed", head["do"], name, exc_info=error)
        self._agents.reopen(slot)
        return _refusal(head, refused)


_ASKED: Final[Mapping[str, Callable[[HostedAgent, Head, bytes], Reply]]] = {
    "act": lambda agent, head, body: agent.act(body, head.get("noise", 0.0)),
    "step": lambda agent, head, body: agent.step(body, head.get("key")),
    "steps": lambda agent, head, body: agent.step(body, head.get("key"), several=True),
    "end_episode": lambda agent, head, body: agent.end_episode(body, head.get("key")),
    "info": lambda agent, head, body: agent.info(),
    "loss": lambda agent, head, body: agent.loss(),
    "episodes": lambda agent, head, body: agent.episodes(head.get("after", 0), head.get("limit", 100)),
    "patch": lambda agent, head, body: agent.patch(head.get("learning"), recover=bool(head.get("recover"))),
}
"""Requests of an agent, except transfers of its state."""


def not_kept(content: bytes) -> bytes:
    """The answer to a step that may not be on the disk."""
    ((head, _),) = cut(bytearray(content))
    return _refusal(
        head, RefusedError("unavailable", "the step could not be kept on the disk", retry_after=1), outdated=True
    )


def _frame(head: Head, status: int, body: bytes, **more: Any) -> bytes:
    return encode({"id": head["id"], "status": status, **more}, body)


def _refusal(head: Head, error: RefusedError, **more: Any) -> bytes:
    if error.retry_after is not None:
        more["retry_after"] = error.retry_after
    return _frame(head, error.status, to_bytes(error.to_json()), **more)
