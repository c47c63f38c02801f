"""A picklable actor for a process that acts in training. Does not load TensorFlow itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ..core.protocols import Array
from .executors import Acted, Features
from .lite_executor import LiteRTExecutor
from .modes import PredictMode, VariableSpec
from .weight_patches import FrozenActor, FrozenProgram


class Actor(Protocol):
    """Runs PREDICT."""

    def act(self, features: Features, draws: Sequence[Array] = ()) -> Acted:
        """See :meth:`axonrl.policies.executors.Executor.act`."""

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set PREDICT's variables."""


@dataclasses.dataclass(frozen=True)
class ActorProgram:
    """PREDICT as a program, with its exploration and its weights.

    Args:
        name: name of the ``model_fn``, for messages.
        predict: the acting mode, without hooks.
        variables_of_predict: PREDICT's variables by name, in order.
        content: a LiteRT file; a frozen program, if the weights are constants; or, for models that LiteRT cannot run, a
            function from weights to an executor.
        weights: initial values of the variables.
        version: ``global_step`` of these weights.
        action_space: the action space of one environment.
    """

    name: str
    predict: PredictMode
    variables_of_predict: Mapping[str, VariableSpec]
    content: bytes | FrozenProgram | Callable[[Mapping[str, Array]], Actor]
    weights: Mapping[str, Array]
    version: int
    action_space: Any

    def variables(self) -> Mapping[str, VariableSpec]:
        """Variables of PREDICT."""
        return self.variables_of_predict

    def predict_variables(self) -> Mapping[str, VariableSpec]:
        """Variables of PREDICT."""
        return self.variables_of_predict

    def executor(self) -> Actor:
        """Make the executor, with the weights.

        Raises:
            ValueError: LiteRT cannot load the program, or the weights do not match.
        """
        if isinstance(self.content, bytes):
            return LiteRTExecutor(self, None, self.content, self.weights)
        if not isinstance(self.content, FrozenProgram):
            return self.content(self.weights)
        state = None if self.predict.state is None else sorted(self.predict.state)
        actor = FrozenActor(self.content, sorted(self.predict.outputs), state, num_threads=1)
        actor.set_weights(self.weights)
        return actor
