"""Compiled programs on the disk: which one serves a recipe, which agents use it, and when it goes.

Each is in a folder of the digest of the recipe that it was built for. An agent's folder has a link ``program-<digest>``
to the empty file ``<programs>/<digest>.users``, whose links so say how many agents use a program: whatever removes an
agent's folder ends its use. One that is removed too early is built again when it is asked for.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ...policies import compiled
from ...policies.compiled import CompiledProgram
from ..catalogue.recipes import Recipe

PROGRAMS: Final = "programs"
"""The folder of all of them, in that of a service."""
_USES: Final = "program-"
_USERS: Final = ".users"
_REMOVED: Final = ".removed-"
_UNDER_WAY: Final = 20.0
"""Seconds for which one that was just built, or used, is not removed: an agent is about to be opened with it."""


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
        programs: the folder of compiled programs.

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


def use(program: Path, agent: Path) -> None:
    """Note in an agent's folder that it uses the program of this folder, and no other.

    What cannot be noted, as on a full disk, makes the program seem unused, which costs no more than building it again.
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
        except OSError:  # a disk without links, or more of them than it takes: it is counted at least
            link.touch(0o600)


def used_by(agent: Path) -> str | None:
    """The name of the program that an agent of this folder uses; None: it has not been opened."""
    try:
        names = os.listdir(agent)  # noqa: PTH208 - names are all that is wanted
    except FileNotFoundError:
        return None
    return next((name.removeprefix(_USES) for name in names if name.startswith(_USES)), None)


def nbytes_for(agents: Iterable[Path], programs: Path) -> int:
    """Bytes of the programs that the agents of these folders use, each of them once."""
    return sum(_nbytes(programs / name) for name in {used_by(agent) for agent in agents} if name is not None)


def remove_unused(programs: Path, seconds: float, most: int) -> None:
    """Remove programs that no agent has used for so long; above so many bytes of unused ones, those unused longest.

    Args:
        programs: the folder of compiled programs.
        seconds: that.
        most: bytes.

    Raises:
        OSError: one cannot be removed.
    """
    for path in programs.glob(f"{_REMOVED}*"):  # of a process that was stopped meanwhile
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
    """Remove one with what is noted beside it; it is renamed first, so that it is there whole or not at all."""
    gone = program.with_name(f"{_REMOVED}{program.name}")
    program.rename(gone)
    _users(program).unlink(missing_ok=True)
    for beside in program.parent.glob(f"{program.name}.*"):
        shutil.rmtree(beside)
    shutil.rmtree(gone)


def _users(program: Path) -> Path:
    return program.with_name(f"{program.name}{_USERS}")


def _nbytes(program: Path) -> int:
    total = 0
    for path in program.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # initial weights that somebody has just used
            total += path.stat().st_size
    return total
