"""The builder: a process that compiles programs, and ends after a while without work.

A request is a recipe: have its program. The answer is ``{"digest", "built"}``, or a failure in the form of workers.
"""

from __future__ import annotations

import errno
import json
import logging
import socket
import sys
from pathlib import Path
from typing import Final

from ...core.errors import ArgumentError, CheckpointError
from ...core.tensorflow_import import load_tensorflow
from .. import logs
from ..catalogue import hosted
from ..catalogue.recipes import Recipe
from ..hosting.programs import ProgramMissingError, compile_program, program_of
from ..refusals import RefusedError
from .messages import Frame, answer, read, refusal, wait_for

IDLE_SECONDS: Final = 60.0
logger = logging.getLogger("axonrl.serving")


def build(recipe: Recipe, programs: Path) -> tuple[bool, str]:
    """Build the program of a recipe, if it is missing or damaged. Loads TensorFlow, if the cache does not have it.

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
    try:
        program = program_of(recipe, programs)
        program.program()
        if program.has_seed(recipe.seed):
            return False, program.directory.name
    except ProgramMissingError:
        pass
    except ValueError as error:
        logger.warning("%s is built again: %s", recipe.digest, error)
    compile_program(recipe, programs, traces=True)
    return True, recipe.digest


def serve(connection: socket.socket, programs: Path, idle_seconds: float = IDLE_SECONDS) -> None:
    """Answer one request after the other, until the gateway is gone, or there has been no work for a while.

    Args:
        connection: socket to the gateway.
        programs: the folder of all programs.
        idle_seconds: time without work after which this ends.
    """
    while wait_for([connection], idle_seconds) and (frame := read(connection)):
        connection.sendall(_respond(frame, programs))


def _respond(frame: Frame, programs: Path) -> bytes:
    recipe: Recipe | None = None
    try:
        recipe = Recipe.from_json(json.loads(frame.body))
        built, digest = build(recipe, programs)
        return answer(frame.head, 200, json.dumps({"digest": digest, "built": built}).encode())
    except Exception as error:  # TensorFlow raises its own errors; none may end the builder
        return refusal(frame.head, _refusal(recipe, error))


def _refusal(recipe: Recipe | None, error: Exception) -> RefusedError:
    match error:
        case ValueError():
            names = (
                hosted.documented_names(recipe.model) if recipe is not None and recipe.model in hosted.MODELS else {}
            )
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


def main() -> int:
    """``python -m axonrl.serving.workers.builder FD PROGRAMS LOG_LEVEL``: what the pool starts."""
    logs.configure_child(sys.argv[3])
    load_tensorflow()  # now, not when a recipe arrives: it takes as long as compiling a small one
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        connection.setblocking(True)
        serve(connection, Path(sys.argv[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
