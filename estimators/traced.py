"""The model of a run, traced from its ``model_fn``."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..core.initializers import model_seed
from ..core.protocols import Array, SpecTree
from ..core.tensorflow_import import load_tensorflow
from ..environments import spaces
from ..policies.description import Normalization, Part
from ..policies.executors import Executor
from ..policies.reasons import Choice
from ..policies.weight_patches import FrozenActor, FrozenProgram
from ..run_dir.programs import shared_content
from ..runtimes.tracing.signature import BoundModelFn
from .run import Run

if TYPE_CHECKING:
    from ..runtimes.remote_trace import Retraced
    from ..runtimes.tracing.program import Program, Train
    from .eval_mode import EvalMode

logger = logging.getLogger("axonrl")


class TracedModel:
    """Tracing, conversion and execution in TensorFlow.

    Args:
        run: provides the function, its params, the spaces and the seed.

    Raises:
        ValueError: the function is invalid.
    """

    def __init__(self, run: Run) -> None:
        load_tensorflow()
        from ..runtimes.tracing.program import Program as Traced

        if run.config.observation_space is None or run.model_fn is None:
            raise ValueError(f"{run.model_dir} holds no run yet: its spaces are not known")
        self._bound = BoundModelFn(run.model_fn, run.params, run.config, run.model_dir)
        self._run = run
        self._observation = spaces.observation_spec(run.config.observation_space)
        self.program = Traced(self._bound, self._observation, model_seed(run.seed))
        self._train: Train | None = None

    @property
    def traced(self) -> tuple[Program, Train] | None:
        """PREDICT and TRAIN; None before :meth:`train`."""
        return None if self._train is None else (self.program, self._train)

    def train(self, batch: Mapping[str, SpecTree]) -> Train:
        """TRAIN for these batches."""
        self._train = self.program.trace_train(batch)
        return self._train

    def choose(self, kept: Mapping[str, str] | None) -> tuple[Executor, Choice]:
        """Choose the executor of PREDICT, and of TRAIN once traced; ``kept`` are the recorded executors."""
        from ..runtimes.executor_choice import choose

        return choose(self.program, self._train, self._run.config.runtime, kept, shared_content)

    def eval_mode(self) -> EvalMode:
        """EVAL on batches of the memory."""
        from .eval_mode import EvalMode

        return EvalMode(self.program, self._run.seed)

    def acting_program(self, *, noise: bool = False) -> FrozenProgram | bytes:
        """PREDICT alone in LiteRT, with or without noise for training; ``ValueError`` if LiteRT cannot run it."""
        from ..runtimes.frozen import acting_program

        return acting_program(self.program, shared_content, noise=noise)

    def onnx_model(
        self,
        weights: Mapping[str, Array],
        observation: tuple[Sequence[Part], Mapping[str, Normalization]],
        action_space: Mapping[str, Any],
    ) -> bytes:
        """PREDICT with these weights as an ONNX model; ``ValueError`` if ONNX lacks an op."""
        from ..runtimes.onnx_conversion import onnx_model

        return onnx_model(self.program, weights, observation, action_space)

    def retraced(self) -> Retraced:
        """Recipe that traces the function again in another process, to make an executor."""
        from ..runtimes.remote_trace import Retraced

        return Retraced(self._bound, self._observation, model_seed(self._run.seed))

    def frozen(self) -> FrozenActor | None:
        """LiteRT with constant weights, for a run that acts in TensorFlow only because its model is large.

        Depends only on the run's record and the model, so that it is the same after a resume.
        """
        from ..runtimes.frozen import freeze, pays
        from ..runtimes.litert.conversion import ConversionError

        predict, started = self.program.predict, self._run.record
        if self._run.config.runtime != "auto" or not pays(predict):
            return None
        if started and started.runtime_why.get("actor", {}).get("code") != "large":
            return None
        try:
            content = freeze(self.program, shared_content)
        except ConversionError as error:
            logger.info("Evaluation uses TensorFlow: %s", error)
            return None
        logger.info("Evaluation uses a frozen LiteRT program.")
        state = None if predict.state is None else sorted(predict.state)
        return FrozenActor(content, sorted(predict.outputs), state, num_threads=min(2, os.cpu_count() or 1))
