"""History of a run: its episodes and evaluations, as rows of CSV files."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import TextIO

from ..run_dir import history
from ..run_dir.history import (
    EPISODES,
    EVAL,
    EVALUATIONS,
    Episode,
    Evaluation,
    Found,
    every_evaluation,
    line_of,
    read_episodes,
    read_eval,
    rewrite,
)
from .events import BeginFacts, EndFacts, EpisodeStats, EvaluationFacts, Session
from .hook import Hook

_log = logging.getLogger("axonrl")


class HistoryHook(Hook):
    """Records every episode and evaluation in the run folder, each exactly once, however often the run is resumed.

    ``episodes.csv`` and ``evaluations.csv`` have a row for each episode and evaluation, ``eval.csv`` a row for each
    value of EVAL. A row is written when its episode ends, before the checkpoint that counts it. Rows after the last
    checkpoint of a killed run are removed on resume, and written again. Every training has this hook, before the user's
    own.
    """

    def __init__(self) -> None:
        self.global_timestep = 0
        """Timestep when the run last began or ended; 0 before the first start."""
        self.seconds = 0.0
        """Seconds of the last session, from its first timestep to its last."""
        self._file: TextIO | None = None

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Truncate the files to the restored counters."""
        folder, self.global_timestep = session.model_dir, session.global_timestep
        if session.global_episode == 0 or history.last_episode(folder) != session.global_episode:
            _cut_episodes(folder, session.global_episode)
        evaluations = [row for row in every_evaluation(folder) if row.position <= session.position]
        rewrite(folder / EVALUATIONS, Evaluation._fields, evaluations)
        if (folder / EVAL).exists():
            found = [row for row in read_eval(folder) if row.position <= session.position]
            rewrite(folder / EVAL, Found._fields, found)
        self._file = (folder / EPISODES).open("a", encoding="utf-8", newline="\n", buffering=1)

    def after_episode(self, session: Session, facts: EpisodeStats) -> None:
        """Append a row, flushed to the operating system."""
        if self._file is not None:
            row = Episode(
                session.global_episode,
                session.global_timestep,
                float(facts.episode_return),
                facts.length,
                round(facts.seconds, 6),
            )
            try:
                self._file.write(line_of(row))
            except OSError as error:
                raise OSError(error.errno, error.strerror, self._file.name) from error

    def after_evaluation(self, session: Session, facts: EvaluationFacts) -> None:
        """Append a row; also after ``end``, as an evaluation hook may evaluate once more."""
        found, offline = facts.results, session.position - session.global_timestep
        row = Evaluation(
            session.global_timestep,
            float(found["episode_return_mean"]),
            float(found["episode_return_std"]),
            float(found["episode_length_mean"]),
            int(found["episodes"]),
            found.get("episode_return_min"),
            found.get("episode_return_max"),
            offline,
            session.global_step,
            facts.seed,
            facts.num_envs,
            int(facts.explore),
            facts.environment,
        )
        with (session.model_dir / EVALUATIONS).open("a", encoding="utf-8", newline="\n") as file:
            file.write(line_of(row))
        if eval_found := {name: value for name, value in found.items() if name.startswith(("eval_", "eval/"))}:
            path = session.model_dir / EVAL
            if not path.exists():
                rewrite(path, Found._fields, [])
            rows = [Found(session.global_timestep, name, float(value), offline) for name, value in eval_found.items()]
            with path.open("a", encoding="utf-8", newline="\n") as file:
                file.write("".join(map(line_of, rows)))

    def end(self, session: Session, facts: EndFacts) -> None:
        """Close the file."""
        self.global_timestep, self.seconds = session.global_timestep, facts.seconds
        if self._file is not None:
            with contextlib.suppress(OSError) if facts.error is not None else contextlib.nullcontext():
                self._file.close()  # retries failed writes
            self._file = None


def _cut_episodes(folder: Path, number: int) -> None:
    episodes = [row for row in read_episodes(folder) if row.episode <= number]
    if len(episodes) < number:
        missing = number - len(episodes)
        _log.warning("%s lacks %d episodes before this point; the curve has a gap", folder / EPISODES, missing)
    rewrite(folder / EPISODES, Episode._fields, episodes)
