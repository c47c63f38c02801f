"""What networks see of observations: those themselves, or what an LSTM remembers of all so far.

An actor and critics behind an LSTM are the ones without it, which see its outputs in place of observations. So an
algorithm is written once for both. Actor and critics share the LSTM, which learns from the critics' loss alone, as the
convolutions of Yarats et al. 2019, https://arxiv.org/abs/1910.01741.
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
"""Before and after the actions of a batch, float32 [B, size] each."""


def _present(batch: Mapping[str, Any]) -> Seen:
    return batch["observation"], batch["next_observation"]


class Sight(NamedTuple):
    """What networks see."""

    of: Callable[[Mapping[str, Any]], Seen] = _present
    """From a batch; observations as they are, unless another function is given."""
    variables: Sequence[Any] = ()
    """What is trained beside the networks."""


class Remembered:
    """Hidden layers and an LSTM, which see observations; networks see its outputs.

    Args:
        name: prefix of the names of the variables.
        size: of an encoded observation.
        params: which hidden layers.
        units: of the LSTM.
        zeros: kernels start at zero, for targets.
    """

    def __init__(self, name: str, size: int, params: DenseParams, units: int, *, zeros: bool = False) -> None:
        self._network = RecurrentNetwork(name, [size], {}, params, units, zeros=zeros)
        self.units = units
        self.sight = Sight(self._of, self._network.variables)
        """Of batches with ``sequences`` and their ``observations`` [burn_in + L + 1, B, O]: rows [L * B, units]."""

    def step(self, encoded: Tensor, state: State | None) -> tuple[Tensor, State]:
        """For PREDICT: from observations [B, O] and the state before them, the output [B, units] and the next state.

        A state of None is that in which episodes begin.
        """
        hidden, state = self._network(encoded[None], self._network.lstm.begin(encoded) if state is None else state)
        return hidden[0], state

    def _of(self, batch: Mapping[str, Any]) -> Seen:
        hidden = self._network.unroll(batch["observations"], batch["sequences"])  # [L + 1, B, units]
        return rows(hidden[:-1]), rows(hidden[1:])
