import math
from typing import Any

import numpy as np
import pytest

from axonrl.errors import NonFiniteError
from axonrl.hooks import NaNGuard, StopAfterNoImprovement, StopAtEpisode, StopAtReturn, StopAtStep, StopAtTimestep
from axonrl.hooks.events import EndFacts, EvaluationFacts, UpdateFacts
from axonrl.tests.hooks.facts import BEGIN, TIMESTEP, UPDATE, begun
from axonrl.tests.raising import raised


@pytest.mark.parametrize(
    ("hook", "counter", "event", "values"),
    [
        (StopAtStep(3), "global_step", "after_update", (1, 2, 3)),
        (StopAtTimestep(10), "global_timestep", "after_timestep", (4, 8, 12)),  # the first vector step that reaches it
        (StopAtEpisode(2), "global_episode", "after_episode", (0, 1, 2)),
    ],
)
def test_stops_at_a_total(session: Any, hook: Any, counter: str, event: str, values: tuple[int, ...]) -> None:
    facts: dict[str, Any] = {"after_update": UPDATE, "after_timestep": TIMESTEP, "after_episode": session.episode()}
    setattr(session, counter, 0)
    begun(hook, session)
    reasons = []
    for value in values:
        setattr(session, counter, value)
        getattr(hook, event)(session, facts[event])
        reasons.append(session.stop_reason)
    total = {"global_step": 3, "global_timestep": 10, "global_episode": 2}[counter]
    assert reasons == [None, None, f"{counter} reached {total}"]


@pytest.mark.parametrize(
    ("hook", "counter"),
    [(StopAtStep(5), "global_step"), (StopAtTimestep(5), "global_timestep"), (StopAtEpisode(5), "global_episode")],
)
def test_totals_reached_before_stop_at_once(session: Any, hook: Any, counter: str) -> None:
    setattr(session, counter, 5)
    hook.begin(session, BEGIN)
    assert session.stop_reason == f"{counter} reached 5"


def test_stop_at_return_needs_a_full_window(session: Any) -> None:
    hook = begun(StopAtReturn(threshold=10.0, episodes=3), session)
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
    resumed = begun(StopAtReturn(threshold=10.0, episodes=3), session, state)
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
    hook = begun(StopAfterNoImprovement(evaluations=2), session)
    # 5 is beaten by 6; 6 is no improvement on 6, 7 is, and is not beaten twice.
    assert evaluated(hook, session, 5, 4, 6, 6, 7, -3, 6.5) == [False] * 6 + [True]
    assert session.stop_reason == "2 evaluations did not improve on the mean return 7"


def test_an_improvement_is_more_than_min_delta_over_the_best(session: Any) -> None:
    """Small steps do not add up: 1, 1.5 and 2 are all compared with 1."""
    hook = begun(StopAfterNoImprovement(evaluations=3, min_delta=1.0), session)
    assert evaluated(hook, session, 1, 1.5, 2, 2.25, 2.5, 3, 3.25) == [False] * 6 + [True]
    assert session.stop_reason == "3 evaluations did not improve on the mean return 2.25 by more than 1"


def test_a_resumed_run_stops_at_the_same_evaluation_or_at_once(session: Any) -> None:
    first = StopAfterNoImprovement(evaluations=3)
    evaluated(first, session, 5, 4, 4)
    resumed = begun(StopAfterNoImprovement(evaluations=3), session, first.state_dict())
    assert session.stop_reason is None
    assert evaluated(resumed, session, 4.5) == [True]
    first = StopAfterNoImprovement(evaluations=1)
    evaluated(first, session, 5, 4)
    session.stop_reason = None
    begun(StopAfterNoImprovement(evaluations=1), session, first.state_dict())
    assert session.stop_reason == "1 evaluations did not improve on the mean return 5"


def test_without_any_evaluation_it_says_what_it_needs(session: Any, caplog: pytest.LogCaptureFixture) -> None:
    hook = begun(StopAfterNoImprovement(2), session)
    hook.end(session, EndFacts("failed", ValueError(), 1.0))
    assert caplog.messages == []
    hook.end(session, EndFacts("the limit", None, 1.0))
    what = "it needs an EvaluationHook that evaluates before the end"
    assert caplog.messages == [f"StopAfterNoImprovement saw no evaluation during the run: {what}"]


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (UpdateFacts(math.nan, {}), "the loss is nan at global_step 12, global_timestep 345"),
        (
            UpdateFacts(math.inf, {"v": 1.0, "q": -math.inf}),
            "the loss is inf, the metric 'q' is -inf at global_step 12, global_timestep 345",
        ),
        (
            UpdateFacts(1.0, {"q": 1.0, "entropy": math.inf}),
            "the metric 'entropy' is inf at global_step 12, global_timestep 345",
        ),
    ],
)
def test_it_names_what_is_not_finite_and_when(session: Any, facts: UpdateFacts, message: str) -> None:
    session.global_step, session.global_timestep = 12, 345
    assert str(raised(NonFiniteError, NaNGuard().after_update, session, facts)) == message


def test_finite_numbers_pass(session: Any) -> None:
    NaNGuard().after_update(session, UpdateFacts(1e300, {"q": -0.0}))
    NaNGuard().after_update(session, UpdateFacts(1e308, {"q": 1e308}))  # whatever their sum is
    assert session.stop_reason is None
