import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

from axonrl.hooks import CounterHook, LoggingHook, Rates
from axonrl.hooks.events import BeginFacts, EndFacts, EvaluationFacts, Timings, UpdateFacts
from axonrl.tests.hooks.facts import UPDATE, begun


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level("INFO", "axonrl")

    def taken() -> list[str]:
        messages = [record.getMessage() for record in caplog.records if record.name == "axonrl.hooks.logs"]
        caplog.clear()
        return messages

    return taken


def test_the_lines_of_a_run(session: Any, clock: Any, lines: Any) -> None:
    session.model_dir = Path("runs/one")
    hook = LoggingHook(every_secs=10, clock=clock)
    hook.begin(session, BeginFacts(1, False, {"timesteps": 50_000, "steps": 5_000}))
    assert lines() == ["training starts: timestep 0/50,000 | update 0/5,000 | episode 0 | in runs/one"]
    session.exploration = 0.05
    hook.after_episode(session, session.episode(20.0))
    hook.after_episode(session, session.episode(25.0))
    session.global_step, session.global_timestep = 1_197, 12_000
    clock.now += 4
    hook.after_update(session, UpdateFacts(0.5, {}))
    assert lines() == []
    clock.now += 6
    hook.after_update(session, UpdateFacts(0.25, {}))
    assert lines() == [
        "timestep 12,000/50,000 | update 1,197/5,000 | episode 2 | return(100) 22.50 (20 to 25) | loss 0.375"
        " | exploration rate 0.05 | 1,200 timesteps/s"
    ]
    hook.after_evaluation(session, EvaluationFacts({"episode_return_mean": 187.25, "episodes": 10.0}, (180.0, 194.5)))
    assert lines() == ["evaluation at timestep 12,000: return 187.25 (180 to 194.5) over 2 episodes"]
    clock.now += 2
    session.global_timestep = 12_100
    session.exploration = math.nan
    hook.end(session, EndFacts("the limit of 12100 timesteps", None, 12.0))
    assert lines() == [  # no update since the last line: no loss; the rate is that of all 12 s
        "training ends after 12.0 s: the limit of 12100 timesteps | timestep 12,100/50,000 | update 1,197/5,000"
        " | episode 2 | return(100) 22.50 (20 to 25) | 1,008 timesteps/s | evaluation 187.25"
    ]


def test_by_episodes_only(session: Any, clock: Any, lines: Any) -> None:
    hook = begun(LoggingHook(every_secs=None, every_episodes=2, clock=clock), session, facts=BeginFacts(1, True, {}))
    assert lines()[0].startswith("training resumes: ")
    clock.now += 1e6  # time says nothing
    for _ in range(5):
        hook.after_episode(session, session.episode(1.0))
        hook.after_update(session, UpdateFacts(0.5, {}))
    assert [line.split(" | ")[2] for line in lines()] == ["episode 2", "episode 4"]


def test_the_returns_continue_after_a_resume(session: Any, clock: Any, lines: Any) -> None:
    hook = LoggingHook(clock=clock)
    for episode_return in range(150):
        hook.after_episode(session, session.episode(float(episode_return)))
    begun(LoggingHook(clock=clock), session, hook.state_dict(), facts=BeginFacts(1, True, {}))
    assert "return(100) 99.50 (50 to 149)" in lines()[-1]


def test_the_evaluation_of_an_earlier_run_is_not_told(session: Any, clock: Any, lines: Any) -> None:
    hook = begun(LoggingHook(clock=clock), session)
    hook.end(session, EndFacts("done", None, 1.0))
    hook.after_evaluation(session, EvaluationFacts({"episode_return_mean": 187.25}, (187.25,)))  # at the end of it
    lines()
    hook.begin(session, BeginFacts(1, False, {}))
    assert lines() == [f"training starts: timestep 0 | update 0 | episode 0 | in {session.model_dir}"]


def test_each_session_has_its_own_rate(session: Any, clock: Any, lines: Any) -> None:
    hook = LoggingHook(clock=clock)
    for seconds in (10.0, 5.0):
        hook.begin(session, BeginFacts(1, False, {}))
        session.global_timestep += 100
        clock.now += seconds
        hook.after_update(session, UpdateFacts(0.5, {}))
        clock.now += seconds
        hook.end(session, EndFacts("done", None, 2 * seconds))
    rates = [line.split(" | ")[-1] for line in lines() if "timesteps/s" in line]
    # The first session: 100 in 10 s, then 100 in 20 s. The second reports at its end only.
    assert rates == ["10 timesteps/s", "5 timesteps/s", "10 timesteps/s"]


def test_what_eval_found_is_in_the_line_of_the_evaluation(session: Any, lines: Any) -> None:
    results = {"episode_return_mean": 2.5, "episodes": 2.0, "eval_loss": 0.123456, "eval/entropy": 12345.0}
    LoggingHook().after_evaluation(session, EvaluationFacts(results, (2.0, 3.0)))
    assert lines() == [
        "evaluation at timestep 0: return 2.5 (2 to 3) over 2 episodes | eval_loss 0.1235 | eval/entropy 1.234e+04"
    ]


def test_updates_without_timesteps(session: Any, clock: Any, lines: Any) -> None:
    hook = begun(LoggingHook(every_secs=10, clock=clock), session, facts=BeginFacts(1, False, {"steps": 5_000}))
    session.global_step = session.offline_steps = 2_000
    clock.now += 10
    hook.after_update(session, UpdateFacts(0.5, {}))
    hook.after_evaluation(session, EvaluationFacts({"episode_return_mean": 7.0, "episodes": 1.0}, (7.0,)))
    assert lines()[1:] == [
        "timestep 0 | update 2,000/5,000 | episode 0 | loss 0.5 | 200 updates/s",
        "evaluation at timestep 0, update 2,000: return 7 (7 to 7) over 1 episode",
    ]


def test_rates_and_shares_since_the_last_measurement(
    session: Any, clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "axonrl")
    session.global_timestep, session.global_step, session.global_episode = 1000, 100, 10  # a resumed session
    hook = begun(CounterHook(every_secs=10, clock=clock), session, facts=BeginFacts(1, True, {}))
    assert hook.rates() is None
    clock.now += 9.0
    hook.after_update(session, UPDATE)
    assert hook.rates() is None
    clock.now += 1.0
    session.global_timestep, session.global_step, session.global_episode = 1500, 150, 15
    session.timings = Timings(environment=5.0, acting=2.5, learning=1.0)
    hook.after_update(session, UPDATE)
    assert hook.rates() == Rates(50.0, 5.0, 0.5, 0.5, 0.25, 0.1)
    assert [record.getMessage() for record in caplog.records] == [
        "50 timesteps/s | 5 updates/s | 0.5 episodes/s | environment 50 %, acting 25 %, learning 10 %"
    ]
    clock.now += 20.0
    session.global_timestep, session.global_episode = 1520, 16
    session.timings = Timings(environment=15.0, acting=4.5, learning=1.0)
    hook.after_episode(session, session.episode())  # the 17th
    assert hook.rates() == Rates(1.0, 0.0, 0.1, 0.5, 0.1, 0.0)
    clock.now += 4.0
    session.global_timestep = 1528
    hook.end(session, EndFacts("done", None, 34.0))
    assert hook.rates() == Rates(2.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def test_no_time_passed(session: Any, clock: Any) -> None:
    hook = begun(CounterHook(clock=clock), session)
    hook.end(session, EndFacts("done", None, 0.0))
    rates = hook.rates()
    assert rates is not None
    assert all(math.isnan(value) for value in dataclasses.astuple(rates))
