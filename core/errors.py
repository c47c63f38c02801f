"""Errors that axonrl raises on purpose, and the message of any error where nobody sees a traceback."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple


class ArgumentError(ValueError):
    """An argument is invalid. Code should read the fields to find out which one, never the message.

    Args:
        message: what is wrong, what was given and what is expected.
        argument: the argument's name, as in the message: ``"size"``, ``"RunConfig.seed"``.
        value: what was given.
    """

    def __init__(self, message: str, argument: str, value: object = None) -> None:
        super().__init__(message, argument, value)  # all three, so that pickling keeps them
        self.argument = argument
        self.value = value

    def __str__(self) -> str:
        return str(self.args[0])


class MissingKeyError(ArgumentError, KeyError):
    """A name is missing in a mapping that axonrl made; the message suggests the nearest."""


class NotCompilableError(ValueError):
    """A valid model that ``Agent.compile`` cannot write: it runs in TensorFlow only. The message says why."""


class _LocatedError(Exception):
    """An error that may know the index of the environment that caused it."""

    def __init__(self, message: str, environment: int | None = None) -> None:
        super().__init__(message)
        self.environment = environment


class BrokenEnvironmentError(_LocatedError, RuntimeError):
    """An environment raised, or returned something that its spaces do not allow. The message names it."""


class NonFiniteError(_LocatedError, ArithmeticError):
    """A reward, an observation, an action, a loss or a weight is NaN or infinite."""


class ClusterError(RuntimeError):
    """Training on several processes cannot continue: actors fail, or progress stops. The message names who waits."""


class CheckpointError(RuntimeError):
    """A run folder cannot be used: damaged, locked by another writer, or not a run folder."""


_EXPECTED: Final = (ValueError, OSError, BrokenEnvironmentError, CheckpointError, ClusterError, NonFiniteError)
"""Errors whose text is enough without their type."""
_MAX_TEXT: Final = 2000
"""Maximum number of characters of an error that are shown: it may quote a value of any length."""
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
"""Colour codes in messages of Keras."""
_ROOT: Final = f"{Path(__file__).resolve().parent.parent}{os.sep}"
_PYTHON: Final = f"{Path(os.__file__).parent}{os.sep}"
_INSTALLED: Final = re.compile(r"[/\\](site|dist)-packages[/\\]")
_GENERATED: Final = "__autograph_generated_file"


def is_expected(error: BaseException) -> bool:
    """Whether an error's text says what is wrong without its type."""
    text = str(error)  # TensorFlow raises its own error if a disk is full
    return bool(text) and (isinstance(error, _EXPECTED) or os.strerror(errno.ENOSPC) in text)


def message_of(error: BaseException) -> str:
    """An error in one paragraph, for readers without a traceback: text, type if unexpected, place in the user's code.

    A ClusterError keeps its lines.
    """
    text = str(error).strip() if isinstance(error, ClusterError) else " ".join(_COLOURS.sub("", str(error)).split())
    if isinstance(error, OSError) and error.strerror:  # without its number
        text = ": ".join(str(part) for part in (error.filename, error.strerror) if part)
    if len(text) > _MAX_TEXT:
        text = f"{text[:_MAX_TEXT]}..."
    if not is_expected(error):
        text = f"{type(error).__name__}: {text}"
    place = place_of(error)
    return text if place is None else f"{text} ({place})"


def place_of(error: BaseException) -> str | None:
    """Place in a user's own code that failed: ``"model.py:12, in model_fn"``, relative to the current folder.

    The innermost frame of the traceback that belongs neither to axonrl, nor to Python, nor to an installed package.

    Returns:
        None if there is no such frame.
    """
    chain: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and not any(following is one for one in chain):
        chain.append(following)
        following = following.__cause__ or following.__context__  # TensorFlow and Keras hide causes ("from None")
    stacks = [list(_frames(one)) for one in chain]
    raised = [stack[0] for stack in stacks if stack and stack[0].is_users]  # by the user's code itself
    return place_in(raised or [frame for stack in reversed(stacks) for frame in stack])


class Frame(NamedTuple):
    """A frame of a traceback."""

    file: str
    line: int
    function: str

    @property
    def is_users(self) -> bool:
        """Whether it belongs neither to axonrl, nor to Python, nor to an installed package, nor to generated code."""
        is_library = self.file.startswith((_ROOT, _PYTHON)) or _INSTALLED.search(self.file) is not None
        is_compiled = self.file.endswith((".pyx", ".pxd", ".pxi"))  # Cython's: relative to where it was built
        return not (is_library or is_compiled or self.file.startswith("<") or _GENERATED in self.file)


def place_in(frames: Iterable[Frame]) -> str | None:
    """Place of the first frame in a user's code, in the form of :func:`place_of`."""
    found = next((frame for frame in frames if frame.is_users), None)
    if found is None:
        return None
    path = Path(found.file)
    with contextlib.suppress(ValueError, OSError):  # it is elsewhere; or the current folder was removed
        path = path.relative_to(Path.cwd())
    return f"{path}:{found.line}, in {found.function}"


def _frames(error: BaseException) -> Iterator[Frame]:
    """The frames of an error, the innermost first."""
    rewritten: Any = getattr(error, "ag_error_metadata", None)  # of functions that TensorFlow's autograph has rewritten
    for frame in getattr(rewritten, "translated_stack", ()):
        yield Frame(frame.filename, frame.lineno, frame.function_name)
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        yield Frame(frame.f_code.co_filename, line, frame.f_code.co_name)
