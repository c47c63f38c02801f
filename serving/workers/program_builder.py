"""Build the compiled program of a recipe. Loads TensorFlow when called, if the cache does not have the program."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

from ...core.errors import ArgumentError, CheckpointError
from ..catalogue import hosted
from ..catalogue.recipes import Recipe
from ..hosting.programs import ProgramMissingError, compile_program, program_of
from ..refusals import RefusedError

logger = logging.getLogger("axonrl.serving")


def build(recipe: Recipe, programs: Path) -> tuple[bool, str]:
    """Build the program of a recipe, if it is missing.

    Args:
        recipe: an agent's recipe.
        programs: the folder of all programs.

    Returns:
        Whether it was compiled now, and the name of its folder: the digest of this recipe, or of another that it
        serves.

    Raises:
        ValueError: the model cannot be compiled, or a parameter is invalid.
        CheckpointError: it cannot be written.
    """
    name = _existing(recipe, programs)
    if name is not None:
        return False, name
    compile_program(recipe, programs, traces=True)
    return True, recipe.digest


def refusal(recipe: Recipe | None, error: Exception) -> RefusedError:
    """The answer to a recipe whose program could not be built."""
    match error:
        case ValueError():
            names = hosted.documented(recipe.model) if recipe is not None and recipe.model in hosted.MODELS else {}
            argument = names.get(error.argument) if isinstance(error, ArgumentError) else None
            where = "config" if argument is None else f"config.{argument}"
            return RefusedError("invalid_value", str(error), [(where, str(error))])
        case CheckpointError() | OSError():
            cause = error if isinstance(error, OSError) else error.__cause__
            if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
                return RefusedError("storage_full", "there is no space left for the program of this agent")
            logger.error("a program cannot be written", exc_info=error)
            return RefusedError("unavailable", "the program of this agent cannot be written just now")
    logger.error("a program cannot be built", exc_info=error)
    return RefusedError("internal", f"building the program failed: {type(error).__name__}")


def _existing(recipe: Recipe, programs: Path) -> str | None:
    """Name of the program that serves a recipe; None if there is none, or if it is damaged."""
    try:
        program = program_of(recipe, programs)
        program.program()
    except ProgramMissingError:
        return None
    except ValueError as error:
        logger.warning("%s is built again: %s", recipe.digest, error)
        return None
    return program.directory.name if program.has_seed(recipe.seed) else None
