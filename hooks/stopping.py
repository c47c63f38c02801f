"""Hooks that stop a run: at a total, when it is good enough, or when it no longer gets better."""

from __future__ import annotations

import logging

from ..checks import count, number
from ..contracts import State
from ..facts import BeginFacts, EndFacts, EpisodeStats, EvaluationFacts, Session, TimestepFacts, UpdateFacts
from .hook import Hook
from .measures import ReturnWindow

_log = logging.getLogger(__name__)


class StopAtStep(Hook):
    """Stops when ``global_step`` reaches a total.

    A vector step may be due several updates; it is finished before the run stops. ``train(max_steps=...)`` is exact.

    Args:
        step: the total number of updates.

    Raises:
        ValueError: ``step`` is not an integer of at least 1.
    """

    def __init__(self, step: int) -> None:
        self._step = count("StopAtStep(step)", step)

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Stop before the first timestep if the total is reached already."""
        self._check(session)

    def after_update(self, session: Session, facts: UpdateFacts) -> None:
        """Stop if the total is reached."""
        self._check(session)

    def _check(self, session: Session) -> None:
        if session.global_step >= self._step:
            session.request_stop(f"global_step reached {self._step}")


class StopAtTimestep(Hook):
    """Stops when ``global_timestep`` reaches a total: at the first (vector) step that does.

    Args:
        timestep: the total number of timesteps.

    Raises:
        ValueError: ``timestep`` is not an integer of at least 1.
    """

    def __init__(self, timestep: int) -> None:
        self._timestep = count("StopAtTimestep(timestep)", timestep)

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Stop before the first timestep if the total is reached already."""
        self._check(session)

    def after_timestep(self, session: Session, facts: TimestepFacts) -> None:
        """Stop if the total is reached."""
        self._check(session)

    def _check(self, session: Session) -> None:
        if session.global_timestep >= self._timestep:
            session.request_stop(f"global_timestep reached {self._timestep}")


class StopAtEpisode(Hook):
    """Stops when ``global_episode`` reaches a total.

    Episodes that end on the same vector step are all counted; ``train(max_episodes=...)`` is exact.

    Args:
        episode: the total number of finished episodes.

    Raises:
        ValueError: ``episode`` is not an integer of at least 1.
    """

    def __init__(self, episode: int) -> None:
        self._episode = count("StopAtEpisode(episode)", episode)

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Stop before the first timestep if the total is reached already."""
        self._check(session)

    def after_episode(self, session: Session, facts: EpisodeStats) -> None:
        """Stop if the total is reached."""
        self._check(session)

    def _check(self, session: Session) -> None:
        if session.global_episode >= self._episode:
            session.request_stop(f"global_episode reached {self._episode}")


class StopAtReturn(Hook):
    """Stops when the mean return of the last episodes of training reaches a threshold.

    The returns are in every checkpoint: a resumed run stops at the episode at which it would have stopped.

    Args:
        threshold: the mean return to reach.
        episodes: how many episodes the mean is over; before there are as many, the run goes on.

    Raises:
        ValueError: ``threshold`` is not a finite number, or ``episodes`` not an integer of at least 1.
    """

    def __init__(self, threshold: float, episodes: int = 100) -> None:
        self._threshold = number("StopAtReturn(threshold)", threshold)
        self._episodes = count("StopAtReturn(episodes)", episodes)
        self._returns = ReturnWindow(self._episodes)

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Stop before the first timestep if the run was good enough when it was saved."""
        self._check(session)

    def after_episode(self, session: Session, facts: EpisodeStats) -> None:
        """Stop if the mean reaches the threshold."""
        self._returns.push(facts.episode_return)
        self._check(session)

    def _check(self, session: Session) -> None:
        if self._returns.full and self._returns.mean >= self._threshold:
            session.request_stop(
                f"the mean return of the last {self._episodes} episodes, {self._returns.mean:.6g},"
                f" reached {self._threshold:g}"
            )

    def state_dict(self) -> State:
        """The returns in the window."""
        return self._returns.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Go on with the saved returns."""
        self._returns.load_state_dict(state)


class StopAfterNoImprovement(Hook):
    """Stops when so many evaluations in a row did not improve on the best mean return before them.

    It counts the evaluations of an EvaluationHook, whichever of the two hooks comes first; of several such hooks, the
    evaluations of all. The first evaluation is the first best. What is to be beaten and the count are in every
    checkpoint: a resumed run stops at the evaluation at which it would have stopped.

    Args:
        evaluations: how many without improvement.
        min_delta: by more than this must the mean return exceed the best one.

    Raises:
        ValueError: ``evaluations`` is not an integer of at least 1, or ``min_delta`` not a finite number of at least 0.
    """

    def __init__(self, evaluations: int, min_delta: float = 0.0) -> None:
        self._evaluations = count("StopAfterNoImprovement(evaluations)", evaluations)
        self._min_delta = number("StopAfterNoImprovement(min_delta)", min_delta, at_least=0)
        self._best: float | None = None
        self._without = 0

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Stop before the first timestep if the run had stopped improving when it was saved."""
        self._check(session)

    def after_evaluation(self, session: Session, facts: EvaluationFacts) -> None:
        """Compare with the best, and stop if that was often enough in vain."""
        mean = facts.results["episode_return_mean"]
        if self._best is None or mean > self._best + self._min_delta:
            self._best, self._without = mean, 0
        else:
            self._without += 1
        self._check(session)

    def end(self, session: Session, facts: EndFacts) -> None:
        """Say so if it never could have stopped the run."""
        if facts.error is None and self._best is None:
            what = "it needs an EvaluationHook that evaluates before the end"
            _log.warning("StopAfterNoImprovement saw no evaluation during the run: %s", what)

    def _check(self, session: Session) -> None:
        if self._best is not None and self._without >= self._evaluations:
            session.request_stop(
                f"{self._without} evaluations did not improve on the mean return {self._best:.6g}"
                + (f" by more than {self._min_delta:g}" if self._min_delta else "")
            )

    def state_dict(self) -> State:
        """The best mean return, and the evaluations since."""
        return {"best": self._best, "without": self._without}

    def load_state_dict(self, state: State) -> None:
        """Go on counting."""
        self._best, self._without = state["best"], state["without"]
