"""Which compiled program serves a recipe: its own, or one that leaves open in what the two differ."""

from __future__ import annotations

import contextlib
from pathlib import Path

from ...policies import compiled
from ...policies.compiled import CompiledProgram
from ..catalogue.recipes import Recipe


class ProgramMissingError(Exception):
    """There is no compiled program for a recipe, or no initial weights for its seed: the builder makes both.

    Args:
        recipe: the recipe.
    """

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(f"there is no compiled program for a {recipe.model} of these settings")
        self.recipe = recipe


def program_of(recipe: Recipe, programs: Path) -> CompiledProgram:
    """The compiled program that serves a recipe: its own, or another one that leaves open in what the two differ.

    Args:
        recipe: of an agent.
        programs: the folder of compiled programs, each in a folder of the digest of the recipe it was built for.

    Raises:
        ProgramMissingError: there is none.
        ValueError: its own is damaged.
    """
    if (programs / recipe.digest / compiled.FILE).exists():
        return compiled.read(programs / recipe.digest)
    for path in sorted(programs.glob(f"{recipe.family}-*/{compiled.FILE}")):
        with contextlib.suppress(ValueError):  # damaged, or another value makes another program
            return compiled.read(path.parent).with_params(recipe.params)
    raise ProgramMissingError(recipe)
