"""SACAgent."""

from __future__ import annotations

from typing import Any, ClassVar

from ..utils.rlgraph_errors import translate_errors
from .agent import Agent
from .core import Core
from .soft_core import SoftCore


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

    def _make_core(self) -> Core:
        name = type(self).__name__
        with translate_errors(name):
            return SoftCore(name, self.form, self.preprocessed_state_space.flat(), self.action_space, self.seed)

    @property
    def memory(self) -> Any:
        """The memory: its length is the number of records."""
        core = self.core
        assert isinstance(core, SoftCore)
        return core.records
