"""The stepper of a recipe, from its compiled program. Loads no TensorFlow."""

from __future__ import annotations

from pathlib import Path

from ...core import registry
from ...estimators.limits import UpdateSchedule
from ...estimators.stepper import Stepper
from ..catalogue.recipes import Recipe
from .programs import ProgramMissingError, program_of


def discard_weights(recipe: Recipe, programs: Path) -> None:
    """Remove the initial weights of a recipe's seed: the agent has a state of its own, and nobody else the seed.

    Those of the seed that the program was compiled with stay: agents that exist are opened with them at first.
    """
    program = program_of(recipe, programs)
    if recipe.seed != program.seed:
        program.weights_path(recipe.seed).unlink(missing_ok=True)


def open_stepper(recipe: Recipe, programs: Path, fresh: bool = True) -> Stepper:
    """A stepper of one lane, as it is at timestep zero.

    Args:
        recipe: of the agent.
        programs: the folder of compiled programs.
        fresh: are its weights to be the initial ones of the recipe's seed? Else they are any, and are to be replaced.

    Raises:
        ProgramMissingError: it must be built first.
        ValueError: it is damaged.
    """
    program = program_of(recipe, programs)
    if fresh and not program.weights_path(recipe.seed).exists():
        raise ProgramMissingError(recipe)
    arguments = {name: value for name, value in recipe.memory.items() if name != "kind"}
    memory = registry.find("memory", recipe.memory["kind"])(**arguments)
    schedule = UpdateSchedule(recipe.first_update, recipe.update_frequency)
    seed = recipe.seed if fresh else None
    return Stepper.load(program, memory, lanes=1, seed=seed, schedule=schedule)
