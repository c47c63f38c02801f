"""Acting in another process that loads TensorFlow: the function is sent, and traced again there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ..core.protocols import Array, SpecTree
from ..core.tensorflow_import import load_tensorflow
from .tensorflow import TensorFlowExecutor
from .tracing.program import Program
from .tracing.signature import BoundModelFn


@dataclasses.dataclass(frozen=True)
class Retraced:
    """Makes an executor of a ``model_fn``; for models that LiteRT does not run. It is sent as the function's name.

    Args:
        bound: the function with its params.
        observation: specs of one environment's observation.
        seed: of the initial weights, which are replaced.
    """

    bound: BoundModelFn
    observation: SpecTree
    seed: int

    def __call__(self, weights: Mapping[str, Array]) -> TensorFlowExecutor:
        """What acts with these weights of PREDICT."""
        load_tensorflow()
        executor = TensorFlowExecutor(Program(self.bound, self.observation, self.seed))
        executor.set_weights(weights)
        return executor
