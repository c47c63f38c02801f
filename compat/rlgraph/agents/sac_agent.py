"""SACAgent."""

from __future__ import annotations

from typing import ClassVar

from .agent import Agent
from .core import Core
from .replay_core import ReplayCore


class SACAgent(Agent):
    """Soft actor-critic for actions in a FloatBox with bounds.

    Args:
        double_q: use two critics, of which the smaller value counts.
        initial_alpha: initial entropy weight; the weight is learnt.
        target_entropy: in nats, of actions scaled to -1 .. 1; None: minus the number of action components.
        value_function_spec: layers of the critics, whose input is states and actions as one vector; None: those of
            ``network_spec``.
        value_function_sync_spec: ``sync_tau``, rate of Polyak averaging of the target critics per update.
        memory_spec: ``replay`` (of 1,000 records by default) or ``prioritized_replay``.
        **kwargs: see :class:`Agent`. ``update`` returns the critics' loss, which unpacks into it and ``loss_per_item``.
    """

    kind: ClassVar[str] = "sac"
    core_class: ClassVar[type[Core]] = ReplayCore
