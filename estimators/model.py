"""The model of a run: a program and its executor."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.protocols import Array, SpecTree
from ..policies.actor import ActorProgram
from ..policies.behaviour import zero_state
from ..policies.description import Normalization, Part
from ..policies.executors import Acted, Executor
from ..policies.modes import ModelProgram, PredictMode, TrainMode
from ..policies.reasons import LITERT, Choice
from ..policies.weight_patches import FrozenActor, FrozenProgram
from ..run_dir.snapshot import PolicySnapshot
from .failures import refuse_non_finite
from .run import Run

if TYPE_CHECKING:
    from .compiled import CompiledModel
    from .eval_mode import EvalMode
    from .traced import TracedModel

logger = logging.getLogger("axonrl")
Act = Callable[..., Acted]
"""Maps features [N, ...] to predictions and the next recurrent state."""


class Model:
    """The program of a run, traced for its spaces or compiled before, and its executor.

    Args:
        run: provides the program, and the recorded executors.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.lock = threading.RLock()
        """Held during use of an executor, as all executors of this model share variables."""
        self._executor: Executor | None = None
        self._trains = False

    @functools.cached_property
    def _source(self) -> TracedModel | CompiledModel:
        if self._run.compiled is not None:
            from .compiled import CompiledModel

            return CompiledModel(self._run, self._run.compiled)
        from .traced import TracedModel

        traced = TracedModel(self._run)
        self._run.spaces_fixed = True
        return traced

    @property
    def program(self) -> ModelProgram:
        """The traced or compiled program."""
        return self._source.program

    @property
    def executor(self) -> Executor:
        """Executor for acting; also for learning after :meth:`prepare_training`."""
        if self._executor is None:
            run = self._run
            kept = run.record.runtime if run.record is not None and run.config.runtime == "auto" else None
            self._executor, _ = self._choose(kept)
        return self._executor

    def prepare_training(self, batch: Mapping[str, SpecTree]) -> tuple[TrainMode, Executor, Choice]:
        """TRAIN for these batches, and its executor: the recorded one, if there is a record.

        Raises:
            ValueError: the function is invalid, or the run was started with another runtime.
        """
        train = self._source.train(batch)
        run = self._run
        runtime, kept = run.config.runtime, None if run.record is None else run.record.runtime
        if kept is not None and runtime != "auto" and set(kept.values()) != {runtime}:
            started = ", ".join(f"the {part} in {kind}" for part, kind in kept.items())
            raise ValueError(
                f"{run.model_dir} was started with {started}; got runtime={runtime!r}: choose another model_dir"
            )
        self._executor, choice = self._choose(kept)
        self._trains = True
        return train, self._executor, choice

    def _choose(self, kept: Mapping[str, str] | None) -> tuple[Executor, Choice]:
        executor, choice = self._source.choose(kept)
        logger.info("%s", choice)
        return executor, choice

    def eval_mode(self) -> EvalMode:
        """EVAL on batches of the memory, after :meth:`prepare_training`. ``ValueError`` if there is none."""
        return self._source.eval_mode()

    def actor(self, policy: PolicySnapshot, runtime: str = LITERT) -> ActorProgram:
        """PREDICT with a policy's weights, to be sent to a process that acts during training.

        Args:
            policy: provides the weights.
            runtime: ``"litert"``, without TensorFlow; ``"tensorflow"`` traces the function again in the other process.

        Raises:
            ValueError: LiteRT cannot run it (names the op); or it is compiled, so there is no function.
        """
        program, source = self.program, self._source
        mode = {field.name: getattr(program.predict, field.name) for field in dataclasses.fields(PredictMode)}
        return ActorProgram(
            name=program.name,
            predict=PredictMode(**{**mode, "evaluation_hooks": ()}),  # without the traced function
            variables_of_predict=program.predict_variables(),
            content=source.acting_program(noise=True) if runtime == LITERT else source.retraced(),
            weights=self.predict_weights(policy),
            version=policy.counters.global_step,
            action_space=self._run.config.action_space,
        )

    def acting_program(self) -> FrozenProgram | bytes:
        """PREDICT alone in LiteRT, for export.

        Returns:
            A frozen program if that is faster and possible; otherwise the content of a file whose weights are set by
            the signature ``set``.

        Raises:
            ValueError: LiteRT cannot run it (names the op).
        """
        return self._source.acting_program()

    def onnx_model(
        self,
        policy: PolicySnapshot,
        observation: tuple[Sequence[Part], Mapping[str, Normalization]],
        action_space: Mapping[str, Any],
    ) -> bytes:
        """PREDICT with a policy's weights as an ONNX model, from raw observations to the environment's actions.

        Args:
            policy: provides the weights.
            observation: its arrays, and their preprocessing.
            action_space: attributes of the action space.

        Raises:
            ValueError: ONNX lacks an op (names it); or the model is compiled, so there is no function.
        """
        return self._source.onnx_model(self.predict_weights(policy), observation, action_space)

    def fresh_state(self, size: int) -> dict[str, Array] | None:
        """Zeros [size, ...] for each recurrent state; None if the model has none."""
        return zero_state(self.program.predict.state, size)

    @contextlib.contextmanager
    def acting(self, policy: PolicySnapshot, *, resting: bool = False) -> Iterator[Act]:
        """Act with a policy's weights; other threads wait. An executor in training gets its weights back afterwards.

        Args:
            policy: provides the weights.
            resting: may a frozen program act? It is faster if the same weights act for long.

        Raises:
            ValueError: the weights belong to another model.
            NonFiniteError: a weight is NaN or infinite.
        """
        with self.lock:
            executor = self.executor
            weights = self.predict_weights(policy)
            if resting and self._frozen is not None:
                self._frozen.set_weights(weights)
                yield self._frozen.act
                return
            own = executor.get_predict_weights()
            if all(np.array_equal(own[name], value) for name, value in weights.items()):
                yield executor.act
                return
            executor.set_weights(weights)
            try:
                yield executor.act
            finally:
                if self._trains:
                    executor.set_weights(own)

    def predict_weights(self, policy: PolicySnapshot) -> dict[str, Array]:
        """The weights PREDICT uses; errors as for :meth:`acting`."""
        names = self.executor.get_predict_weights()
        missing = [name for name in names if name not in policy.weights]
        if missing:
            raise ValueError(
                f"the policy {policy.name!r} of {self._run.model_dir} does not fit {self.program.name}: it lacks"
                f" {', '.join(missing)} and has {', '.join(sorted(policy.weights))}. Are model_fn and params those of"
                " the training?"
            )
        weights = {name: policy.weights[name] for name in names}
        refuse_non_finite(weights, f"in the policy {policy.name!r} of {self._run.model_dir}")
        return weights

    @functools.cached_property
    def _frozen(self) -> FrozenActor | None:
        return self._source.frozen()
