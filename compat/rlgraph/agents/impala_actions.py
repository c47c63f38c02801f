"""Acting of IMPALAAgent in loops of its caller, beside that in its own environments."""

from __future__ import annotations

from typing import Any

from ...common.exclusion import exclusive
from ..spaces.columns import read_rewards
from ..utils.rlgraph_errors import refuse
from .agent import Agent
from .impala_core import ImpalaCore


class ImpalaActs(Agent):
    """The part of the agent that acts: its network may take the previous action and reward."""

    @property
    def impala_core(self) -> ImpalaCore:
        """What acts and learns."""
        core = self.core
        assert isinstance(core, ImpalaCore)
        return core

    @exclusive
    def get_action(  # type: ignore[override]
        self,
        states: Any,
        internal_states: Any = None,
        use_exploration: bool = True,
        extra_returns: Any = None,
        *,
        internals: Any = None,
        apply_preprocessing: bool = True,
        env_ids: Any = None,
        previous_rewards: Any = None,
    ) -> Any:
        """An action for a state, or a batch of actions for a batch of states: see :meth:`Agent.get_action`.

        Args:
            states: of ``state_space``, or with a leading axis.
            internal_states: used and not kept; None: those of the act before, zeros after :meth:`reset`.
            use_exploration: False: the likeliest action; nothing is drawn.
            extra_returns: names of what is returned too.
            internals: the same as ``internal_states``.
            apply_preprocessing: False: states are preprocessed already.
            env_ids: the environment of each state.
            previous_rewards: what the actions before brought, only for networks that take it; None: nothing. The
                actions before are those of the agent, none after :meth:`reset`.
        """
        where = self._begin("get_action")
        if internals is not None and internal_states is not None:
            refuse(f"{where}: internals", "and internal_states are two names of one argument", internals)
        held = internal_states if internals is None else internals
        if previous_rewards is not None:
            if not self.impala_core.feeds_reward:
                refuse(f"{where}: previous_rewards", "must be None: the network does not take them", previous_rewards)
            reader = self._read if apply_preprocessing is True else self._read_preprocessed
            arrays, single = reader("get_action", states)
            count = None if single else len(next(iter(arrays.values())))
            self.impala_core.previous_rewards = read_rewards(f"{where}: previous_rewards", previous_rewards, count)
        try:
            return super().get_action(
                states, held, use_exploration, apply_preprocessing, extra_returns, env_ids=env_ids
            )
        finally:
            self.impala_core.previous_rewards = None

    @exclusive
    def reset(self, env_id: str | None = None) -> None:
        """As :meth:`Agent.reset`; the agent's own environments go on."""
        where = self._begin("reset")
        self._forget(where, env_id)
        self.impala_core.forget_actions(None if env_id is None else self._lanes.get(env_id, -1))
