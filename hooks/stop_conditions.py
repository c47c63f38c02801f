"""Hooks that stop a run: at a total, at a mean return, or without improvement."""

from __future__ import annotations

import logging

from ..core.checks import count, counted, number
from ..core.protocols import State
from .events import BeginFacts, EndFacts, EpisodeStats, EvaluationFacts, Session, TimestepFacts, UpdateFacts
from .hook import Hook
from .measures import ReturnWindow

_log = logging.getLogger(__name__)


class _StopAt(Hook):
    """Stops when a counter of the session reaches a total."""

    def __init__(self, counter: str, total: int) -> None:
        self._counter, self._total = counter, total

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Stop before the first timestep if the total is already reached."""
        self._check(session)

    def _check(self, session: Session) -> None:
        if getattr(session, self._counter) >= self._total:
            session.request_stop(f"{self._counter} reached {self._total}")


class StopAtStep(_StopAt):
    """Stops when ``global_step`` reaches a total.

    Several updates may be due at one vector step, which is completed first. ``train(max_steps=...)`` is exact.

    Args:
        step: the total number of updates.
    """

    def __init__(self, step: int) -> None:
        super().__init__("global_step", count("StopAtStep(step)", step))

    def after_update(self, session: Session, facts: UpdateFacts) -> None:
        """Stop if the total is reached."""
        self._check(session)


class StopAtTimestep(_StopAt):
    """Stops at the first (vector) step where ``global_timestep`` reaches a total.

    Args:
        timestep: the total number of timesteps.
    """

    def __init__(self, timestep: int) -> None:
        super().__init__("global_timestep", count("StopAtTimestep(timestep)", timestep))

    def after_timestep(self, session: Session, facts: TimestepFacts) -> None:
        """Stop if the total is reached."""
        self._check(session)


class StopAtEpisode(_StopAt):
    """Stops when ``global_episode`` reaches a total.

    All episodes that end on the same vector step are counted; ``train(max_episodes=...)`` is exact.

    Args:
        episode: the total number of finished episodes.
    """

    def __init__(self, episode: int) -> None:
        super().__init__("global_episode", count("StopAtEpisode(episode)", episode))

    def after_episode(self, session: Session, facts: EpisodeStats) -> None:
        """Stop if the total is reached."""
        self._check(session)


class StopAtReturn(Hook):
    """Stops when the mean return of the last training episodes reaches a threshold.

    The returns are part of checkpoints: a resumed run stops at the same episode as an uninterrupted one.

    Args:
        threshold: the mean return to reach.
        episodes: number of episodes in the mean; the run does not stop before this many have ended.
    """

    def __init__(self, threshold: float, episodes: int = 100) -> None:
        self._threshold = number("StopAtReturn(threshold)", threshold)
        self._episodes = count("StopAtReturn(episodes)", episodes)
        self._returns = ReturnWindow(self._episodes)

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Stop before the first timestep if the saved returns reach the threshold."""
        self._check(session)

    def after_episode(self, session: Session, facts: EpisodeStats) -> None:
        """Stop if the mean reaches the threshold."""
        self._returns.push(facts.episode_return)
        self._check(session)

    def _check(self, session: Session) -> None:
        if self._returns.full and self._returns.mean >= self._threshold:
            session.request_stop(
                f"the mean return of the last {counted(self._episodes, 'episode')}, {self._returns.mean:.6g},"
                f" reached {self._threshold:g}"
            )

    def state_dict(self) -> State:
        """The returns in the window."""
        return self._returns.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Restore the returns."""
        self._returns.load_state_dict(state)


class StopAfterNoImprovement(Hook):
    """Stops after consecutive evaluations without a new best mean return.

    Counts the evaluations of all EvaluationHooks, whatever the order of hooks. The best return and the count are part
    of checkpoints: a resumed run stops at the same evaluation as an uninterrupted one.

    Args:
        evaluations: number of consecutive evaluations without improvement.
        min_delta: an improvement must exceed the best mean return by more than this.
    """

    def __init__(self, evaluations: int, min_delta: float = 0.0) -> None:
        self._evaluations = count("StopAfterNoImprovement(evaluations)", evaluations)
        self._min_delta = number("StopAfterNoImprovement(min_delta)", min_delta, at_least=0)
        self._best: float | None = None
        self._without = 0

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Stop before the first timestep if the saved count is reached."""
        self._check(session)

    def after_evaluation(self, session: Session, facts: EvaluationFacts) -> None:
        """Compare with the best; stop if the count is reached."""
        mean = facts.results["episode_return_mean"]
        if self._best is None or mean > self._best + self._min_delta:
            self._best, self._without = mean, 0
        else:
            self._without += 1
        self._check(session)

    def end(self, session: Session, facts: EndFacts) -> None:
        """Warn if there was no evaluation."""
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
        """The best mean return, and the number of evaluations since."""
        return {"best": self._best, "without": self._without}

    def load_state_dict(self, state: State) -> None:
        """Restore both."""
        self._best, self._without = state["best"], state["without"]
