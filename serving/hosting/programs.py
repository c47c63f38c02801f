"""Compiled programs on the disk: which one serves a recipe, its stepper, which agents use it, and when it is removed.

Each is in a folder named by the digest of the recipe that it was built for. An agent's folder has a hard link
``program-<digest>`` to the empty file ``<programs>/<digest>.users``, whose link count is the number of agents that use
the program: whatever removes an agent's folder ends its use. A program that is removed too early is built again on
demand.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...core import registry
from ...core.errors import CheckpointError
from ...policies import compiled
from ...policies.compiled import CompiledProgram
from ..catalogue.recipes import Recipe

if TYPE_CHECKING:
    from ...estimators.stepper import Stepper

PROGRAMS: Final = "programs"
"""Folder of the programs within a service's folder."""
_USES: Final = "program-"
_USERS: Final = ".users"
_REMOVED: Final = ".removed-"
_UNDER_WAY: Final = 20.0
"""Seconds for which a program that was just built or used is not removed: an agent may be about to open it."""
logger = logging.getLogger("axonrl.serving")


class ProgramMissingError(Exception):
    """There is no compiled program for a recipe; the builder makes it.

    Args:
        recipe: the recipe.
    """

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(f"there is no compiled program for a {recipe.model} with these settings")
        self.recipe = recipe


def program_of(recipe: Recipe, programs: Path) -> CompiledProgram:
    """The compiled program that serves a recipe: its own, or another one with their differences as inputs.

    Args:
        recipe: an agent's recipe.
        programs: the folder of compiled programs.

    Raises:
        ProgramMissingError: there is none.
        ValueError: the recipe's own program is damaged.
    """
    if (programs / recipe.digest / compiled.FILE).exists():
        return compiled.read(programs / recipe.digest)
    for path in sorted(programs.glob(f"{recipe.family}-*/{compiled.FILE}")):
        with contextlib.suppress(ValueError):  # damaged, or the value is not an input
            return compiled.read(path.parent).with_params(recipe.params)
    raise ProgramMissingError(recipe)


def compile_program(recipe: Recipe, programs: Path, *, traces: bool) -> Path | None:
    """Compile the program of a recipe into its folder, or copy it from the cache of training programs.

    Args:
        recipe: an agent's recipe.
        programs: the folder of compiled programs.
        traces: whether to load TensorFlow, and fill the cache, if the cache does not have it.

    Returns:
        The folder; None if the cache does not have the program.

    Raises:
        ValueError: the model cannot be compiled, or a parameter is invalid.
        CheckpointError: the folder cannot be written.
    """
    from ...core.protocols import RunConfig
    from ...environments import spaces
    from ...estimators import program_cache
    from ...estimators.experience_sources import Lanes
    from ...estimators.run import Run

    directory, memory = programs / recipe.digest, _memory_of(recipe)
    lanes = Lanes(spaces.from_json(recipe.observation), spaces.from_json(recipe.action), 1)
    # LiteRT for any size: with TensorFlow each agent would need a process of its own.
    run = Run(recipe.model_fn, directory, RunConfig(seed=recipe.seed, runtime="litert"), recipe.params)
    if traces:
        return program_cache.compile_run(run, memory, lanes, directory, None)
    return program_cache.take(run, memory, lanes, directory)


def open_stepper(recipe: Recipe, programs: Path, fresh: bool = True) -> Stepper:
    """A stepper of one lane at timestep zero. Its program may come from the cache of training programs.

    Args:
        recipe: the agent's recipe.
        programs: the folder of compiled programs.
        fresh: whether its weights must be the initial ones of the recipe's seed; otherwise they are arbitrary, to be
            replaced.

    Raises:
        ProgramMissingError: the program must be built first, also instead of a damaged one.
    """
    from ...estimators.limits import UpdateSchedule  # the gateway reads programs, too, and opens none
    from ...estimators.stepper import Stepper

    schedule = UpdateSchedule(recipe.first_update, recipe.update_frequency)
    seed = recipe.seed if fresh else None
    try:
        try:
            program = program_of(recipe, programs)
        except ProgramMissingError:
            _take(recipe, programs)
            program = program_of(recipe, programs)  # another worker may have taken it
        return Stepper.load(program, _memory_of(recipe), lanes=1, seed=seed, schedule=schedule)
    except ValueError as error:
        logger.warning("the program of a %s cannot be used: %s", recipe.model, error)
        raise ProgramMissingError(recipe) from error


def _take(recipe: Recipe, programs: Path) -> None:
    """Copy a program from the cache, if it is there; whatever fails is left to the builder."""
    try:
        compile_program(recipe, programs, traces=False)
    except (ValueError, CheckpointError, OSError) as error:
        logger.info("the program of a %s is not taken from the cache: %s", recipe.model, error)


def _memory_of(recipe: Recipe) -> Any:
    kind = registry.find("memory", recipe.memory["kind"])
    return kind(**{name: value for name, value in recipe.memory.items() if name != "kind"})


def use(program: Path, agent: Path) -> None:
    """Record in an agent's folder that it uses the program in this folder, and no other.

    If this fails, as on a full disk, the program seems unused, which at worst means building it again.
    """
    users, link = _users(program), agent / f"{_USES}{program.name}"
    with contextlib.suppress(OSError):
        if users.exists() and link.exists() and link.samefile(users):
            return
        for other in agent.glob(f"{_USES}*"):
            other.unlink(missing_ok=True)
        users.touch(0o600)
        try:
            link.hardlink_to(users)
        except OSError:  # a disk without links, or too many of them: at least count it
            link.touch(0o600)


def used_by(agent: Path) -> str | None:
    """Name of the program that the agent in this folder uses; None if it has not been opened."""
    try:
        names = os.listdir(agent)  # noqa: PTH208 - names are all that is wanted
    except FileNotFoundError:
        return None
    return next((name.removeprefix(_USES) for name in names if name.startswith(_USES)), None)


def nbytes_for(agents: Iterable[Path], programs: Path) -> int:
    """Bytes of the programs used by the agents in these folders, each counted once."""
    return sum(_nbytes(programs / name) for name in {used_by(agent) for agent in agents} if name is not None)


def remove_unused(programs: Path, seconds: float, most: int) -> None:
    """Remove programs that have been unused for some time, and the longest unused ones above a limit of bytes.

    Args:
        programs: the folder of compiled programs.
        seconds: time without use.
        most: maximum bytes of unused programs.

    Raises:
        OSError: a program cannot be removed.
    """
    for path in programs.glob(f"{_REMOVED}*"):  # left by a process that was stopped
        shutil.rmtree(path)
    now, unused = time.time(), []
    for path in programs.glob(f"[!.]*/{compiled.FILE}"):
        users, since = _users(path.parent), path.stat().st_mtime
        if users.exists():
            if users.stat().st_nlink > 1:
                users.touch()
                continue
            since = max(since, users.stat().st_mtime)
        unused.append((now - since, path.parent))
    kept = 0
    for age, program in sorted(unused):
        kept += _nbytes(program)
        if age >= seconds or (kept > most and age >= _UNDER_WAY):
            _remove(program)


def _remove(program: Path) -> None:
    """Remove a program and its record; renamed first, so that it is complete or gone."""
    gone = program.with_name(f"{_REMOVED}{program.name}")
    program.rename(gone)
    _users(program).unlink(missing_ok=True)
    shutil.rmtree(gone)


def _users(program: Path) -> Path:
    return program.with_name(f"{program.name}{_USERS}")


def _nbytes(program: Path) -> int:
    total = 0
    for path in program.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # just replaced
            total += path.stat().st_size
    return total
