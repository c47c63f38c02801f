"""SIGINT and SIGTERM: the first stops after the timestep, the second at once."""

import contextlib
import signal
from typing import Any

import pytest

from axonrl.experiments.running.signals import StopOnSignal
from axonrl.facts import BeginFacts, EndFacts

BEGIN, END = BeginFacts(1, False, {}), EndFacts("done", None, 1.0)


@pytest.mark.parametrize(("number", "name", "second"), [(2, "SIGINT", 15), (15, "SIGTERM", 15)])
def test_the_first_asks_and_the_second_raises(
    session: Any, number: int, name: str, second: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with StopOnSignal() as signals:
        signals.begin(session, BEGIN)
        assert (signals.received, session.stop_reason) == (None, None)
        signal.raise_signal(number)
        assert (signals.received, session.stop_reason) == (number, f"{name} received")
        assert (signals.name, signals.exit_code) == (name, 128 + number)
        assert capfd.readouterr().err == f"\naxonrl: {signals.title}: stopping and saving. Repeat to stop at once.\n"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(second)
    assert signals.exit_code == 143


@pytest.mark.parametrize("ended", [False, True])
def test_outside_of_a_session_it_raises_at_once(session: Any, ended: bool) -> None:
    with StopOnSignal() as signals:
        if ended:
            signals.begin(session, BEGIN)
            signals.end(session, END)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert session.stop_reason is None
    assert signals.name == "SIGTERM"


def test_the_handlers_before_are_put_back() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    with contextlib.suppress(RuntimeError), StopOnSignal() as signals:
        during = [signal.getsignal(number) for number in numbers]
        raise RuntimeError
    assert during == [signals._handle] * 2
    assert [signal.getsignal(number) for number in numbers] == before
