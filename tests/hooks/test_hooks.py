import sys
import types
from typing import Any

import pytest

from axonrl.errors import ArgumentError
from axonrl.hooks import CounterHook, HistoryHook, Hook, Hooks, LoggingHook, ProgressHook, SummaryHook
from axonrl.hooks.events import HOOK_EVENTS, EndFacts, UpdateFacts
from axonrl.hooks.hook import by_the_clock

UPDATE = UpdateFacts(0.5, {})
END = EndFacts("the limit of 10 steps", None, 1.0)


def recorder(name: str, log: list[Any], *events: str, fails: str | None = None) -> Any:
    """A hook that is no subclass, with some of the events; it writes down what is called."""

    def method(event: str) -> Any:
        def call(self: Any, session: Any, facts: Any) -> None:
            log.append((name, event, session, facts))
            if event == fails:
                raise RuntimeError(f"{name}.{event}")

        return call

    return type(name, (), {event: method(event) for event in events})()


def test_an_event_holds_only_the_hooks_that_override_it() -> None:
    class Mine(Hook):
        def after_update(self, session: Any, facts: Any) -> None: ...

    class Yours(Mine):
        def begin(self, session: Any, facts: Any) -> None: ...

    mine, yours = Mine(), Yours()
    hooks = Hooks([mine, yours])
    assert hooks.begin == (yours.begin,)
    assert hooks.after_update == (mine.after_update, yours.after_update)
    assert hooks.before_episode == hooks.after_timestep == hooks.after_episode == hooks.after_evaluation == ()


def test_what_goes_by_the_clock_is_not_for_every_timestep() -> None:
    class Waiting(Hook):
        @by_the_clock
        def after_timestep(self, session: Any, facts: Any) -> None: ...

    class Following(Hook):
        def after_timestep(self, session: Any, facts: Any) -> None: ...

    waiting, following = Waiting(), Following()
    hooks = Hooks([waiting, following])
    assert hooks.after_timestep == (waiting.after_timestep, following.after_timestep)
    assert hooks.every_timestep == (following.after_timestep,)


def test_without_hooks_there_is_nothing_to_call() -> None:
    hooks = Hooks()
    assert all(getattr(hooks, event) == () for event in HOOK_EVENTS if event != "end")
    hooks.end(None, END)  # type: ignore[arg-type]  # nobody looks at it


@pytest.mark.parametrize(
    ("name", "nearest"), [("on_episode_end", "after_episode"), ("afterUpdate", "after_update"), ("beginn", "begin")]
)
def test_a_misspelt_event_is_refused_with_the_nearest(name: str, nearest: str) -> None:
    hook = type("Mine", (Hook,), {"after_update": lambda self, s, f: None, name: lambda self, s, f: None})()
    with pytest.raises(ValueError, match=rf"Mine\.{name} is not an event of a hook; did you mean '{nearest}'\?"):
        Hooks([hook])


def test_other_public_methods_and_properties_are_allowed() -> None:
    class Mine(Hook):
        def begin(self, session: Any, facts: Any) -> None: ...

        def send(self) -> None: ...

        def rates(self) -> None: ...

        @property
        def after_all(self) -> Any:
            raise AssertionError("properties are not looked at")

    assert len(Hooks([Mine()]).begin) == 1


@pytest.mark.parametrize(
    ("method", "signature"),
    [(lambda self, session: None, r"\(session\)"), (lambda self, session, *, facts: None, r"\(session, \*, facts\)")],
)
def test_a_wrong_number_of_arguments_is_refused(method: Any, signature: str) -> None:
    hook = type("Mine", (Hook,), {"after_episode": method})()
    with pytest.raises(
        ValueError, match=rf"^Mine\.after_episode is called with \(session, facts\), but takes {signature}$"
    ):
        Hooks([hook])


def test_a_state_that_is_no_mapping_is_refused() -> None:
    hook = types.SimpleNamespace(begin=lambda s, f: None, state_dict=lambda: None, load_state_dict=lambda state: None)
    with pytest.raises(ValueError, match=r"SimpleNamespace\.state_dict must return a mapping .*, got None"):
        Hooks([hook]).state_dict()


def test_defaults_and_starred_arguments_are_fine() -> None:
    hook = types.SimpleNamespace(begin=lambda *args: None, after_update=lambda s, f, more=None: None)
    assert len(Hooks([hook]).begin) == len(Hooks([hook]).after_update) == 1


async def _coroutine(session: Any, facts: Any) -> None: ...


@pytest.mark.parametrize(
    ("hooks", "message"),
    [
        ([object()], "object is not a hook: it defines none of the events begin, before_episode"),
        ([Hook], r"got the class Hook, expected Hook\(\.\.\.\)"),
        (3, "hooks must be a hook, a function, or a sequence of these, got 3"),
        ([types.SimpleNamespace(begin=3)], r"SimpleNamespace\.begin must be a method \(session, facts\), got 3"),
        ([types.SimpleNamespace(begin=_coroutine)], "would never run"),
        (
            [types.SimpleNamespace(begin=lambda s, f: None, state_dict=dict)],
            r"SimpleNamespace must have both state_dict\(\) and load_state_dict\(state\), or neither",
        ),
    ],
)
def test_what_is_no_hook_is_refused(hooks: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as error:
        Hooks(hooks)
    assert error.value.argument == "hooks"


def test_every_end_runs_and_the_first_error_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    log: list[Any] = []
    hooks = Hooks(
        [
            recorder("A", log, "end"),
            recorder("B", log, "end", fails="end"),
            recorder("C", log, "end", fails="end"),
            recorder("D", log, "end"),
        ]
    )
    with pytest.raises(RuntimeError) as caught:
        hooks.end("session", END)  # type: ignore[arg-type]
    assert str(caught.value) == "B.end"
    assert log == [(name, "end", "session", END) for name in "ABCD"]
    assert [record.name for record in caplog.records] == ["axonrl.hooks.hook"]
    assert "raised as well: RuntimeError: C.end" in caplog.text
    if sys.version_info >= (3, 11):
        assert caught.value.__notes__ == ["C.end raised as well: RuntimeError: C.end"]


def test_an_interrupt_in_one_end_does_not_skip_the_others() -> None:
    log: list[Any] = []

    def interrupt(session: Any, facts: Any) -> None:
        raise KeyboardInterrupt

    hooks = Hooks([types.SimpleNamespace(end=interrupt), recorder("B", log, "end")])
    with pytest.raises(KeyboardInterrupt):
        hooks.end("session", END)  # type: ignore[arg-type]
    assert [entry[0] for entry in log] == ["B"]


def test_the_error_that_ended_the_run_comes_first(caplog: pytest.LogCaptureFixture) -> None:
    log: list[Any] = []
    hooks = Hooks([recorder("A", log, "end", fails="end"), recorder("B", log, "end")])
    error = OSError("the environment broke")
    hooks.end("session", EndFacts("an error", error, 1.0))  # type: ignore[arg-type]  # the caller raises the error
    assert [entry[0] for entry in log] == ["A", "B"]
    assert "A.end" in caplog.text
    if sys.version_info >= (3, 11):
        assert error.__notes__ == ["A.end raised as well: RuntimeError: A.end"]


class Counting(Hook):
    def __init__(self, count: int = 0) -> None:
        self.count = count

    def after_update(self, session: Any, facts: Any) -> None:
        self.count += 1

    def state_dict(self) -> dict[str, int]:
        return {"count": self.count}

    def load_state_dict(self, state: Any) -> None:
        self.count = state["count"]


def test_state_is_kept_by_class_and_occurrence() -> None:
    log: list[Any] = []
    saved = Hooks([Counting(3), recorder("Stateless", log, "begin"), Counting(5)]).state_dict()
    assert saved == {"Counting:0": {"count": 3}, "Counting:1": {"count": 5}}
    first, second, third = Counting(), Counting(), Counting(9)
    Hooks([first, second, third]).load_state_dict(saved)
    assert (first.count, second.count, third.count) == (3, 5, 9)  # the third has no saved state: it starts fresh


def test_state_of_a_hook_that_is_not_there_is_saved_again() -> None:
    hook = Counting()
    hooks = Hooks([hook])
    hooks.load_state_dict({"Counting:0": {"count": 3}, "Counting:1": {"count": 5}, "Gone:0": {"best": 1.0}})
    hook.count += 1
    assert hooks.state_dict() == {"Counting:0": {"count": 4}, "Counting:1": {"count": 5}, "Gone:0": {"best": 1.0}}


def test_an_end_without_a_begin_writes_nothing(
    session: Any, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "axonrl")
    logging, rates, history = LoggingHook(every_secs=None, every_episodes=1), CounterHook(), HistoryHook()
    for hook in (logging, rates, history, ProgressHook(), SummaryHook()):
        hook.end(session, EndFacts("another hook raised", ValueError(), 0.0))
    assert caplog.messages == ["training ends after 0.0 s: another hook raised"]
    assert (rates.rates(), history.global_timestep) == (None, 0)
    assert list(session.model_dir.iterdir()) == []
    assert capsys.readouterr() == ("", "")
