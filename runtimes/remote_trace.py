"""Acting in another process with TensorFlow, which receives the function and traces it again."""

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
    """Makes an executor from a ``model_fn``, for models that LiteRT cannot run. The function is sent by name.

    Args:
        bound: the function with its params.
        observation: specs of one environment's observation.
        seed: seed of the initial weights, which will be replaced.
    """

    bound: BoundModelFn
    observation: SpecTree
    seed: int

    def __call__(self, weights: Mapping[str, Array]) -> TensorFlowExecutor:
        """Make an executor with these weights of PREDICT."""
        load_tensorflow()
        executor = TensorFlowExecutor(Program(self.bound, self.observation, self.seed))
        executor.set_weights(weights)
        return executor
