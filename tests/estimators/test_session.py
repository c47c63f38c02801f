"""The monitored session: the order of events, when it saves, how it ends, and what it offers to hooks."""

import json
import logging
import math
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Discrete

from axonrl import Agent, EstimatorSpec, RunConfig
from axonrl.errors import ArgumentError
from axonrl.estimators import loop
from axonrl.estimators.run import Run
from axonrl.explorations import EpsilonGreedy, Linear
from axonrl.hooks import EvaluationHook, Hook, LoggingHook, NaNGuard, SummaryHook
from axonrl.hooks.events import BeginFacts, EpisodeFacts
from axonrl.hooks.hook import by_the_clock
from axonrl.memories import ReplayMemory
from axonrl.run_dir.arrays import load_arrays
from axonrl.tests.estimators.fakes import (
    At,
    Counting,
    ListMemory,
    Notes,
    agent,
    differences,
    failing,
    linear_model,
    saved,
    snapshot,
    vector,
)
from axonrl.tests.raising import raised

pytestmark = pytest.mark.usefixtures("traced_once")


@pytest.mark.parametrize(("look_secs", "expected"), [(0.0, [1, 2, 3, 4, 5, 6]), (math.inf, [1])])
def test_a_hook_that_goes_by_the_clock_is_called_now_and_then(
    look_secs: float, expected: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "LOOK_SECS", look_secs)
    looked, notes = [], Notes()

    class Waiting(Hook):
        @by_the_clock
        def after_timestep(self, session: Any, facts: Any) -> None:
            looked.append(session.global_timestep)

    agent(tmp_path, ListMemory(2)).train(Counting(2), 2, timesteps=6, hooks=[Waiting(), notes])
    assert looked == expected
    assert [event[1] for event in notes.events if event[0] == "after_timestep"] == [1, 2, 3, 4, 5, 6]


def test_every_event_in_order_with_two_environments_and_its_facts(tmp_path: Path) -> None:
    """Episodes of two and of three timesteps; both end on the last vector step, where only one is wanted."""
    notes = Notes()
    envs = Counting(2), Counting(3)
    agent(tmp_path, ListMemory(2)).train(vector(*envs), 4, 3, episodes=4, hooks=[notes])
    assert notes.events == [
        ("begin", 0, 0, 0),
        ("before_episode", 0, 0, 0, 0),
        ("before_episode", 1, 0, 0, 0),
        ("after_timestep", 2, 0, 0),
        ("after_timestep", 4, 0, 0),
        ("after_update", 4, 1, 0),
        ("after_episode", 0, 4, 1, 1),
        ("before_episode", 0, 4, 1, 1),
        ("after_timestep", 6, 1, 1),
        ("after_episode", 1, 6, 1, 2),
        ("before_episode", 1, 6, 1, 2),
        ("after_timestep", 8, 1, 2),
        ("after_update", 8, 2, 2),
        ("after_episode", 0, 8, 2, 3),
        ("before_episode", 0, 8, 2, 3),
        ("after_timestep", 10, 2, 3),
        ("after_update", 10, 3, 3),
        ("after_timestep", 12, 3, 3),
        ("after_episode", 0, 12, 3, 4),
        ("end", 12, 3, 4),
    ]
    fakes = "axonrl.tests.estimators.fakes"
    settings: dict[str, bool | float | str] = {"environment": "Counting", "model_fn": f"{fakes}:linear_model"}
    settings |= {"seed": 0, "num_envs": 2, "memory.kind": f"{fakes}:ListMemory", "memory.batch_size": 2}
    settings |= {"memory.is_rollout": False}
    assert notes.facts["begin"] == [BeginFacts(2, False, {"episodes": 4}, settings)]
    seeds = [env.seeds[0] for env in envs] + [envs[0].seeds[1]]
    pairs = zip([(0, 0), (1, 0), (0, 1)], seeds, strict=True)
    assert notes.facts["before_episode"][:3] == [EpisodeFacts(i, episode, seed or -1) for (i, episode), seed in pairs]
    assert len(set(seeds)) == 3
    first, second, third = notes.facts["after_timestep"][:3]
    assert [facts.reward.tolist() for facts in (first, second, third)] == [[1, 1], [2, 2], [1, 3]]
    assert [facts.observation[:, 0].tolist() for facts in (first, second, third)] == [[0, 0], [1, 1], [0, 2]]
    assert [facts.next_observation[:, 0].tolist() for facts in (first, second, third)] == [[1, 1], [2, 2], [1, 3]]
    assert [facts.terminated.tolist() for facts in (first, second, third)] == [[0, 0], [1, 0], [0, 1]]
    assert not any(facts.truncated.any() for facts in (first, second, third))
    actions = [facts.action.tolist() for facts in notes.facts["after_timestep"]]
    assert actions == list(map(list, zip(envs[0].actions, envs[1].actions, strict=True)))
    update = notes.facts["after_update"][0]
    assert math.isfinite(update.loss)
    assert update.metrics.keys() == {"target"}


@pytest.mark.parametrize("name", ["observation", "action", "reward", "terminated", "next_observation"])
def test_a_hook_cannot_change_the_arrays_with_which_the_run_goes_on(name: str, tmp_path: Path) -> None:
    def write(session: Any, facts: Any) -> None:
        getattr(facts, name)[...] = 1

    hook = type("Writing", (), {"after_timestep": staticmethod(write)})()
    for number, env in enumerate((Counting(), vector(Counting(), Counting()))):
        one = agent(tmp_path / str(number), ListMemory(2))
        raised(ValueError, one.train, env, timesteps=2, hooks=[hook], match="read-only")


def test_a_resumed_run_says_so_and_goes_on_in_mid_episode(tmp_path: Path) -> None:
    agent(tmp_path).train(Counting(5), timesteps=7)
    notes = Notes()
    agent(tmp_path).train(Counting(5), timesteps=4, hooks=[notes])
    [begin] = notes.facts["begin"]
    assert (begin.num_envs, begin.resumed, begin.limits) == (1, True, {"timesteps": 11})
    assert [event[0] for event in notes.events] == [
        "begin",
        *["after_timestep"] * 3,
        "after_episode",
        "before_episode",
        "after_timestep",
        "end",
    ]
    stats = notes.facts["after_episode"][0]
    assert (stats.episode_return, stats.length, stats.episode) == (15.0, 5, 1)


def test_the_statistics_of_episodes(tmp_path: Path) -> None:
    def model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        spec = linear_model(features, labels, mode)
        if labels is None:
            exploration = EpsilonGreedy(Linear(start=1.0, stop=0.0, duration=10), Discrete(2))
            return EstimatorSpec(mode, spec.predictions, exploration=exploration)
        return spec

    notes = Notes()
    agent(tmp_path, ListMemory(2), model).train(Counting(4, truncates=True), 6, 1, episodes=2, hooks=[notes])
    losses = [facts.loss for facts in notes.facts["after_update"]]
    assert len(losses) == 3  # at timesteps 6, 7 and 8
    first, second = notes.facts["after_episode"]
    assert (first.episode_return, first.length) == (1 + 2 + 3 + 4, 4)
    assert (first.terminated, first.truncated) == (False, True)
    assert math.isnan(first.loss)
    assert second.loss == pytest.approx(sum(losses) / 3)
    assert (first.exploration, second.exploration) == pytest.approx((0.6, 0.2))
    assert (first.environment, first.episode, second.episode) == (0, 0, 1)
    assert first.seconds > 0


def test_a_policy_without_a_level_explores_nan(tmp_path: Path) -> None:
    class Silent:
        def __call__(self, predictions: Any, timestep: int, rng: Any) -> Any:
            return predictions["action"], {}

    def model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        spec = linear_model(features, labels, mode)
        return spec if labels is not None else EstimatorSpec(mode, spec.predictions, exploration=Silent())

    notes = Notes()
    agent(tmp_path, model=model).train(Counting(), episodes=1, hooks=[notes])
    assert math.isnan(notes.facts["after_episode"][0].exploration)


def test_the_default_hooks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = {"keep_checkpoint_max": 1, "keep_checkpoint_every_n_hours": 1e-9}  # all but the first, which is removed
    with caplog.at_level(logging.INFO, logger="axonrl"):
        agent(tmp_path, save_checkpoints_episodes=2, **kept).train(Counting(), 14, timesteps=14)
    assert caplog.messages[0] == "Using LiteRT for actor and learner: the model is small and converts."
    assert caplog.messages[1].startswith("training starts: ")
    assert len(list((tmp_path / "events").iterdir())) == 1
    assert saved(tmp_path) == [(6, 0, 2), (12, 0, 4), (14, 1, 4)]


def test_progress_is_shown_unless_it_is_switched_off(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    agent(tmp_path / "a", progress=True).train(Counting(3), 4, 4, timesteps=12)
    assert capfd.readouterr().err.startswith("timestep 12/12 | update 3 | episode 4 | return(100) 6.00 | loss ")
    agent(tmp_path / "b").train(Counting(3), 4, 4, timesteps=12)
    assert capfd.readouterr().err == ""


def test_a_hook_of_the_same_class_replaces_the_default_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Summary(SummaryHook):
        opened = 0

        def begin(self, session: Any, facts: Any) -> None:
            Summary.opened += 1

        def after_episode(self, session: Any, facts: Any) -> None:
            pass

    with caplog.at_level(logging.INFO, logger="axonrl"):
        agent(tmp_path).train(Counting(), timesteps=4, hooks=[LoggingHook(every_episodes=1), Summary()])
    assert sum("training starts" in message for message in caplog.messages) == 1
    assert Summary.opened == 1
    assert not (tmp_path / "events").exists()


def test_the_spec_adds_hooks_and_the_guard_comes_first(tmp_path: Path) -> None:
    calls: list[str] = []

    class Says:
        def __init__(self, name: str) -> None:
            self.name = name

        def after_update(self, session: Any, facts: Any) -> None:
            calls.append(self.name)

    class Guard(NaNGuard):
        def after_update(self, session: Any, facts: Any) -> None:
            calls.append("guard")

    def model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        spec = linear_model(features, labels, mode)
        return (
            spec
            if labels is None
            else EstimatorSpec(mode, loss=spec.loss, train_op=spec.train_op, training_hooks=(Says("spec"),))
        )

    one = agent(tmp_path, model=model)
    one.train(Counting(), 8, hooks=[Says("given"), Guard()], timesteps=8)
    assert calls == ["given", "guard", "spec"]


@pytest.mark.parametrize("event", ["begin", "after_update", "end"])
def test_when_a_hook_raises_the_ends_run_and_nothing_more_is_saved(event: str, tmp_path: Path) -> None:
    notes = Notes()
    with pytest.raises(RuntimeError, match="no more paper"):
        agent(tmp_path).train(Counting(), 8, timesteps=20, hooks=[At(event, 0, failing("no more paper")), notes])
    assert notes.events[-1][0] == "end"
    facts = notes.facts["end"][0]
    if event == "end":  # then the run itself was saved already
        assert facts.error is None
        assert saved(tmp_path) == [(0, 0, 0), (20, 2, 6)]
    else:
        assert isinstance(facts.error, RuntimeError)
        assert facts.reason == "RuntimeError: no more paper"
        assert saved(tmp_path) == [(0, 0, 0)]


def test_a_request_stops_before_the_next_timestep_and_the_first_reason_is_kept(tmp_path: Path) -> None:
    def ask(session: Any) -> None:
        session.request_stop("enough")
        session.request_stop("more than enough")
        assert session.stop_reason == "enough"

    notes = Notes()
    env = vector(Counting(2), Counting(3))
    agent(tmp_path, ListMemory(2)).train(env, 4, 1, hooks=[At("after_timestep", 4, ask), notes])
    assert notes.events[-4:] == [
        ("after_timestep", 4, 0, 0),
        ("after_update", 4, 1, 0),
        ("after_episode", 0, 4, 1, 1),
        ("end", 4, 1, 1),
    ]
    assert notes.facts["end"][0].reason == "enough"
    assert saved(tmp_path)[-1] == (4, 1, 1)
    begun = agent(tmp_path / "begun").train(Counting(), hooks=[At("begin", 0, lambda one: one.request_stop("no"))])
    assert begun.global_timestep == 0


def test_a_checkpoint_asked_for_in_a_timestep_is_written_at_its_end_and_between_timesteps_at_once(
    tmp_path: Path,
) -> None:
    def ask(session: Any) -> None:
        session.save_checkpoint()
        assert saved(tmp_path) == [(0, 0, 0)] * 2

    one, env = agent(tmp_path), Counting(4)
    hooks = [At("begin", 0, lambda session: session.save_checkpoint()), At("after_timestep", 2, ask)]
    with one.session(env, hooks) as session:
        assert saved(tmp_path) == [(0, 0, 0)] * 2
        one.run_episode(env, session)
        assert saved(tmp_path)[2:] == [(2, 0, 0)]
        session.save_checkpoint()
        assert saved(tmp_path)[3:] == [(4, 0, 1)]
    assert saved(tmp_path)[3:] == [(4, 0, 1)]  # nothing has changed since


def test_what_hooks_learn_in_their_end_is_saved_too(tmp_path: Path) -> None:
    class Counts(Hook):
        ends = 0

        def end(self, session: Any, facts: Any) -> None:
            self.ends += 1

        def state_dict(self) -> dict[str, Any]:
            return {"ends": self.ends}

        def load_state_dict(self, state: Any) -> None:
            self.ends = state["ends"]

    class Lists(Hook):
        """Its state is the list itself, not a copy."""

        def __init__(self) -> None:
            self.reasons: list[str] = []

        def end(self, session: Any, facts: Any) -> None:
            self.reasons.append(facts.reason)

        def state_dict(self) -> dict[str, Any]:
            return {"reasons": self.reasons}

        def load_state_dict(self, state: Any) -> None:
            self.reasons = state["reasons"]

    for expected in (1, 2, 3):
        counts, lists = Counts(), Lists()
        agent(tmp_path / "counts").train(Counting(), timesteps=2, hooks=[counts])
        agent(tmp_path / "lists").train(Counting(), timesteps=2, hooks=[lists])
        assert counts.ends == len(lists.reasons) == expected


@pytest.mark.parametrize("value", [math.nan, np.float32("nan"), np.array([1, np.nan])])
def test_a_hook_that_holds_nan_has_nothing_new_to_save(value: Any, tmp_path: Path) -> None:
    held = {"state_dict": lambda: {"best": value}, "load_state_dict": lambda state: None}
    hook = SimpleNamespace(after_episode=lambda session, stats: None, **held)
    agent(tmp_path).train(Counting(), timesteps=4, hooks=[hook])
    assert saved(tmp_path) == [(0, 0, 0), (4, 0, 1)]


def test_weights_set_after_the_last_checkpoint_of_a_session_are_saved_too(tmp_path: Path) -> None:
    one, env = agent(tmp_path), Counting()

    def set_to(number: float) -> None:
        one.set_weights({name: np.full_like(array, number) for name, array in one.get_weights().items()})

    def saved_weights() -> list[Any]:
        return [np.unique(array).tolist() for array in agent(tmp_path).get_weights().values()]

    one.train(env, timesteps=2, hooks=[At("end", 0, lambda session: set_to(2))])
    assert saved_weights() == [[2]]
    with one.session(env) as session:
        session.save_checkpoint()
        set_to(3)
    assert saved_weights() == [[3]]


def test_a_checkpoint_asked_for_after_an_error_is_not_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    hooks = [At("begin", 0, failing("no")), At("end", 0, lambda session: session.save_checkpoint())]
    raised(RuntimeError, agent(tmp_path).train, Counting(), timesteps=5, hooks=hooks, match="no")
    assert saved(tmp_path) == [(0, 0, 0)]
    assert "no checkpoint is saved: the run has failed" in caplog.messages


def ctrl_c(session: Any) -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("event", ["before_episode", "after_update"])
def test_ctrl_c_saves_at_the_end_of_the_timestep_and_the_run_resumes_exactly(event: str, tmp_path: Path) -> None:
    agent(tmp_path / "a").train(Counting(4), 8, max_timesteps=30)
    notes = Notes()
    with pytest.raises(KeyboardInterrupt):
        agent(tmp_path / "b").train(Counting(4), 8, max_timesteps=30, hooks=[At(event, 8, ctrl_c), notes])
    timestep = {"before_episode": (9, 1, 2)}.get(event, (8, 1, 2))
    assert saved(tmp_path / "b") == [(0, 0, 0), timestep]
    assert notes.events[-1] == ("end", *timestep)
    assert isinstance(notes.facts["end"][0].error, KeyboardInterrupt)
    assert notes.facts["end"][0].reason == "KeyboardInterrupt"
    agent(tmp_path / "b").train(Counting(4), 8, max_timesteps=30)
    assert differences(snapshot(tmp_path / "a"), snapshot(tmp_path / "b")) == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_does_not_wait_and_saves_nothing(tmp_path: Path) -> None:
    def twice(session: Any) -> None:
        ctrl_c(session)
        ctrl_c(session)

    notes = Notes()
    with pytest.raises(KeyboardInterrupt):
        agent(tmp_path).train(Counting(4), 8, hooks=[At("after_timestep", 8, twice), notes])
    assert saved(tmp_path) == [(0, 0, 0)]
    assert notes.events[-1] == ("end", 8, 0, 1)


def test_a_second_ctrl_c_ends_the_last_checkpoint_and_no_other_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, begun = Run.save, list[int]()

    def interrupted(self: Run, state: Any) -> None:
        begun.append(state["counters"]["global_timestep"])
        if begun[-1] == 8:
            ctrl_c(None)
            ctrl_c(None)
        save(self, state)

    monkeypatch.setattr(Run, "save", interrupted)
    raised(KeyboardInterrupt, agent(tmp_path).train, Counting(4), timesteps=8)
    assert begun == [0, 8]
    assert saved(tmp_path) == [(0, 0, 0)]


def test_ctrl_c_between_timesteps_comes_at_once_and_saves(tmp_path: Path) -> None:
    one, env = agent(tmp_path), Counting(4)

    def loop() -> None:
        with one.session(env) as session:
            one.run_episode(env, session)
            ctrl_c(session)
            one.run_episode(env, session)

    raised(KeyboardInterrupt, loop)
    assert saved(tmp_path) == [(0, 0, 0), (4, 0, 1)]


def test_who_handles_ctrl_c_already_keeps_it(tmp_path: Path) -> None:
    caught: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: caught.append(number))
    try:
        one = agent(tmp_path).train(Counting(4), timesteps=10, hooks=[At("after_timestep", 8, ctrl_c)])
    finally:
        signal.signal(signal.SIGINT, before)
    assert caught == [signal.SIGINT]
    assert one.global_timestep == 10


def test_run_episode_finishes_the_episode_in_flight_and_does_what_train_does(tmp_path: Path) -> None:
    agent(tmp_path / "a").train(Counting(4), 8, 3, episodes=5)
    one, env = agent(tmp_path / "b"), Counting(4)
    one.train(env, 8, 3, timesteps=6)
    with one.session(env) as session:
        stats = [one.run_episode(env, session, 8, 3) for _ in range(4)]
    assert [(s.episode, s.episode_return, s.length) for s in stats] == [(k, 10.0, 4) for k in range(1, 5)]
    assert differences(snapshot(tmp_path / "a"), snapshot(tmp_path / "b")) == []


def test_train_refuses_a_subclass_whose_episodes_it_would_not_run(tmp_path: Path) -> None:
    class Twice(Agent):
        def run_episode(self, *args: Any, **kwargs: Any) -> Any:
            super().run_episode(*args, **kwargs)
            return super().run_episode(*args, **kwargs)

    one, env = Twice(linear_model, ReplayMemory(1000, 4), tmp_path, RunConfig(seed=0)), Counting(3)
    for asked in (one.train, one.check):
        refused = raised(ArgumentError, asked, env, match=r"^train does not call Twice\.run_episode: .* Agent\.inter")
        assert refused.argument == "run_episode"
    assert not (tmp_path / "run.json").exists()
    with one.session(env) as session:  # a loop of one's own may call it
        assert (one.run_episode(env, session).length, one.global_episode) == (3, 2)


def test_hooks_refuse_to_pass_over_a_subclass_that_overrides_evaluate(tmp_path: Path) -> None:
    class Mine(Agent):
        def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
            return super().evaluate(*args, **kwargs)

    one = Mine(linear_model, ReplayMemory(1000, 4), tmp_path, RunConfig(seed=0))
    refused = raised(
        ArgumentError, one.train, Counting(3), hooks=EvaluationHook(5), match=r"do not call Mine\.evaluate"
    )
    assert refused.argument == "hooks"
    assert one.train(Counting(3), timesteps=3).evaluate(Counting(3), episodes=1)["episodes"] == 1


def test_a_request_lets_the_episode_finish_and_no_other_begin(tmp_path: Path) -> None:
    one, env = agent(tmp_path), Counting(4)
    hooks = [At("after_timestep", 2, lambda session: session.request_stop("enough"))]
    with one.session(env, hooks) as session:
        assert one.run_episode(env, session).length == 4
        assert session.stop_reason == "enough"
        raised(ValueError, one.run_episode, env, session, match=r"this session was asked to stop \(enough\)")
    assert saved(tmp_path)[-1] == (4, 0, 1)


def test_run_episode_wants_its_session_and_its_environment(tmp_path: Path) -> None:
    one, other, env = agent(tmp_path / "a"), agent(tmp_path / "b"), Counting()
    with one.session(env) as session, other.session(env) as foreign:
        for given in ((Counting(), session), (env, foreign)):
            with pytest.raises(ValueError, match=r"run_episode needs a session opened by agent\.session"):
                one.run_episode(*given)
        raised(ValueError, one.train, env, timesteps=1, match="this Agent has a session open already")
        with pytest.raises(ValueError, match=r"3 timesteps \(first_update\) cannot fill a batch of 4"):
            one.run_episode(env, session, first_update=3)
    raised(ValueError, one.run_episode, env, session, match="run_episode needs a session")
    both, third = vector(Counting(), Counting()), agent(tmp_path / "c")
    with third.session(both) as session, pytest.raises(ValueError, match="this session has 2"):
        third.run_episode(both, session)


def test_a_session_whose_timestep_failed_cannot_be_gone_on_with(tmp_path: Path) -> None:
    one, env = agent(tmp_path), Counting(4)
    notes = Notes()

    def stubborn() -> None:
        with one.session(env, [At("after_timestep", 6, failing("no")), notes]) as session:
            one.run_episode(env, session)
            raised(RuntimeError, one.run_episode, env, session, match="no")
            raised(ValueError, one.run_episode, env, session, match="a timestep of this session failed")

    raised(ValueError, stubborn, match="a timestep of this session failed")
    assert saved(tmp_path) == [(0, 0, 0)]
    assert notes.events[-1][0] == "end"
    assert one.global_timestep == 0  # that of the checkpoint, which is where it would go on


def test_evaluate_in_an_environment_of_its_own_tells_the_hooks(tmp_path: Path) -> None:
    notes, own = Notes(), Counting(6)
    hook = At("after_timestep", 4, lambda session: session.evaluate(own, episodes=2))
    agent(tmp_path).train(vector(Counting(4), Counting(4)), timesteps=6, hooks=[hook, notes])
    (facts,) = notes.facts["after_evaluation"]
    assert (facts.episode_returns, facts.results["episode_length_mean"]) == ((21.0, 21.0), 6.0)
    assert own.seeds[0] != own.seeds[1]


def test_save_policy_keeps_the_actor_s_weights(tmp_path: Path) -> None:
    weights: list[Any] = []

    def keep(session: Any) -> None:
        weights.append(session.weights())
        assert session.save_policy("best", {"mean": 1.5}) == tmp_path / "best.safetensors"

    one = agent(tmp_path).train(Counting(4), 8, timesteps=30, hooks=[At("after_update", 8, keep)])
    arrays, metadata = load_arrays(tmp_path / "best.safetensors")
    assert list(arrays) == ["0000.weights"]
    np.testing.assert_array_equal(arrays["0000.weights"], weights[0]["0000.weights"])
    counters = {"global_step": 1, "global_timestep": 8, "global_episode": 1}
    assert json.loads(metadata["info"]) == {"mean": 1.5, **counters}
    observation = np.ones((1, 2), np.float32)
    best = one.predict(observation, policy="best")["values"]
    np.testing.assert_allclose(best, observation @ arrays["0000.weights"], rtol=1e-6)
    assert not np.array_equal(best, one.predict(observation)["values"])


@pytest.mark.parametrize("name", ["last", "../best"])
def test_a_policy_has_a_plain_name(name: str, tmp_path: Path) -> None:
    hook = At("after_timestep", 2, lambda session: session.save_policy(name, {}))
    with pytest.raises(ValueError, match="a policy's name must be a plain file name"):
        agent(tmp_path).train(Counting(4), timesteps=6, hooks=[hook])


def test_what_a_hook_sees_of_the_session(tmp_path: Path) -> None:
    env = Counting(4)

    def look(session: Any) -> None:
        assert (session.model_dir, session.config.seed) == (tmp_path, 0)
        assert (session.config.observation_space, session.config.action_space) == (
            env.observation_space,
            env.action_space,
        )
        assert (session.exploration, session.weights().keys()) == (0.5, {"0000.weights"})
        assert min(session.timings.environment, session.timings.acting, session.timings.learning) > 0
        session.request_stop("all is seen")

    one = agent(tmp_path).train(env, 8, timesteps=20, hooks=[At("after_timestep", 10, look)])
    assert one.global_timestep == 10
