"""When a worker updates its agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def due(before: int, now: int, update: Mapping[str, Any], observe: Mapping[str, Any]) -> int:
    """How many updates follow from the timesteps ``before + 1 .. now``.

    Each multiple of ``update_interval`` among them counts that is beyond ``steps_before_update`` and, with buffers, at
    least ``buffer_size``; each makes ``update_steps`` updates.

    Args:
        before: the agent's timesteps before it acted; episodes, where ``update_mode`` says so.
        now: and after that.
        update: the ``update_spec``.
        observe: the ``observe_spec``.
    """
    if not update["do_updates"]:
        return 0
    filled = observe["buffer_size"] - 1 if observe["buffer_enabled"] else 0
    first = int(max(before, update["steps_before_update"], filled))
    if now <= first:
        return 0
    every, steps = int(update["update_interval"]), int(update["update_steps"])
    return (now // every - first // every) * steps
