"""EVAL on batches of the training memory."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..core.protocols import Array
from ..run_dir.generators import evaluation_seed
from .state import TrainingState

if TYPE_CHECKING:
    from ..runtimes.tracing.program import Program

_EVAL_STREAM = 2
"""Stream of :func:`~axonrl.run_dir.generators.evaluation_seed`, which lists them."""
logger = logging.getLogger("axonrl")


class EvalMode:
    """EVAL of a ``model_fn`` on batches of the training memory, without influence on training.

    Batches and noise come from separate generators, seeded by the run's seed and ``global_timestep``.

    Args:
        program: the traced ``model_fn``, including TRAIN; EVAL is traced here.
        seed: the run's seed.

    Raises:
        ValueError: EVAL is invalid.
    """

    def __init__(self, program: Program, seed: int) -> None:
        from ..runtimes.tensorflow import TensorFlowEval

        self._traced = program.trace_eval()
        self._run = TensorFlowEval(program, self._traced)
        self._seed = seed
        self._said_cannot_sample = False

    def __call__(self, state: TrainingState, batches: int) -> dict[str, float]:
        """Means over ``batches`` batches: ``eval_loss``, and ``eval/<name>`` for each of the ``eval_metric_ops``.

        Empty, with one warning, if the memory cannot be sampled.
        """
        stepper = state.stepper
        counters = dataclasses.asdict(stepper.counters)
        if not stepper.memory.can_sample():
            self._warn_cannot_sample(state)
            return {}
        seed = evaluation_seed(self._seed, _EVAL_STREAM, counters["global_timestep"])
        counters["progress"] = stepper.progress
        sampling, noise = np.random.default_rng(seed).spawn(2)
        memory = copy.copy(stepper.memory)  # sampling changes only the copy's bookkeeping
        scalars = []
        with _drawing_like(stepper.generators["memory"], sampling), stepper.lock, self._evaluating(stepper.weights()):
            for _ in range(batches):
                draws = [request.draw(noise) for request in self._traced.noise]
                scalars.append(self._run(memory.sample(), counters, draws))
        means: list[float] = np.array(scalars, np.float64).mean(axis=0).tolist()
        return dict(zip(("eval_loss", *(f"eval/{name}" for name in self._traced.metrics)), means, strict=True))

    @contextlib.contextmanager
    def _evaluating(self, weights: Mapping[str, Array]) -> Iterator[None]:
        """Within the context, TensorFlow's variables are these weights; afterwards they are what they were."""
        before = self._run.get_weights()
        self._run.set_weights(weights)
        try:
            yield
        finally:
            self._run.set_weights(before)

    def _warn_cannot_sample(self, state: TrainingState) -> None:
        if not self._said_cannot_sample:
            self._said_cannot_sample = True
            logger.warning(
                "EVAL is skipped in the evaluation at timestep %d: the memory cannot be sampled%s",
                state.counters.global_timestep,
                " (it is full only at multiples of its size)" if state.stepper.memory.is_rollout else "",
            )


@contextlib.contextmanager
def _drawing_like(generator: np.random.Generator, other: np.random.Generator) -> Iterator[None]:
    """Within the context, make ``generator`` draw what ``other`` would; afterwards its own state is restored."""
    kept = generator.bit_generator.state
    generator.bit_generator.state = other.bit_generator.state
    try:
        yield
    finally:
        generator.bit_generator.state = kept
