"""What ``axonrl run`` of many seeds and of a matrix share: a folder of many runs, and telling how they went."""

from __future__ import annotations

import argparse
import contextlib
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol, TypeVar

from ..console import say
from ..running import folder as records
from .arguments import RUNS

_TAIL: Final = 5
"""Lines of a failed run's output that are shown."""
_Kept = TypeVar("_Kept")


class Outcome(Protocol):
    """How a run went."""

    @property
    def status(self) -> str:
        """In a word."""

    @property
    def message(self) -> str:
        """Why."""


def folder_of(
    name: str,
    arguments: argparse.Namespace,
    file: str,
    is_one: Callable[[Path], bool],
    check: Callable[..., None],
) -> tuple[Path, bool]:
    """The folder, created where it is a new one of our choice; and whether its runs are resumed.

    Args:
        name: of the experiment.
        arguments: the command line.
        file: by which such a folder is known.
        is_one: is this such a folder?
        check: raises ``ExperimentError`` where a folder cannot be used, or cannot be resumed.
    """
    given: Path | None = arguments.model_dir
    if given is None and not (arguments.resume or arguments.auto_resume):
        return records.new_folder(RUNS, name), False
    folder = given or (records.newest_folder(RUNS, name, (file,)) if arguments.resume else RUNS / name)
    resume = arguments.resume or (arguments.auto_resume and is_one(folder))
    check(folder, resume=resume)
    return folder, resume


@contextlib.contextmanager
def only_writer(folder: Path, resume: bool, prepare: Callable[[], _Kept]) -> Iterator[_Kept]:
    """Be the only one that writes to a folder, and prepare it: a new one is ours alone, and must be empty for that."""
    refusal = f"Folder {folder} cannot be {'resumed' if resume else 'used'} now"
    with contextlib.ExitStack() as stack:
        if resume:
            stack.enter_context(records.only_writer(folder, refusal))
        prepared = prepare()
        if not resume:
            stack.enter_context(records.only_writer(folder, refusal))
        yield prepared


def tell_failure(what: str, outcome: Outcome, output: Path) -> None:
    """Say how a run failed, and show the end of what it printed."""
    say(f"{what} {outcome.status}: {outcome.message}. The last lines of {output}:")
    with contextlib.suppress(OSError):
        for line in output.read_text("utf-8", "replace").splitlines()[-_TAIL:]:
            say(f"  {line}")


def how_to_continue(folder: Path, finished: int, total: int, what: str, arguments: argparse.Namespace) -> str:
    """How many have finished, and the command that continues the others."""
    return f"{finished} of {total} {what} have finished. Continue with: {command(folder, arguments)}"


def command(folder: Path, arguments: argparse.Namespace) -> str:
    """The command that continues what is in a folder."""
    words = list(arguments.command_line)
    if arguments.model_dir is None:
        words += ["--model-dir", str(folder)]
    if not (arguments.resume or arguments.auto_resume):
        words.append("--resume")
    return shlex.join(words)
