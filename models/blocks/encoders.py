"""Inputs of actor and critics: observations themselves, or the outputs of an LSTM over all observations so far.

With an LSTM, actor and critics take its outputs instead of observations, so one implementation of an algorithm serves
both cases. They share the LSTM, which learns from the critics' loss alone, like the convolutions of Yarats et al. 2019,
https://arxiv.org/abs/1910.01741.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from .lstm import State
from .networks import DenseParams
from .recurrent import RecurrentNetwork
from .rollouts import rows

Tensor: TypeAlias = Any
Seen: TypeAlias = tuple[Tensor, Tensor]
"""Inputs before and after the actions of a batch, float32 [B, size] each."""


def _present(batch: Mapping[str, Any]) -> Seen:
    return batch["observation"], batch["next_observation"]


class Sight(NamedTuple):
    """Encoder of the inputs of actor and critics."""

    of: Callable[[Mapping[str, Any]], Seen] = _present
    """Function from a batch to the inputs; by default the observations themselves."""
    variables: Sequence[Any] = ()
    """Trained variables of the encoder."""


class Remembered:
    """Hidden layers and an LSTM over observations; its outputs are the inputs of the networks.

    Args:
        name: prefix of the names of the variables.
        size: size of an encoded observation.
        params: parameters of the hidden layers.
        units: units of the LSTM.
        zeros: whether kernels start at zero, for targets.
    """

    def __init__(self, name: str, size: int, params: DenseParams, units: int, *, zeros: bool = False) -> None:
        self._network = RecurrentNetwork(name, [size], {}, params, units, zeros=zeros)
        self.units = units
        self.sight = Sight(self._of, self._network.variables)
        """Encoder of batches with ``sequences`` and ``observations`` [burn_in + L + 1, B, O] to rows [L * B, units]."""

    def step(self, encoded: Tensor, state: State | None) -> tuple[Tensor, State]:
        """Output [B, units] and next state for PREDICT, from observations [B, O] and the state before them.

        A state of None is the initial state of episodes.
        """
        hidden, state = self._network(encoded[None], self._network.lstm.begin(encoded) if state is None else state)
        return hidden[0], state

    def _of(self, batch: Mapping[str, Any]) -> Seen:
        hidden = self._network.unroll(batch["observations"], batch["sequences"])  # [L + 1, B, units]
        return rows(hidden[:-1]), rows(hidden[1:])
