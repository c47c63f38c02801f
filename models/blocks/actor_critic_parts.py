"""The parts of an actor-critic: policy and value networks, with or without an LSTM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ...core.tensorflow_import import tf
from . import rollouts
from .actor_critic_params import PolicyNetworkParams
from .lstm import State
from .networks import Network
from .recurrent import RecurrentNetwork

Tensor: TypeAlias = Any


class Part:
    """The policy or the value network, with or without an LSTM.

    Args:
        name: prefix of the names of the variables.
        shape: shape of an encoded observation.
        size: number of outputs.
        params: parameters of the layers.
        scale: factor of the initial kernels of the body.
        head_scale: factor of the initial kernel of the head.
        shared: another part, to share its layers below the head.
    """

    def __init__(
        self,
        name: str,
        shape: Any,
        size: int,
        params: PolicyNetworkParams,
        scale: float,
        *,
        head_scale: float = 1.0,
        shared: Part | None = None,
    ) -> None:
        below = None if shared is None else shared.network
        scales: dict[str, Any] = {"scale": scale, "head_scale": head_scale}
        self.network: Any
        if params.lstm is None:
            self.network = Network(name, shape, {"head": size}, params, **scales, body=below and below.body)
        else:
            self.network = RecurrentNetwork(name, shape, {"head": size}, params, params.lstm, **scales, below=below)
        self._recurrent = params.lstm is not None
        self._prefix = "" if name == "policy" or shared is not None else f"{name}_"

    @property
    def variables(self) -> list[Any]:
        """Trained variables in the order of creation."""
        found: list[Any] = self.network.variables
        return found

    @property
    def width(self) -> int:
        """Width of the head's input."""
        return int(self.network.width)

    def head(self, hidden: Tensor) -> Tensor:
        """float32 [B, size]."""
        return self.network.heads(hidden)["head"]

    def step(self, encoded: Tensor, state: Mapping[str, Tensor] | None) -> tuple[Tensor, State]:
        """The head's input [B, width], and this part's next recurrent state, empty without an LSTM.

        Args:
            encoded: observations [B, ...].
            state: recurrent state before them, [B, units] by name; None where episodes begin.
        """
        if not self._recurrent:
            return self.network.hidden(encoded), {}
        own = self.network.lstm.begin(encoded) if state is None else self._without_prefix(state)
        hidden, following = self.network(encoded[None], own)
        return hidden[0], self._with_prefix(following)

    def unroll(self, encoded: Tensor, rows: Mapping[str, Any], length: int) -> tuple[Tensor, State | None]:
        """The head's input [B, width], and the recurrent state after each row. The rows must be whole sequences."""
        if not self._recurrent:
            return self.network.hidden(encoded), None
        sequences = encoded.shape[0] // length
        inputs, begins = (
            tf.reshape(swap_axes(values, sequences, length), [length, sequences, *values.shape[1:]])
            for values in (encoded, rows["begins"])
        )
        first = {name: value[::length] for name, value in self._without_prefix(rows["state"]).items()}
        hidden, state = self.network.unrolled(inputs, first, begins)  # [L, S, units] each
        flat = {name: swap_axes(rollouts.rows(values), length, sequences) for name, values in state.items()}
        return swap_axes(rollouts.rows(hidden), length, sequences), self._with_prefix(flat)

    def _without_prefix(self, state: Mapping[str, Tensor]) -> State:
        return {name: state[f"{self._prefix}{name}"] for name in ("hidden", "cell")}

    def _with_prefix(self, state: State) -> State:
        return {f"{self._prefix}{name}": value for name, value in state.items()}


def swap_axes(values: Tensor, first: int, second: int) -> Tensor:
    """Reorder rows [first * second, ...] by the second axis: [second * first, ...]."""
    shape = values.shape[1:]
    swapped = tf.transpose(tf.reshape(values, [first, second, *shape]), [1, 0, *range(2, 2 + len(shape))])
    return tf.reshape(swapped, [-1, *shape])
