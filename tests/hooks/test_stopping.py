from typing import Any

import numpy as np
import pytest

from axonrl.facts import EndFacts, EvaluationFacts
from axonrl.hooks import (
    EvaluationHook,
    Hooks,
    StopAfterNoImprovement,
    StopAtEpisode,
    StopAtReturn,
    StopAtStep,
    StopAtTimestep,
)
from axonrl.tests.hooks.facts import BEGIN, TIMESTEP, UPDATE


def test_stop_at_step(session: Any) -> None:
    hook = StopAtStep(step=3)
    hook.begin(session, BEGIN)
    reasons = []
    for session.global_step in (1, 2, 3):
        hook.after_update(session, UPDATE)
        reasons.append(session.stop_reason)
    assert reasons == [None, None, "global_step reached 3"]


def test_stop_at_timestep_stops_at_the_first_vector_step_that_reaches_it(session: Any) -> None:
    hook = StopAtTimestep(timestep=10)
    hook.begin(session, BEGIN)
    reasons = []
    for session.global_timestep in (4, 8, 12):
        hook.after_timestep(session, TIMESTEP)
        reasons.append(session.stop_reason)
    assert reasons == [None, None, "global_timestep reached 10"]


def test_stop_at_episode(session: Any) -> None:
    hook = StopAtEpisode(episode=2)
    hook.begin(session, BEGIN)
    hook.after_episode(session, session.episode())
    assert session.stop_reason is None
    hook.after_episode(session, session.episode())
    assert session.stop_reason == "global_episode reached 2"


@pytest.mark.parametrize(
    ("hook", "counter"),
    [
        (StopAtStep(5), "global_step"),
        (StopAtTimestep(5), "global_timestep"),
        (StopAtEpisode(5), "global_episode"),
    ],
)
def test_totals_reached_before_stop_at_once(session: Any, hook: Any, counter: str) -> None:
    setattr(session, counter, 5)
    hook.begin(session, BEGIN)
    assert session.stop_reason == f"{counter} reached 5"


def test_stop_at_return_needs_a_full_window(session: Any) -> None:
    hook = StopAtReturn(threshold=10.0, episodes=3)
    hook.begin(session, BEGIN)
    reasons = []
    for episode_return in (30.0, 12.0, -18.0, 16.0, 32.0):  # windows: 8, then 10/3, then 10
        hook.after_episode(session, session.episode(episode_return))
        reasons.append(session.stop_reason)
    assert reasons[:4] == [None] * 4
    assert reasons[4] == "the mean return of the last 3 episodes, 10, reached 10"


def test_stop_at_return_resumes_with_its_window(session: Any) -> None:
    hook = StopAtReturn(threshold=10.0, episodes=3)
    for episode_return in (0.0, 9.0, 9.0):
        hook.after_episode(session, session.episode(episode_return))
    state = hook.state_dict()
    np.testing.assert_array_equal(state["returns"], [0.0, 9.0, 9.0])

    resumed = StopAtReturn(threshold=10.0, episodes=3)
    resumed.load_state_dict(state)
    resumed.begin(session, BEGIN)
    assert session.stop_reason is None
    resumed.after_episode(session, session.episode(12.0))  # (9 + 9 + 12) / 3 = 10
    assert session.stop_reason == "the mean return of the last 3 episodes, 10, reached 10"


def evaluated(hook: StopAfterNoImprovement, session: Any, *means: float) -> list[bool]:
    """After each evaluation with these mean returns: is the run to stop?"""
    stopped = []
    for mean in means:
        hook.after_evaluation(session, EvaluationFacts({"episode_return_mean": mean}, (mean,)))
        stopped.append(session.stop_reason is not None)
    return stopped


def test_stops_after_evaluations_in_a_row_without_improvement(session: Any) -> None:
    hook = StopAfterNoImprovement(evaluations=2)
    hook.begin(session, BEGIN)
    # 5 is beaten by 6; 6 is no improvement on 6, 7 is, and is not beaten twice.
    assert evaluated(hook, session, 5, 4, 6, 6, 7, -3, 6.5) == [False] * 6 + [True]
    assert session.stop_reason == "2 evaluations did not improve on the mean return 7"


def test_an_improvement_is_more_than_min_delta_over_the_best(session: Any) -> None:
    """Small steps do not add up: 1, 1.5 and 2 are all compared with 1."""
    hook = StopAfterNoImprovement(evaluations=3, min_delta=1.0)
    hook.begin(session, BEGIN)
    assert evaluated(hook, session, 1, 1.5, 2, 2.25, 2.5, 3, 3.25) == [False] * 6 + [True]
    assert session.stop_reason == "3 evaluations did not improve on the mean return 2.25 by more than 1"


def test_a_resumed_run_stops_at_the_same_evaluation(session: Any) -> None:
    first = StopAfterNoImprovement(evaluations=3)
    evaluated(first, session, 5, 4, 4)
    resumed = StopAfterNoImprovement(evaluations=3)
    resumed.load_state_dict(first.state_dict())
    resumed.begin(session, BEGIN)
    assert session.stop_reason is None
    assert evaluated(resumed, session, 4.5) == [True]


def test_a_run_that_had_stopped_improving_when_saved_stops_at_once(session: Any) -> None:
    first = StopAfterNoImprovement(evaluations=1)
    evaluated(first, session, 5, 4)
    session.stop_reason = None
    resumed = StopAfterNoImprovement(evaluations=1)
    resumed.load_state_dict(first.state_dict())
    resumed.begin(session, BEGIN)
    assert session.stop_reason == "1 evaluations did not improve on the mean return 5"


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_of_the_hooks_does_not_matter(order: int, session: Any) -> None:
    session.evaluations = [3.0, 2.0, 1.0]
    hooks = Hooks([StopAfterNoImprovement(2), EvaluationHook(10)][::order])
    session.listeners = hooks.after_evaluation
    for call in hooks.begin:
        call(session, BEGIN)
    stops = []
    for session.global_timestep in (10, 20, 30):
        for call in hooks.after_timestep:
            call(session, TIMESTEP)
        stops.append(session.stop_reason)
    assert stops == [None, None, "2 evaluations did not improve on the mean return 3"]


def test_without_any_evaluation_it_says_what_it_needs(session: Any, caplog: pytest.LogCaptureFixture) -> None:
    hook = StopAfterNoImprovement(2)
    hook.begin(session, BEGIN)
    hook.end(session, EndFacts("failed", ValueError(), 1.0))
    assert caplog.messages == []
    hook.end(session, EndFacts("the limit", None, 1.0))
    what = "it needs an EvaluationHook that evaluates before the end"
    assert caplog.messages == [f"StopAfterNoImprovement saw no evaluation during the run: {what}"]
