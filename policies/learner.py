"""Learning without TensorFlow: runs a program of ``Agent.compile`` in LiteRT."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..core.protocols import Array
from . import compiled
from .compiled import CompiledProgram
from .lite_executor import LiteRTExecutor


class Learner(LiteRTExecutor):
    """A compiled program that acts and learns, with its weights inside.

    It only computes: a :class:`~axonrl.estimators.stepper.Stepper` adds memory, exploration, generators and schedule,
    and ``Agent(None, compiled=directory, memory=...)`` is a complete run.

    Example::

        learner = Learner.load("compiled", seed=3)
        predictions, state = learner.act(observations)
        result = learner.train(batch, {"global_step": 0, "global_timestep": 32, "progress": 0.0}, draws=[])

    Args:
        program: the compiled program.
        weights: initial values of the variables.
    """

    def __init__(self, program: CompiledProgram, weights: Mapping[str, Array]) -> None:
        self.program = program
        try:
            super().__init__(program, program.train, program.program(), weights)
        except (IndexError, KeyError, RuntimeError) as error:
            raise ValueError(
                f"{program.directory / compiled.PROGRAM} does not match its description: {error!r}"
            ) from error

    @classmethod
    def load(cls, directory: str | Path, seed: int | None = None) -> Learner:
        """Load the program in a directory, with the initial weights of a run.

        Args:
            directory: written by ``Agent.compile``.
            seed: seed of the run; None for that of the compilation.

        Raises:
            ValueError: a file is missing, damaged or made by other versions (names it); there are no initial weights
                for this seed (lists those there are).
        """
        program = compiled.read(directory)
        return cls(program, program.weights(program.seed if seed is None else seed))
