"""CSV files of a run's episodes and evaluations, written by ``axonrl.hooks.HistoryHook``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from ..core.protocols import Array
from .files import replacing, write_file

EPISODES: Final = "episodes.csv"
EVALUATIONS: Final = "evaluations.csv"
EVAL: Final = "eval.csv"
REPEAT: Final = "repeat"
"""Stands for the episodes of the training's own evaluation of a policy."""
GIVEN: Final = "given"
"""Stands for an environment passed as an object."""
_RESULTS: Final = (
    *("episode_return_mean", "episode_return_std", "episode_return_min", "episode_return_max"),
    *("episode_length_mean", "episodes"),
)
_OPTIONAL: Final[Mapping[str, Callable[[str], Any]]] = {
    "episode_return_min": float,
    "episode_return_max": float,
    **dict.fromkeys(("offline_steps", "global_step", "seed", "num_envs", "explore"), int),
    "environment": str,
}
"""Columns that may be empty."""
_TAIL_BYTES: Final = 512
"""Larger than any row of an episode."""


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
    """From here on, how to repeat it: see :class:`axonrl.hooks.events.EvaluationFacts`."""
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
    return _read(folder / EPISODES, _episode)


def read_columns(folder: Path) -> Episodes:
    """Read the episodes of a run folder, in order, as columns; several times as fast as :func:`read_episodes`.

    Raises:
        ValueError: the file is damaged; names it and the line.
    """
    try:
        data = (folder / EPISODES).read_bytes()
    except FileNotFoundError:
        data = b""
    rows = data[data.find(b"\n") + 1 : data.rfind(b"\n") + 1].decode().split("\n")[:-1]  # as in _read
    if not rows:
        return Episodes(*np.zeros((4, 0)))
    try:
        columns = np.loadtxt(rows, delimiter=",", ndmin=2, comments=None).T
        whole = columns.shape == (len(Episode._fields), len(rows))  # false if empty lines were skipped
        return Episodes(*columns[1:]) if whole else _columns(folder)
    except ValueError:
        return _columns(folder)


def _columns(folder: Path) -> Episodes:
    """Read row by row, to find the damaged line."""
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
    rows = _read(folder / EVALUATIONS, _evaluation)
    return list({(row.position, row.global_step): row for row in rows}.values())


def read_eval(folder: Path) -> list[Found]:
    """Read the EVAL values of a run: the last one for each position and name.

    Raises:
        ValueError: the file is damaged; names it and the line.
    """
    return list({(row.position, row.name): row for row in _read(folder / EVAL, _found)}.values())


def last_episode(folder: Path) -> int | None:
    """Number of the last complete row of ``episodes.csv``, read from its end; None if unknown."""
    try:
        with (folder / EPISODES).open("rb") as file:
            file.seek(-min(file.seek(0, os.SEEK_END), _TAIL_BYTES), os.SEEK_END)
            *_, last, rest = file.read().split(b"\n")
        return None if rest else _episode(last.decode()).episode
    except (OSError, ValueError):
        return None


def _read(path: Path, parse: Callable[[str], _Row]) -> list[_Row]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        return []
    rows: list[_Row] = []
    try:
        rows.extend(map(parse, lines[1:-1]))  # without the header, and a line cut short by a kill
    except ValueError as error:
        raise ValueError(f"{path}:{len(rows) + 2} is damaged: {error}") from error
    return rows


def _episode(line: str) -> Episode:
    episode, timestep, episode_return, length, seconds = line.split(",")
    return Episode(int(episode), int(timestep), float(episode_return), int(length), float(seconds))


def _evaluation(line: str) -> Evaluation:
    timestep, mean, std, length, episodes, *rest = line.split(",", len(Evaluation._fields) - 1)
    others = {name: _OPTIONAL[name](text) for name, text in zip(_OPTIONAL, rest, strict=True) if text}
    return Evaluation(int(timestep), float(mean), float(std), float(length), int(episodes), **others)


def _found(line: str) -> Found:
    timestep, rest = line.split(",", 1)
    name, value, offline = rest.rsplit(",", 2)  # the user's metric names may contain commas
    return Found(int(timestep), name, float(value), int(offline))


def rewrite(path: Path, header: Iterable[str], rows: Iterable[tuple[object, ...]]) -> None:
    """Write a whole file atomically."""
    with replacing(path) as temporary:
        write_file(temporary, [(line_of(header) + "".join(map(line_of, rows))).encode()])


def line_of(values: Iterable[object]) -> str:
    """Format a row as a line of a file; None is empty."""
    return ",".join("" if value is None else str(value) for value in values) + "\n"
