import re
from typing import Any

import numpy as np
import pytest

from axonrl.contracts import BeginFacts, TimestepFacts, UpdateFacts
from axonrl.hooks import StopAtEpisode, StopAtReturn, StopAtStep, StopAtTimestep

BEGIN = BeginFacts(num_envs=1, resumed=False, limits={})
UPDATE = UpdateFacts(0.5, {})
_ROW = np.zeros(4)
TIMESTEP = TimestepFacts(_ROW, _ROW, _ROW, _ROW, _ROW, _ROW)


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


def test_stop_at_return_stops_at_once_if_it_was_good_enough_when_saved(session: Any) -> None:
    hook = StopAtReturn(threshold=10.0, episodes=2)
    hook.load_state_dict({"returns": np.array([9.0, 11.0])})
    hook.begin(session, BEGIN)
    assert session.stop_reason == "the mean return of the last 2 episodes, 10, reached 10"


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "3", None])
@pytest.mark.parametrize(
    ("hook", "name"),
    [
        (StopAtStep, "StopAtStep(step)"),
        (StopAtTimestep, "StopAtTimestep(timestep)"),
        (StopAtEpisode, "StopAtEpisode(episode)"),
        (lambda value: StopAtReturn(1.0, episodes=value), "StopAtReturn(episodes)"),
    ],
)
def test_totals_are_checked(hook: Any, name: str, value: object) -> None:
    message = f"{name} must be an integer of at least 1, got {value!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        hook(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "475", None, True])
def test_the_threshold_is_checked(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^StopAtReturn\(threshold\) must be a finite number, got"):
        StopAtReturn(threshold=value)
