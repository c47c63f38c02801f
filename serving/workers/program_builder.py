"""Build the compiled program of a recipe, and initial weights for seeds. Loads TensorFlow when called."""

from __future__ import annotations

import contextlib
import errno
import logging
import secrets
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Final

from ...core import registry
from ...core.errors import ArgumentError, CheckpointError
from ...core.protocols import RunConfig
from ...environments import spaces
from ...policies import compiled
from ...policies.compiled import CompiledProgram
from ..catalogue import hosted
from ..catalogue.recipes import Recipe
from ..hosting.programs import ProgramMissingError, program_of
from ..refusals import RefusedError
from . import seed_pool

SPARES: Final = 32
_AT_ONCE: Final = 8
"""Spare seeds made in one call of :func:`add_spares`: requests wait meanwhile."""
_SPARE_BYTES: Final = 64 * 2**20
"""Maximum bytes of the weights of all spare seeds: large networks have fewer."""
_OTHERS: Final = 32
"""Number of initial weights kept beside spare seeds' and the program's own, within the same limit of bytes."""
logger = logging.getLogger("axonrl.serving")


def build(recipe: Recipe, programs: Path) -> tuple[bool, str]:
    """Build the program of a recipe, with the initial weights of its seed, if it is missing.

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
    program = _existing(recipe, programs)
    if program is None:
        _compile(recipe, programs / recipe.digest)
        return True, recipe.digest
    if recipe.seed not in program.seeds():
        _add_seeds(program.directory, [recipe.seed])
    return False, program.directory.name


def add_spares(programs: Path, digest: str, wanted: int = SPARES) -> bool:
    """Write initial weights for more spare seeds, and remove surplus ones of other seeds.

    Args:
        programs: the folder of all programs.
        digest: digest of the program.
        wanted: wanted number of spare seeds.

    Returns:
        Whether there are enough now.

    Raises:
        ValueError: the program is damaged.
        CheckpointError: they cannot be written.
    """
    program = compiled.read(programs / digest)
    _remove_old_weights(program, seed_pool.seeds(programs, digest))
    if not program.everything["any_seed"]:
        return True
    there = program.seeds()
    wanted = _at_most(wanted, program)
    missing = min(_AT_ONCE, wanted - len(seed_pool.seeds(programs, digest)))
    if missing > 0:
        seeds = [secrets.randbits(32) for _ in range(missing)]
        seeds = [seed for seed in dict.fromkeys(seeds) if seed not in there]
        _add_seeds(program.directory, seeds)
        for seed in seeds:
            seed_pool.add(programs, digest, seed)
    return len(seed_pool.seeds(programs, digest)) >= wanted


def _at_most(wanted: int, program: CompiledProgram) -> int:
    """Number of initial weights to keep: ``wanted``, or fewer if they are large."""
    size = program.weights_path(program.seed).stat().st_size
    return min(wanted, max(1, _SPARE_BYTES // size))


def _remove_old_weights(program: CompiledProgram, unused: Collection[int]) -> None:
    """Remove all but the newest weights of seeds that agents got or asked for. They are made again on demand."""
    found = []
    for seed in program.seeds():
        if seed != program.seed and seed not in unused:
            with contextlib.suppress(FileNotFoundError):  # a worker has just removed it
                found.append((program.weights_path(seed).stat().st_mtime_ns, seed))
    for _, seed in sorted(found, reverse=True)[_at_most(_OTHERS, program) :]:
        program.weights_path(seed).unlink(missing_ok=True)


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


def _existing(recipe: Recipe, programs: Path) -> CompiledProgram | None:
    """The program that serves a recipe; None if there is none, or if it is damaged."""
    try:
        program = program_of(recipe, programs)
        program.program()
    except ProgramMissingError:
        return None
    except ValueError as error:
        logger.warning("%s is built again: %s", recipe.digest, error)
        return None
    return program if program.seeds() else None


def _compile(recipe: Recipe, directory: Path) -> None:
    from ...estimators.agent import Agent
    from ...models.blocks.optimizers import only_keras_ops

    arguments = {name: value for name, value in recipe.memory.items() if name != "kind"}
    memory = registry.find("memory", recipe.memory["kind"])(**arguments)
    where = spaces.from_json(recipe.observation), spaces.from_json(recipe.action)
    # LiteRT for any size: with TensorFlow each agent would need a process of its own.
    config = RunConfig(seed=recipe.seed, runtime="litert")
    with tempfile.TemporaryDirectory() as folder, only_keras_ops():
        agent = Agent(recipe.model_fn, memory, folder, config, recipe.params)
        agent.compile(directory, where, seeds=[recipe.seed])


def _add_seeds(directory: Path, seeds: list[int]) -> None:
    from ...estimators.compilation import add_seeds

    add_seeds(directory, seeds)
