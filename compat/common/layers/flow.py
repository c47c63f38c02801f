"""The data of one call of a network."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from .internal import Internal
from .layer import Step, Tensor


class Flow:
    """The data of one call of a network.

    Args:
        tensors: by name, what can be retrieved: [N, ...], where N is B, or B * ``length`` over windows.
        internals: by name, float32 [B, ...]; None: zeros.
        step: how layers are called.
        length: of windows; 1 for one timestep.
        valid: float32 [B, length]; None: all are.
        remaining: internal layers that have not run yet. After the last of them only the last timestep matters.
    """

    def __init__(
        self,
        tensors: dict[str, Tensor],
        internals: Mapping[str, Tensor] | None,
        step: Step,
        length: int,
        valid: Tensor | None,
        remaining: int,
    ) -> None:
        self.tensors, self.step = tensors, step
        self.x: Tensor = None
        self.following: dict[str, Tensor] = {}
        """The next internals, by name."""
        self._internals, self._length, self._valid, self._remaining = internals, length, valid, remaining
        if not remaining:
            self._keep_last()

    def run_internal(self, layer: Internal, name: str) -> None:
        """Run a layer over the timesteps of the window."""
        state = None if self._internals is None else self._internals[name]
        outputs, self.following[name] = layer.cell.unrolled(self.x, self._length, self._valid, state)
        self._remaining -= 1
        if self._remaining == 0:
            self._keep_last()
        x = tf.reshape(tf.stack(outputs, axis=1), [-1, layer.units]) if self._length > 1 else outputs[-1]
        self.x = layer.finish(x, self.step)

    def _keep_last(self) -> None:
        """Drop all timesteps but the last; a layer is to follow that makes the current tensor."""
        if self._length == 1:
            return
        for name, tensor in self.tensors.items():
            self.tensors[name] = tf.reshape(tensor, [-1, self._length, *tensor.shape[1:]])[:, -1]
        if self._valid is not None:
            self.step = Step(self.step.training, self._valid[:, -1])
        self._length = 1
