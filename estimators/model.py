"""The model of a run: what was traced, and the executor that runs it."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..contracts import Array, SpecTree
from ..environments import spaces
from ..policies.executors import Acted, Executor
from ..quiet import load_tensorflow
from ..runs.seeding import model_seed
from ..runs.snapshot import PolicySnapshot
from ..runtimes.tracing.signature import BoundModelFn
from .failures import refuse_non_finite
from .run import Run
from .stepping import zero_state

if TYPE_CHECKING:
    from ..policies.patching import FrozenActor
    from ..runtimes.choosing import Choice
    from ..runtimes.tracing.program import Program, Train

logger = logging.getLogger("axonrl")
Act = Callable[..., Acted]
"""Features [N, ...] to predictions, and the next recurrent state."""


class Model:
    """A ``model_fn`` traced for a run's spaces, with the executor that was chosen for it.

    Args:
        run: gives the function, its params and the spaces; keeps converted programs.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._executor: Executor | None = None
        self._trains = False

    @functools.cached_property
    def program(self) -> Program:
        """The traced program: PREDICT; TRAIN and EVAL when they are asked for."""
        load_tensorflow()
        from ..runtimes.tracing.program import Program

        run = self._run
        if run.config.observation_space is None:
            raise ValueError(f"{run.model_dir} holds no run yet: its spaces are not known")
        bound = BoundModelFn(run.model_fn, run.params, run.config, run.model_dir)
        program = Program(bound, spaces.observation_spec(run.config.observation_space), model_seed(run.seed))
        run.spaces_fixed = True
        return program

    @property
    def executor(self) -> Executor:
        """What acts; also what learns, once :meth:`prepare_training` was called."""
        if self._executor is None:
            run = self._run
            kept = run.record.runtime if run.record is not None and run.config.runtime == "auto" else None
            self._executor, _ = self._choose(None, kept)
        return self._executor

    def prepare_training(self, batch: Mapping[str, SpecTree]) -> tuple[Train, Executor, Choice]:
        """Trace TRAIN for these batches, and choose what runs it: what the run was started with, if it was.

        Raises:
            ValueError: the function breaks the contract, or the run was started with another runtime.
        """
        train = self.program.trace_train(batch)
        run = self._run
        runtime, kept = run.config.runtime, None if run.record is None else run.record.runtime
        if kept is not None and runtime != "auto" and set(kept.values()) != {runtime}:
            started = ", ".join(f"the {part} in {kind}" for part, kind in kept.items())
            raise ValueError(
                f"{run.model_dir} was started with {started}; got runtime={runtime!r}: choose another model_dir"
            )
        self._executor, choice = self._choose(train, kept)
        self._trains = True
        return train, self._executor, choice

    def _choose(self, train: Train | None, kept: Mapping[str, str] | None) -> tuple[Executor, Choice]:
        from ..runtimes.choosing import choose

        executor, choice = choose(self.program, train, self._run.config.runtime, kept, self._run.programs)
        logger.info("%s", choice)
        return executor, choice

    def fresh_state(self, size: int) -> dict[str, Array] | None:
        """Zeros [size, ...] for each recurrent state; None if the model has none."""
        return zero_state(self.program.predict.state, size)

    @contextlib.contextmanager
    def acting(self, policy: PolicySnapshot, *, resting: bool = False) -> Iterator[Act]:
        """What acts with a policy's weights. An executor that trains has its own weights again afterwards.

        Args:
            policy: whose weights.
            resting: may a frozen program act, which pays where the same weights act for long?

        Raises:
            ValueError: these are another model's weights.
            NonFiniteError: a weight is NaN or infinite.
        """
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
        """Those of a policy's weights that PREDICT uses; errors as for :meth:`acting`."""
        names = self.executor.get_predict_weights()
        missing = [name for name in names if name not in policy.weights]
        if missing:
            raise ValueError(
                f"the policy {policy.name!r} of {self._run.model_dir} does not fit {self.program.name}: missing are"
                f" {', '.join(missing)}; it has {', '.join(sorted(policy.weights))}. Are model_fn and params those of"
                " the training?"
            )
        weights = {name: policy.weights[name] for name in names}
        refuse_non_finite(weights, f"in the policy {policy.name!r} of {self._run.model_dir}")
        return weights

    @functools.cached_property
    def _frozen(self) -> FrozenActor | None:
        """LiteRT with constant weights, for a run that acts in TensorFlow only because its model is large.

        It follows from the run's record and from the model, so that it is the same after a resume.
        """
        from ..policies.patching import FrozenActor
        from ..runtimes.frozen import freeze, pays
        from ..runtimes.litert.conversion import ConversionError

        predict, started = self.program.predict, self._run.record
        if self._run.config.runtime != "auto" or not pays(predict):
            return None
        if started and started.runtime_why.get("actor", {}).get("code") != "large":
            return None
        try:
            content = freeze(self.program, self._run.programs)
        except ConversionError as error:
            logger.info("Evaluation uses TensorFlow: %s", error)
            return None
        logger.info("Evaluation uses a frozen LiteRT program.")
        state = None if predict.state is None else sorted(predict.state)
        return FrozenActor(content, sorted(predict.outputs), state, num_threads=min(2, os.cpu_count() or 1))
