"""Acting: from states to actions, with what else was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from ....core.protocols import Array
from ...common.exclusion import exclusive
from ..utils.rlgraph_errors import choice, flag, refuse
from .base import Base

EXTRAS: Final = ("preprocessed_states", "internal_states", "used_exploration")
"""What ``get_action`` can return beside the action, in this order."""
_NO_EXTRAS: Final[frozenset[str]] = frozenset()


class Acts(Base):
    """The part of an agent that acts."""

    @exclusive
    def get_action(
        self,
        states: Any,
        internals: Any = None,
        use_exploration: bool = True,
        apply_preprocessing: bool = True,
        extra_returns: Any = None,
        *,
        env_ids: Any = None,
    ) -> Any:
        """An action for a state, or a batch of actions for a batch of states.

        Args:
            states: of ``state_space``, or with a leading axis.
            internals: of a recurrent agent: [units] or [B, units] each, used and not kept. None: those of the act
                before, zeros after :meth:`reset`.
            use_exploration: False: the best action; nothing is drawn.
            apply_preprocessing: False: states are preprocessed already.
            extra_returns: names of what is returned too: ``preprocessed_states``, ``internal_states`` and
                ``used_exploration`` (bool, or bool [B]: was the action a random one?).
            env_ids: of a batch: the environment of each state; by default ``env_0``, ``env_1``, ...

        Returns:
            The action: a NumPy scalar of the action space's dtype or an array; or a tuple of it and the extras, these
            always in the order above.

        Raises:
            RLGraphError: an argument is wrong. Nothing is changed then.
        """
        return self._act(states, internals, use_exploration, apply_preprocessing, extra_returns, env_ids)

    def _act(
        self,
        states: Any,
        internals: Any,
        use_exploration: bool,
        apply_preprocessing: bool,
        extra_returns: Any,
        env_ids: Any = None,
        *,
        time_step: int | None = None,
    ) -> Any:
        """As :meth:`get_action`. Of a ``time_step`` that is given exploration sees that one, and nothing is counted."""
        where = self._begin("get_action")
        wanted = _extras(where, extra_returns)
        _check_flags(where, use_exploration, apply_preprocessing)
        arrays, single = (self._read if apply_preprocessing else self._read_preprocessed)("get_action", states)
        rows = len(next(iter(arrays.values())))
        ids = self._ids(where, env_ids, rows)
        lanes = [self._lane(one) for one in ids]
        held = self._internals_of(where, internals, lanes, single)
        seen = self._preprocessed(arrays, lanes) if apply_preprocessing else arrays
        if time_step is None:
            self.timesteps += rows
            time_step = self.timesteps
        acted = self.core.act(seen, held, use_exploration, time_step, lanes)
        if acted.internals is not None and internals is None:
            self._keep_internals(lanes, acted.internals)
        if acted.extras is not None:
            self._note(ids, seen, acted)
        action = self._out(acted.actions, single)
        if not wanted:
            return action
        found = {
            "preprocessed_states": self.preprocessed_state_space.unflatten(_one(seen, single)),
            "internal_states": self._internals_out(acted.internals, single),
            "used_exploration": bool(acted.explored[0]) if single else acted.explored,
        }
        return (action, *(found[name] for name in EXTRAS if name in wanted))

    @property
    def preprocesses(self) -> bool:
        """Has it a ``preprocessing_spec`` with steps?"""
        return self.preprocessor.has_steps

    @exclusive
    def preprocess_states(self, states: Any, *, env_ids: Any = None) -> Any:
        """States as the model sees them: as :meth:`get_action` would, with what stateful steps remember.

        Args:
            states: as there.
            env_ids: likewise.

        Raises:
            RLGraphError: the states are not of ``state_space``.
        """
        where = self._begin("preprocess_states")
        arrays, single = self._read("preprocess_states", states)
        lanes = [self._lane(one) for one in self._ids(where, env_ids, len(next(iter(arrays.values()))))]
        seen = self._preprocessed(arrays, lanes)
        return self.preprocessed_state_space.unflatten(_one(seen, single))

    @exclusive
    def reset(self, env_id: str | None = None) -> None:
        """Before an episode: stateful preprocessors and the agent's own internals begin again.

        Weights, memory, counters and buffers stay.

        Args:
            env_id: the environment whose episode begins; None: all.
        """
        self._forget(self._begin("reset"), env_id)
        for one in self._companions:
            one.reset(env_id)

    def _forget(self, where: str, env_id: str | None) -> None:
        """What acting remembers of an environment, or of all."""
        if env_id is None:
            self.preprocessor.reset()
            self._own_internals.clear()
        elif (lane := self._lanes.get(self._id(where, env_id))) is not None:
            self.preprocessor.reset([lane])
            self._own_internals.pop(lane, None)

    # -- recurrent states ---------------------------------------------------------------------------------------------

    def _internals_of(self, where: str, given: Any, lanes: list[int], single: bool) -> dict[str, Array] | None:
        """The recurrent state [B, ...] to act with; None for a model without."""
        zeros = self.core.zero_internals(len(lanes))
        if zeros is None:
            if given is not None and not _is_nothing(given):
                refuse(f"{where}: internals", "must be None or []: the agent's network has no lstm", given)
            return None
        if not _is_nothing(given):
            return self._read_internals(where, given, zeros, single)
        for row, lane in enumerate(lanes):
            for name, part in self._own_internals.get(lane, {}).items():
                zeros[name][row] = part
        return zeros

    def _read_internals(self, where: str, given: Any, zeros: Mapping[str, Array], single: bool) -> dict[str, Array]:
        parts = list(given.values()) if isinstance(given, Mapping) else given
        if not isinstance(parts, list | tuple) or len(parts) != len(zeros):
            problem = f"must be {len(zeros)} arrays, the parts of the state of the lstm; got {given!r:.200}"
            refuse(f"{where}: internals", problem, given)
        found = {}
        for (name, zero), part in zip(zeros.items(), parts, strict=True):
            array = np.asarray(part, np.float32)
            array = array[None] if single and array.ndim == zero.ndim - 1 else array
            if array.shape != zero.shape or not np.isfinite(array).all():
                refuse(
                    f"{where}: internals", f"must be finite, of shape {zero.shape[single:]}; got {part!r:.200}", given
                )
            found[name] = array
        return found

    def _keep_internals(self, lanes: list[int], internals: Mapping[str, Array]) -> None:
        for row, lane in enumerate(lanes):
            self._own_internals[lane] = {name: part[row].copy() for name, part in internals.items()}

    def _internals_out(self, internals: Mapping[str, Array] | None, single: bool) -> Any:
        return tuple(part[0] if single else part for part in (internals or {}).values())


def _extras(where: str, given: Any) -> frozenset[str]:
    if given is None:
        return _NO_EXTRAS
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, Iterable):
        refuse(f"{where}: extra_returns", f"must be a name or a set of names of {', '.join(EXTRAS)}", given)
    return frozenset(choice(f"{where}: extra_returns", name, EXTRAS) for name in names)


def _check_flags(where: str, explores: Any, applies: Any) -> None:
    if not (isinstance(explores, bool) and isinstance(applies, bool)):
        flag(f"{where}: use_exploration", explores)
        flag(f"{where}: apply_preprocessing", applies)


def _is_nothing(given: Any) -> bool:
    return given is None or (isinstance(given, list | tuple | dict) and not given)


def _one(arrays: Mapping[str, Array], single: bool) -> dict[str, Array]:
    return {name: array[0] if single else array for name, array in arrays.items()}
