"""The run's episodes and evaluations as CSV files in the run folder: each exactly once, however often it resumes.

A row is written when its episode ends, before the checkpoint that counts it. Rows after the last checkpoint of a killed
run are removed when it resumes, and are written again.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple, TextIO, TypeVar

from ...facts import BeginFacts, EndFacts, EpisodeStats, EvaluationFacts, Session
from ...hooks import Hook
from ...runs.files import replacing, write_file

EPISODES: Final = "episodes.csv"
EVALUATIONS: Final = "evaluations.csv"
EVAL: Final = "eval.csv"
_log = logging.getLogger("axonrl")


class Episode(NamedTuple):
    """A finished episode of training: ``global_timestep`` is where it ended, ``seconds`` its wall time."""

    episode: int
    global_timestep: int
    episode_return: float
    length: int
    seconds: float


class Evaluation(NamedTuple):
    """An evaluation during training."""

    global_timestep: int
    episode_return_mean: float
    episode_return_std: float
    episode_length_mean: float
    episodes: int
    episode_return_min: float | None = None
    """None in files of earlier versions."""
    episode_return_max: float | None = None


class Found(NamedTuple):
    """A value that the model_fn's EVAL had in an evaluation: ``eval_loss`` or ``eval/<metric>``."""

    global_timestep: int
    name: str
    value: float


_Row = TypeVar("_Row")


class HistoryHook(Hook):
    """Appends every episode, every evaluation and its EVAL values to the CSV files. Must come before other hooks."""

    def __init__(self) -> None:
        self.global_timestep = 0
        """The timestep when the run last began or ended; 0 before the first."""
        self.seconds = 0.0
        """How long the last session took, from its first timestep to its last."""
        self._file: TextIO | None = None

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Cut both files to what the restored counters have counted."""
        folder, self.global_timestep = session.model_dir, session.global_timestep
        episodes = [row for row in read_episodes(folder) if row.episode <= session.global_episode]
        evaluations = [row for row in read_evaluations(folder) if row.global_timestep <= session.global_timestep]
        if len(episodes) < session.global_episode:
            missing = session.global_episode - len(episodes)
            _log.warning("%s lacks %d episodes before this point; the curve has a gap", folder / EPISODES, missing)
        _rewrite(folder / EPISODES, Episode._fields, episodes)
        _rewrite(folder / EVALUATIONS, Evaluation._fields, evaluations)
        if (folder / EVAL).exists():
            found = [row for row in read_eval(folder) if row.global_timestep <= session.global_timestep]
            _rewrite(folder / EVAL, Found._fields, found)
        self._file = (folder / EPISODES).open("a", encoding="utf-8", newline="\n", buffering=1)

    def after_episode(self, session: Session, facts: EpisodeStats) -> None:
        """Append a row, which reaches the operating system at once."""
        if self._file is not None:
            row = Episode(
                session.global_episode,
                session.global_timestep,
                float(facts.episode_return),
                facts.length,
                round(facts.seconds, 6),
            )
            try:
                self._file.write(_line(row))
            except OSError as error:
                raise OSError(error.errno, error.strerror, self._file.name) from error

    def after_evaluation(self, session: Session, facts: EvaluationFacts) -> None:
        """Append a row; also after ``end``, where an evaluation hook may evaluate once more."""
        found = facts.results
        row = Evaluation(
            session.global_timestep,
            float(found["episode_return_mean"]),
            float(found["episode_return_std"]),
            float(found["episode_length_mean"]),
            int(found["episodes"]),
            found.get("episode_return_min"),
            found.get("episode_return_max"),
        )
        with (session.model_dir / EVALUATIONS).open("a", encoding="utf-8", newline="\n") as file:
            file.write(_line(row))
        if eval_found := {name: value for name, value in found.items() if name.startswith(("eval_", "eval/"))}:
            path = session.model_dir / EVAL
            if not path.exists():
                _rewrite(path, Found._fields, [])
            rows = [Found(session.global_timestep, name, float(value)) for name, value in eval_found.items()]
            with path.open("a", encoding="utf-8", newline="\n") as file:
                file.write("".join(map(_line, rows)))

    def end(self, session: Session, facts: EndFacts) -> None:
        """Close the file."""
        self.global_timestep, self.seconds = session.global_timestep, facts.seconds
        if self._file is not None:
            with contextlib.suppress(OSError) if facts.error is not None else contextlib.nullcontext():
                self._file.close()  # retries what could not be written
            self._file = None


def read_episodes(folder: Path) -> list[Episode]:
    """The episodes in a run folder, in order.

    Raises:
        ValueError: the file is damaged; names it and the line.
    """
    return _read(folder / EPISODES, _episode)


def read_evaluations(folder: Path) -> list[Evaluation]:
    """The evaluations in a run folder, one for each timestep at which there were any: the last.

    Raises:
        ValueError: the file is damaged; names it and the line.
    """
    return list({row.global_timestep: row for row in _read(folder / EVALUATIONS, _evaluation)}.values())


def read_eval(folder: Path) -> list[Found]:
    """The EVAL values of a run, one row for each timestep and name: the last.

    Raises:
        ValueError: the file is damaged; names it and the line.
    """
    return list({row[:2]: row for row in _read(folder / EVAL, _found)}.values())


def _read(path: Path, parse: Callable[[str], _Row]) -> list[_Row]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        return []
    rows: list[_Row] = []
    try:
        rows.extend(map(parse, lines[1:-1]))  # without the header, and without a line cut short by a kill
    except ValueError as error:
        raise ValueError(f"{path}:{len(rows) + 2} is damaged: {error}") from error
    return rows


def _episode(line: str) -> Episode:
    episode, timestep, episode_return, length, seconds = line.split(",")
    return Episode(int(episode), int(timestep), float(episode_return), int(length), float(seconds))


def _evaluation(line: str) -> Evaluation:
    timestep, mean, std, length, episodes, *bounds = line.split(",")
    limits = [float(bound) if bound else None for bound in bounds]
    return Evaluation(int(timestep), float(mean), float(std), float(length), int(episodes), *limits)


def _found(line: str) -> Found:
    timestep, rest = line.split(",", 1)
    name, value = rest.rsplit(",", 1)  # a metric's name is the user's
    return Found(int(timestep), name, float(value))


def _rewrite(path: Path, header: Iterable[str], rows: Iterable[tuple[object, ...]]) -> None:
    with replacing(path) as temporary:
        write_file(temporary, [(_line(header) + "".join(map(_line, rows))).encode()])


def _line(values: Iterable[object]) -> str:
    return ",".join("" if value is None else str(value) for value in values) + "\n"
