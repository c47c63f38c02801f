"""Recurrent layers, over an axis of their inputs or over timesteps.

All loops are unrolled, because gradients of rolled loops do not convert to LiteRT, and windows are short.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import keras
import tensorflow as tf

from ..value_specs import ValueSpec
from .layer import Layer, Step, Tensor, Transform, project

State: TypeAlias = "tuple[Tensor, ...]"
"""The hidden state and, for an LSTM, the cell state; float32 [B, units] each."""


class Cell:
    """A GRU or an LSTM, with Keras' variables and equations.

    Source: Cho et al. 2014, https://arxiv.org/abs/1406.1078 (with the reset gate after the product, as in cuDNN);
    Hochreiter and Schmidhuber 1997, https://doi.org/10.1162/neco.1997.9.8.1735.

    Args:
        layer: owner of the variables.
        kind: ``gru`` or ``lstm``.
        features: size of the inputs.
        units: size of the state.
    """

    def __init__(self, layer: Layer, kind: str, features: int, units: int) -> None:
        self.units = units
        self._kind = kind
        gates = units * {"gru": 3, "lstm": 4}[kind]
        orthogonal = keras.initializers.Orthogonal
        self._kernel = layer.variable("kernel", (features, gates), orthogonal())
        self._recurrent = layer.variable("recurrent_kernel", (units, gates), orthogonal())
        shape, initial = ((2, gates), "zeros") if kind == "gru" else ((gates,), _forget_gates_open)
        self._bias = layer.variable("bias", shape, initial)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one row of the packed state."""
        return (self.units,) if self._kind == "gru" else (2, self.units)

    def unpack(self, state: Tensor) -> State:
        """Unpack a state [B, *shape]."""
        return (state,) if self._kind == "gru" else tuple(tf.unstack(state, axis=1))

    def pack(self, state: State) -> Tensor:
        """Pack a state as [B, *shape]."""
        return state[0] if self._kind == "gru" else tf.stack(state, axis=1)

    def zeros(self, like: Tensor) -> State:
        """The initial state, zeros for each row of a tensor [B, ...]."""
        zeros = tf.zeros([tf.shape(like)[0], self.units])
        return (zeros,) if self._kind == "gru" else (zeros, zeros)

    def steps(self, x: Tensor, length: int) -> list[Tensor]:
        """Projections of inputs [B * length, features], rows sorted by B: [B, gates] for each timestep."""
        bias = tf.convert_to_tensor(self._bias)
        found = project(x, self._kernel) + (bias[0] if self._kind == "gru" else bias)
        if length == 1:
            return [found]
        return list(tf.unstack(tf.reshape(found, [-1, length, found.shape[-1]]), axis=1))

    def __call__(self, step: Tensor, state: State) -> State:
        """The next state; its first tensor is the output."""
        inner = tf.matmul(state[0], tf.convert_to_tensor(self._recurrent))  # [B, gates]
        if self._kind == "gru":
            inner += tf.convert_to_tensor(self._bias)[1]
            update, reset, candidate = tf.split(step, 3, axis=-1)
            inner_update, inner_reset, inner_candidate = tf.split(inner, 3, axis=-1)
            kept = tf.sigmoid(update + inner_update)
            candidate = tf.tanh(candidate + tf.sigmoid(reset + inner_reset) * inner_candidate)
            return (kept * state[0] + (1.0 - kept) * candidate,)
        i, f, g, o = tf.split(step + inner, 4, axis=-1)
        cell = tf.sigmoid(f) * state[1] + tf.sigmoid(i) * tf.tanh(g)
        return tf.sigmoid(o) * tf.tanh(cell), cell

    def unroll(
        self, x: Tensor, length: int, valid: Tensor | None = None, state: Tensor | None = None
    ) -> tuple[list[Tensor], Tensor]:
        """Outputs, [B, units] for each timestep, and the last state [B, *shape].

        Args:
            x: float32 [B * length, features], sorted by rows, then timesteps.
            length: number of timesteps.
            valid: float32 [B, length]; where it is 0 the state stays as it is; None: all are valid.
            state: initial state, float32 [B, *shape]; None: zeros.
        """
        parts, outputs = self.steps(x, length), []
        now = self.zeros(parts[0]) if state is None else self.unpack(state)
        for t, part in enumerate(parts):
            following = self(part, now)
            outputs.append(following[0])
            if valid is not None:  # products with 0 or 1 are exact
                count = valid[:, t : t + 1]
                following = tuple(count * new + (1.0 - count) * old for new, old in zip(following, now, strict=True))
            now = following
        return outputs, self.pack(now)


class Recurrent(Transform):
    """A recurrent layer over the first axis of inputs [N, T, features].

    Returns the final state [N, size] (of an LSTM the hidden and cell states, each of half that size, concatenated), or
    all outputs [N, T, size].
    """

    BIAS = False

    def __init__(
        self, place: str, inputs: ValueSpec, size: int, return_final_state: bool = True, *, cell: str, **ends: Any
    ) -> None:
        super().__init__(place, inputs, size, **ends)
        self._length, features = self.require(2)
        self._final, is_joined = return_final_state, return_final_state and cell == "lstm"
        self._cell = Cell(self, cell, features, self.units // 2 if is_joined else self.units)
        self.ends(*([] if return_final_state else [self._length]), bias="output_bias")

    def _call(self, x: Tensor, step: Step) -> Tensor:
        outputs, state = self._cell.unroll(tf.reshape(x, [-1, self.inputs.shape[-1]]), self._length)
        return self.finish(tf.reshape(state, [-1, self.units]) if self._final else tf.stack(outputs, axis=1), step)


class Internal(Transform):
    """A recurrent layer over timesteps, run with ``cell.unrolled`` and ``finish``; agents call its state an internal.

    Attributes:
        length: timesteps of the windows that it learns from.
        cell: the cell; its ``shape`` is the state's: ``(size,)`` of a GRU, ``(2, size)`` of an LSTM.
    """

    BIAS = False

    def __init__(self, place: str, inputs: ValueSpec, size: int, length: int, *, cell: str, **ends: Any) -> None:
        super().__init__(place, inputs, size, **ends)
        self.length = length
        (features,) = self.require(1)
        self.cell = Cell(self, cell, features, self.units)
        self.ends(bias="output_bias")


def _forget_gates_open(shape: tuple[int, ...], dtype: Any = None) -> Tensor:
    """The initial bias of an LSTM: 1 for the forget gate (Jozefowicz et al. 2015), else 0."""
    units = shape[0] // 4
    return tf.concat([tf.zeros([units]), tf.ones([units]), tf.zeros([2 * units])], axis=0)
