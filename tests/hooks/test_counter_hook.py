import dataclasses
import math
from typing import Any

import pytest

from axonrl.facts import BeginFacts, EndFacts, Timings
from axonrl.hooks import CounterHook, Rates
from axonrl.tests.hooks.facts import UPDATE, begun


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
