"""Learning without TensorFlow: a program that ``Agent.compile`` wrote, run by LiteRT."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..core.protocols import Array
from . import compiled
from .compiled import CompiledProgram
from .lite_executor import LiteRTExecutor


class Learner(LiteRTExecutor):
    """A compiled program that acts and learns; its weights are inside.

    It computes, and no more: a :class:`~axonrl.estimators.stepper.Stepper` joins it with memory, exploration,
    generators and schedule, and ``Agent(None, compiled=directory, memory=...)`` gives it the whole life of a run.

    Example::

        learner = Learner.load("compiled", seed=3)
        predictions, state = learner.act(observations)
        result = learner.train(batch, {"global_step": 0, "global_timestep": 32, "progress": 0.0}, draws=[])

    Args:
        program: what was compiled.
        weights: what the variables are at first.
    """

    def __init__(self, program: CompiledProgram, weights: Mapping[str, Array]) -> None:
        self.program = program
        try:
            super().__init__(program, program.train, program.program(), weights)
        except (IndexError, KeyError, RuntimeError) as error:
            raise ValueError(f"{program.directory / compiled.PROGRAM} is not what is described: {error!r}") from error

    @classmethod
    def load(cls, directory: str | Path, seed: int | None = None) -> Learner:
        """The program in a directory, with the initial weights of a run.

        Args:
            directory: written by ``Agent.compile``.
            seed: of the run; None for the one that it was compiled with.

        Raises:
            ValueError: a file is missing, damaged or of other versions (names it); there are no initial weights for
                this seed (says for which there are).
        """
        program = compiled.read(directory)
        return cls(program, program.weights(program.seed if seed is None else seed))
