"""CSV files of a run's episodes and evaluations, written by ``axonrl.hooks.HistoryHook``."""

from __future__ import annotations

import csv
import inspect
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, get_args, get_type_hints

import numpy as np

from ..core.protocols import Array
from .files import replacing, write_file

EPISODES: Final = "episodes.csv"
EVALUATIONS: Final = "evaluations.csv"
EVAL: Final = "eval.csv"
REPEAT: Final = "repeat"
"""Value of ``episodes`` for those of the training's own evaluation of a policy."""
GIVEN: Final = "given"
"""Name of an environment passed as an object."""
_RESULTS: Final = (
    *("episode_return_mean", "episode_return_std", "episode_return_min", "episode_return_max"),
    *("episode_length_mean", "episodes"),
)
_TAIL_BYTES: Final = 512
"""Bytes; larger than any row of an episode."""


class Episode(NamedTuple):
    """A finished training episode: ``global_timestep`` is at its end, ``seconds`` its wall time."""

    episode: int
    global_timestep: int
    episode_return: float
    length: int
    seconds: float


class Episodes(NamedTuple):
    """Columns of many episodes, each [E]."""

    global_timestep: Array
    episode_return: Array
    length: Array
    seconds: Array


class Evaluation(NamedTuple):
    """An evaluation during training; ``offline_steps`` counts updates without timesteps before it."""

    global_timestep: int
    episode_return_mean: float
    episode_return_std: float
    episode_length_mean: float
    episodes: int
    episode_return_min: float | None = None
    episode_return_max: float | None = None
    offline_steps: int = 0
    global_step: int | None = None
    """Updates before it. The fields below say how to repeat it: see :class:`axonrl.hooks.events.EvaluationFacts`."""
    seed: int | None = None
    num_envs: int | None = None
    explore: int | None = None
    environment: str | None = None

    @property
    def results(self) -> dict[str, Any]:
        """Results of ``Agent.evaluate`` for the same episodes."""
        return {name: getattr(self, name) for name in _RESULTS}

    @property
    def position(self) -> int:
        """Timesteps, plus updates without timesteps."""
        return self.global_timestep + self.offline_steps


class Found(NamedTuple):
    """A value of the model_fn's EVAL in an evaluation: ``eval_loss`` or ``eval/<metric>``."""

    global_timestep: int
    name: str
    value: float
    offline_steps: int = 0

    @property
    def position(self) -> int:
        """Timesteps, plus updates without timesteps."""
        return self.global_timestep + self.offline_steps


_Row = TypeVar("_Row")


def read_episodes(folder: Path) -> list[Episode]:
    """Read the episodes of a run folder, in order.

    Raises:
        ValueError: the file is damaged; names it and the line.
    """
    return _read(folder / EPISODES, Episode)


def read_columns(folder: Path) -> Episodes:
    """Read the episodes of a run folder, in order, as columns.

    Raises:
        ValueError: the file is damaged; names it and the line.
    """
    return Episodes(*np.array([row[1:] for row in read_episodes(folder)], np.float64).reshape(-1, 4).T)


def read_evaluations(folder: Path) -> list[Evaluation]:
    """Read the evaluations of a run folder: the last one at each position.

    Raises:
        ValueError: the file is damaged; names it and the line.
    """
    return list({row.position: row for row in evaluations_of_policies(folder)}.values())


def evaluations_of_policies(folder: Path) -> list[Evaluation]:
    """Read the evaluations of a run folder: the last one of each policy, identified by position and update.

    Raises:
        ValueError: the file is damaged; names it and the line.
    """
    return list({(row.position, row.global_step): row for row in every_evaluation(folder)}.values())


def every_evaluation(folder: Path) -> list[Evaluation]:
    """Read the evaluations of a run folder, in order; several hooks may have evaluated the same policy.

    Equal rows are one evaluation, repeated after a kill.

    Raises:
        ValueError: the file is damaged; names it and the line.
    """
    return list(dict.fromkeys(_read(folder / EVALUATIONS, Evaluation)))


def read_eval(folder: Path) -> list[Found]:
    """Read the EVAL values of a run folder, in order, each once, like :func:`every_evaluation`.

    Raises:
        ValueError: the file is damaged; names it and the line.
    """
    return list(dict.fromkeys(_read(folder / EVAL, Found)))


def last_episode(folder: Path) -> int | None:
    """Number of the last complete row of ``episodes.csv``, read from its end; None if unknown."""
    try:
        with (folder / EPISODES).open("rb") as file:
            file.seek(-min(file.seek(0, os.SEEK_END), _TAIL_BYTES), os.SEEK_END)
            *_, last, rest = file.read().split(b"\n")
        return None if rest else int(last.partition(b",")[0])
    except (OSError, ValueError):
        return None


def _read(path: Path, kind: type[_Row]) -> list[_Row]:
    """Rows of a file, without the header, and a line cut short by a kill."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")[1:-1]
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    columns, hints = inspect.signature(kind).parameters, get_type_hints(kind)
    parsers = [_parser(hints[name], column.default) for name, column in columns.items()]
    rows: list[_Row] = []
    try:
        rows.extend(
            kind(*[parse(text) for parse, text in zip(parsers, texts, strict=True)]) for texts in csv.reader(lines)
        )
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{path}:{len(rows) + 2} is damaged: {error}") from error
    return rows


def _parser(hint: Any, default: Any) -> Callable[[str], Any]:
    """Reads a column of this type, which may be empty if it has a default."""
    kind: Callable[[str], Any] = next(iter(get_args(hint) or (hint,)))
    return kind if default is inspect.Parameter.empty else lambda text: kind(text) if text else default


def rewrite(path: Path, header: Iterable[str], rows: Iterable[tuple[object, ...]]) -> None:
    """Write a whole file atomically."""
    with replacing(path) as temporary:
        write_file(temporary, [(line_of(header) + "".join(map(line_of, rows))).encode()])


def line_of(values: Iterable[object]) -> str:
    """Format a row as a line of a file; None is empty."""
    cells = ("" if value is None else _quote(value) if isinstance(value, str) else str(value) for value in values)
    return ",".join(cells) + "\n"


def _quote(text: str) -> str:
    """A name as a CSV cell: the ``csv`` module's writer takes longer than an episode's other bookkeeping."""
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\r\n') else text
