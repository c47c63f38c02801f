"""Make a recipe's stepper from its compiled program. Loads no TensorFlow."""

from __future__ import annotations

from pathlib import Path

from ...core import registry
from ...estimators.limits import UpdateSchedule
from ...estimators.stepper import Stepper
from ..catalogue.recipes import Recipe
from .programs import ProgramMissingError, program_of


def discard_weights(recipe: Recipe, programs: Path) -> None:
    """Remove the initial weights of a recipe's seed, which no other agent has, once the agent has a state of its own.

    The weights of the seed that the program was compiled with stay: existing agents are opened with them at first.
    """
    program = program_of(recipe, programs)
    if recipe.seed != program.seed:
        program.weights_path(recipe.seed).unlink(missing_ok=True)


def open_stepper(recipe: Recipe, programs: Path, fresh: bool = True) -> Stepper:
    """A stepper of one lane at timestep zero.

    Args:
        recipe: the agent's recipe.
        programs: the folder of compiled programs.
        fresh: whether its weights must be the initial ones of the recipe's seed; otherwise they are arbitrary, to be
            replaced.

    Raises:
        ProgramMissingError: the program must be built first.
        ValueError: the program is damaged.
    """
    program = program_of(recipe, programs)
    if fresh and not program.weights_path(recipe.seed).exists():
        raise ProgramMissingError(recipe)
    arguments = {name: value for name, value in recipe.memory.items() if name != "kind"}
    memory = registry.find("memory", recipe.memory["kind"])(**arguments)
    schedule = UpdateSchedule(recipe.first_update, recipe.update_frequency)
    seed = recipe.seed if fresh else None
    return Stepper.load(program, memory, lanes=1, seed=seed, schedule=schedule)
