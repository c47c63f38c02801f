"""SACAgent."""

from __future__ import annotations

from typing import ClassVar

from .agent import Agent
from .core import Core
from .replay_core import ReplayCore


class SACAgent(Agent):
    """Soft actor-critic, of actions in a FloatBox with bounds.

    Args:
        double_q: two critics, whose smaller value counts.
        initial_alpha: the first weight of the entropy, which is learnt.
        target_entropy: in nats, of actions in -1 .. 1; None: minus the number of an action's components.
        value_function_spec: layers of the critics, which see states and actions as one vector; None: those of
            ``network_spec``.
        value_function_sync_spec: ``sync_tau``, the share of the way that target critics go in each update.
        memory_spec: ``replay`` (of 1,000 records by default) or ``prioritized_replay``.
        **kwargs: see :class:`Agent`. ``update`` returns the critics' loss, which unpacks into it and ``loss_per_item``.
    """

    kind: ClassVar[str] = "sac"
    core_class: ClassVar[type[Core]] = ReplayCore
