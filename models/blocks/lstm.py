"""An LSTM layer, unrolled over time.

Shapes in comments: T timesteps, B sequences in parallel, U units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ...core.initializers import Initializer
from ...core.tensorflow_import import keras, tf

Tensor: TypeAlias = Any
State: TypeAlias = "dict[str, Tensor]"
"""State of an LSTM: ``hidden`` and ``cell``, float32 [B, units] each."""


class LSTM:
    """An LSTM with Keras' variables and initial values, and its own loop over time.

    The loop is unrolled, because gradients of rolled loops do not convert to LiteRT. Small networks spend their time on
    op overhead rather than arithmetic, so everything that needs no recurrent state is computed for all timesteps at
    once, in the gradient too. No gradient flows through the cells that a call and :meth:`unrolled` return.

    Source: Hochreiter and Schmidhuber 1997, https://doi.org/10.1162/neco.1997.9.8.1735; with forget gates, Gers et al.
    2000, https://doi.org/10.1162/089976600300015015.

    Args:
        inputs: features of one timestep.
        units: size of the state.
        initializer: initialiser of the kernel; ``"zeros"`` makes all kernels zero.
    """

    def __init__(self, inputs: int, units: int, initializer: str) -> None:
        recurrent = Initializer("zeros" if initializer == "zeros" else "orthogonal")
        kernel = Initializer(initializer)
        layer = keras.layers.LSTMCell(units, kernel_initializer=kernel, recurrent_initializer=recurrent, name="lstm")
        layer.build((None, inputs))
        self.units = units
        self.variables: list[Any] = list(layer.trainable_variables)

    def begin(self, batch: Tensor) -> State:
        """Initial state of episodes: zeros, with the rows of a tensor [B, ...]."""
        zeros = tf.zeros([tf.shape(batch)[0], self.units])
        return {"hidden": zeros, "cell": zeros}

    def __call__(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Outputs float32 [T, B, units], and the state after the last timestep.

        Args:
            inputs: float32 [T, B, features]; T is static.
            state: before the first timestep.
        """
        outputs, cells = _unroll(*self._project(inputs), state["hidden"], state["cell"], None)
        return outputs, {"hidden": outputs[-1], "cell": cells[-1]}

    def unrolled(self, inputs: Tensor, state: State, begins: Tensor) -> tuple[Tensor, State]:
        """Outputs, and the state after every timestep, float32 [T, B, units].

        Args:
            inputs: as for a call.
            state: before the first timestep.
            begins: float32 [T, B]; 1 where an episode begins, so that the state before the timestep is zero.
        """
        outputs, cells = _unroll(*self._project(inputs), state["hidden"], state["cell"], begins)
        return outputs, {"hidden": outputs, "cell": cells}

    def after(self, inputs: Tensor, state: State, valid: Tensor) -> State:
        """The state after the last timestep, with some timesteps skipped.

        Args:
            inputs: as for a call.
            state: before the first timestep.
            valid: float32 [T, B]; a timestep with 0 leaves the state unchanged.
        """
        projected, recurrent_kernel = self._project(inputs)
        hidden, cell = state["hidden"], state["cell"]
        for step, counts in zip(tf.unstack(projected), tf.unstack(valid[..., tf.newaxis]), strict=True):
            i, f, g, o = _gates(step + tf.matmul(hidden, recurrent_kernel))
            next_cell = f * cell + i * g
            hidden = counts * o * tf.tanh(next_cell) + (1.0 - counts) * hidden
            cell = counts * next_cell + (1.0 - counts) * cell
        return {"hidden": hidden, "cell": cell}

    def _project(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The inputs' contribution to the gates, [T, B, 4 U], and the recurrent kernel."""
        length, features = inputs.shape[0], inputs.shape[-1]
        batch = -1 if inputs.shape[1] is None else inputs.shape[1]
        kernel, recurrent_kernel, bias = (tf.convert_to_tensor(variable) for variable in self.variables)
        projected = tf.matmul(tf.reshape(inputs, [-1, features]), kernel) + bias
        return tf.reshape(projected, [length, batch, 4 * self.units]), recurrent_kernel


def _gates(values: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Input, forget, candidate and output, [B, U] each, in Keras' order."""
    i, f, g, o = tf.split(values, 4, axis=-1)
    return tf.sigmoid(i), tf.sigmoid(f), tf.tanh(g), tf.sigmoid(o)


def _unroll(
    projected: Tensor, recurrent_kernel: Tensor, hidden: Tensor, cell: Tensor, begins: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Outputs and cells after every timestep, [T, B, U] each; gradients flow through the outputs only.

    Args:
        projected: [T, B, 4 U].
        recurrent_kernel: [U, 4 U].
        hidden: before the first timestep, [B, U].
        cell: before the first timestep, [B, U].
        begins: [T, B] or None, 1 where the state before a timestep is zero.
    """
    goes_on = None if begins is None else tf.unstack(1.0 - begins[..., tf.newaxis])  # products with 0 or 1 are exact

    def zero_at_begins(values: Tensor, t: int) -> Tensor:
        return values if goes_on is None else goes_on[t] * values

    def run(projected: Tensor, recurrent_kernel: Tensor, hidden: Tensor, cell: Tensor) -> Any:
        before: list[tuple[Tensor, Tensor]] = []  # hidden and cell
        gates, cells, squashed, outputs = [], [], [], []
        for t, step in enumerate(tf.unstack(projected)):
            before.append((zero_at_begins(hidden, t), zero_at_begins(cell, t)))
            hidden, cell = before[-1]
            i, f, g, o = _gates(step + tf.matmul(hidden, recurrent_kernel))
            cell = f * cell + i * g
            squashed.append(tf.tanh(cell))
            hidden = o * squashed[-1]
            gates.append((i, f, g, o))
            cells.append(cell)
            outputs.append(hidden)

        def gradient(by_output: Tensor, _: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
            return _gradient(by_output, recurrent_kernel, gates, before, squashed, zero_at_begins)

        return (tf.stack(outputs), tf.stack(cells)), gradient

    outputs, cells = tf.custom_gradient(run)(projected, recurrent_kernel, hidden, cell)
    return outputs, tf.stop_gradient(cells)


def _gradient(
    by_output: Tensor,
    recurrent_kernel: Tensor,
    gates: Sequence[tuple[Tensor, ...]],
    before: Sequence[tuple[Tensor, Tensor]],
    squashed: Sequence[Tensor],
    zero_at_begins: Callable[[Tensor, int], Tensor],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients with respect to the first four arguments of :func:`_unroll`.

    Args:
        by_output: gradients with respect to the outputs, [T, B, U].
        recurrent_kernel: [U, 4 U].
        gates: gates of each timestep, [B, U] each.
        before: hidden and cell before each timestep, [B, U] each.
        squashed: tanh of the cell after each timestep, [B, U].
        zero_at_begins: from the state before a timestep, and its number, to the state with zeros where episodes begin.
    """
    i, f, g, o = (tf.stack(each) for each in zip(*gates, strict=True))
    hidden_before, cell_before = (tf.stack(each) for each in zip(*before, strict=True))
    tanh_cell = tf.stack(squashed)
    slopes = [g * i * (1 - i), cell_before * f * (1 - f), i * (1 - tf.square(g)), tanh_cell * o * (1 - o)]
    by_gate = tf.unstack(tf.concat(slopes, -1))  # [B, 4 U]: of the cell, and last of the output
    by_cell = tf.unstack(o * (1 - tf.square(tanh_cell)))
    steps, forget, transposed = tf.unstack(by_output), tf.unstack(f), tf.transpose(recurrent_kernel)
    by_projected: list[Tensor] = []
    d_hidden = d_cell = tf.zeros_like(squashed[0])
    for t in reversed(range(len(gates))):
        d_hidden += steps[t]
        d_cell += d_hidden * by_cell[t]
        by_projected.insert(0, tf.concat([d_cell, d_cell, d_cell, d_hidden], -1) * by_gate[t])
        d_hidden = zero_at_begins(tf.matmul(by_projected[0], transposed), t)
        d_cell = zero_at_begins(d_cell * forget[t], t)
    found = tf.stack(by_projected)
    width, units = found.shape[-1], transposed.shape[-1]
    rows = tf.reshape(hidden_before, [-1, units]), tf.reshape(found, [-1, width])
    return found, tf.matmul(*rows, transpose_a=True), d_hidden, d_cell
