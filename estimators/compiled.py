"""The model of a run from a compiled program: TensorFlow is not loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.protocols import Array, SpecTree
from ..policies.actor import Actor
from ..policies.compiled import CompiledProgram
from ..policies.description import Normalization, Part
from ..policies.executors import Executor
from ..policies.learner import Learner
from ..policies.modes import TrainMode
from ..policies.reasons import LITERT, RECORDED, TENSORFLOW, Choice, Reason
from ..policies.weight_patches import FrozenActor, FrozenProgram
from .batch_layout import check_batch
from .run import Run

if TYPE_CHECKING:
    from .eval_mode import EvalMode
    from .traced import TracedModel


class CompiledModel:
    """The model in a directory written by ``Agent.compile``.

    Args:
        run: provides the seed and the recorded executors.
        program: the compiled program.
        trace: traces the function, for tasks that need TensorFlow; None if there is no function.
    """

    def __init__(self, run: Run, program: CompiledProgram, trace: Callable[[], TracedModel] | None = None) -> None:
        self._run, self._trace = run, trace
        self.program = program

    def train(self, batch: Mapping[str, SpecTree]) -> TrainMode:
        """TRAIN; ``ValueError`` if it was compiled for other batches."""
        check_batch(self.program, batch)
        return self.program.train

    def choose(self, kept: Mapping[str, str] | None) -> tuple[Executor, Choice]:
        """Choose LiteRT. ``ValueError`` if the run uses TensorFlow, or lacks initial weights for its seed.

        Args:
            kept: the executors recorded by the run.
        """
        run, program = self._run, self.program
        if run.config.runtime == TENSORFLOW or (kept is not None and TENSORFLOW in kept.values()):
            who = "runtime='tensorflow' was given" if kept is None else f"{run.model_dir} was started in TensorFlow"
            raise ValueError(f"{program.directory} is compiled for LiteRT, but {who}: use the Agent without compiled")
        if run.store.newest() is not None and not program.has_seed(run.seed):
            # A resumed run has its weights in its checkpoint.
            weights = {name: np.zeros(spec.shape, spec.dtype) for name, spec in program.variables().items()}
        else:
            weights = program.weights(run.seed)
        reasons = program.why if kept is None else dict.fromkeys(program.why, Reason(RECORDED))
        return Learner(program, weights), Choice(dict.fromkeys(program.why, LITERT), reasons)

    def eval_mode(self) -> EvalMode:
        """EVAL on batches of the memory; ``ValueError`` without a function."""
        if self._trace is None:
            raise ValueError(
                f"mode 'eval' runs in TensorFlow, but {self.program.directory} is compiled without it: leave"
                " eval_batches out of the EvaluationHook, or use the Agent without compiled"
            )
        traced = self._trace()
        if traced.traced is None:
            traced.train(self.program.train.batch)
        return traced.eval_mode()

    def acting_program(self, *, noise: bool = False) -> FrozenProgram | bytes:
        """PREDICT alone; ``noise`` needs a new trace, so ``ValueError`` without a function."""
        if not noise or not self.program.predict.noise:
            return self.program.acting_program()
        if self._trace is None:
            raise ValueError(f"{self.program.directory} was compiled without the noise for acting in training")
        return self._trace().acting_program(noise=True)

    def onnx_model(
        self,
        weights: Mapping[str, Array],
        observation: tuple[Sequence[Part], Mapping[str, Normalization]],
        action_space: Mapping[str, Any],
    ) -> bytes:
        """PREDICT with these weights as an ONNX model; ``ValueError`` without a function."""
        if self._trace is None:
            raise ValueError(
                f"{self.program.directory} is compiled for LiteRT, but ONNX needs the function: leave 'onnx' out of"
                " formats, or use Agent(model_fn, model_dir=...) without compiled"
            )
        return self._trace().onnx_model(weights, observation, action_space)

    def retraced(self) -> Callable[[Mapping[str, Array]], Actor]:
        """Recipe that traces the function in another process; ``ValueError`` without a function."""
        if self._trace is None:
            where = self.program.directory
            raise ValueError(f"{where} is compiled for LiteRT, without a function to run in TensorFlow")
        return self._trace().retraced()

    def frozen(self) -> FrozenActor | None:
        """None: compiled programs act in LiteRT anyway."""
        return None
