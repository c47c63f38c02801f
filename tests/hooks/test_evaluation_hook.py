import json
import math
from typing import Any

from axonrl.hooks import EvaluationHook
from axonrl.hooks.events import EndFacts, UpdateFacts
from axonrl.tests.hooks.facts import BEGIN, END, TIMESTEP, begun


def run(hook: EvaluationHook, session: Any, timesteps: Any) -> None:
    for session.global_timestep in timesteps:
        hook.after_timestep(session, TIMESTEP)


def evaluated(session: Any) -> list[int]:
    return [call[1] for call in session.calls if call[0] == "evaluate"]


def saved(session: Any) -> list[Any]:
    return [(call[1], call[2]["episode_return_mean"]) for call in session.calls if call[0] == "save_policy"]


def test_at_each_multiple_and_at_the_end(session: Any) -> None:
    session.evaluations = [1.0, 2.0, 3.0]
    hook = EvaluationHook(every_timesteps=10, episodes=5, env="CartPole-v1")
    hook.prepare(session)
    hook.begin(session, BEGIN)
    assert session.prepared == ("CartPole-v1", 5)
    run(hook, session, range(4, 27, 4))  # 4, 8, 12, 16, 20, 24
    hook.end(session, END)
    assert [call for call in session.calls if call[0] == "evaluate"] == [
        ("evaluate", timestep, "CartPole-v1", 5) for timestep in (12, 20, 24)
    ]


def test_a_resumed_run_goes_on_with_the_multiples(session: Any) -> None:
    session.evaluations = [1.0]
    session.global_timestep = 14
    hook = begun(EvaluationHook(every_timesteps=10), session)
    run(hook, session, range(15, 25))
    assert evaluated(session) == [20]


def test_not_twice_at_the_last_timestep_and_not_after_an_error(session: Any) -> None:
    session.evaluations = [1.0]
    hook = begun(EvaluationHook(every_timesteps=10), session)
    run(hook, session, range(1, 11))
    hook.end(session, END)
    assert evaluated(session) == [10]
    session.global_timestep = 11
    hook.end(session, EndFacts("an error", KeyboardInterrupt(), 1.0))
    assert evaluated(session) == [10]


def test_a_run_that_was_asked_to_stop_ends_at_once_if_it_has_a_best_policy(session: Any) -> None:
    session.evaluations = [1.0, 2.0]
    hook = begun(EvaluationHook(every_timesteps=10), session)
    run(hook, session, range(1, 6))
    stopped = EndFacts("SIGTERM came", None, 1.0, stopped=True)
    hook.end(session, stopped)
    assert evaluated(session) == [5]
    session.global_timestep = 7
    hook.end(session, stopped)
    assert evaluated(session) == [5]


def test_the_best_is_kept_and_of_equals_the_latest(session: Any) -> None:
    session.evaluations = [5.0, 7.0, 6.0, 7.0, -1.0]
    hook = begun(EvaluationHook(every_timesteps=1), session)
    session.global_step, session.global_episode = 3, 2
    run(hook, session, range(1, 6))
    results = {"episodes": 10.0, "episode_return_mean": 7.0}
    kept = [("save_policy", "best", {**results, "episode_return_mean": 5.0}, 1)]
    kept += [("save_policy", "best", results, timestep) for timestep in (2, 4)]
    assert [call for call in session.calls if call[0] == "save_policy"] == kept
    assert hook.best == 7.0


def test_a_mean_that_is_not_a_number_is_never_the_best(session: Any) -> None:
    session.evaluations = [math.nan, -3.0, math.nan]
    hook = begun(EvaluationHook(every_timesteps=1, name="top"), session)
    run(hook, session, (1, 2, 3))
    assert saved(session) == [("top", -3.0)]


def test_the_best_survives_a_resume(session: Any) -> None:
    session.evaluations = [7.0]
    hook = begun(EvaluationHook(every_timesteps=10), session)
    run(hook, session, [10])
    state = json.loads(json.dumps(hook.state_dict()))  # it is kept as JSON
    session.calls.clear()
    session.evaluations = [6.0]
    resumed = begun(EvaluationHook(every_timesteps=10), session, state)
    resumed.end(session, END)  # nothing was done: nothing to evaluate
    run(resumed, session, [20])
    assert evaluated(session) == [20]
    assert saved(session) == []
    assert resumed.best == 7.0


def test_without_keeping_the_best(session: Any) -> None:
    session.evaluations = [7.0]
    hook = begun(EvaluationHook(every_timesteps=1, keep_best=False), session)
    run(hook, session, [1])
    assert saved(session) == []
    assert hook.best == 7.0


def test_stop_at(session: Any) -> None:
    session.evaluations = [474.9, 475.0]
    hook = begun(EvaluationHook(every_timesteps=1, stop_at=475), session)
    run(hook, session, [1])
    assert session.stop_reason is None
    run(hook, session, [2])
    assert session.stop_reason == "the evaluation's mean return, 475, reached 475"


def test_eval_on_batches_is_asked_for_and_kept_with_the_best_policy(session: Any) -> None:
    session.evaluations = [3.0]
    hook = EvaluationHook(every_timesteps=10, episodes=5, eval_batches=8)
    hook.prepare(session)
    hook.begin(session, BEGIN)
    assert session.prepared == (None, 5, 8)
    run(hook, session, range(1, 11))
    assert session.calls[0] == ("evaluate", 10, None, 5, 8)
    _, name, info, _ = session.calls[1]
    assert (name, info["eval_loss"], info["eval/entropy"]) == ("best", 1.5, 0.25)


def test_by_updates_without_timesteps(session: Any) -> None:
    session.evaluations = [1.0, 3.0, 2.0]
    hook = begun(EvaluationHook(every_steps=4, stop_at=3), session)
    for step in range(1, 11):
        session.global_step = session.offline_steps = step
        hook.after_update(session, UpdateFacts(0.5, {}))
        assert (session.stop_reason is None) == (step < 8)
    hook.end(session, END)
    assert evaluated(session) == [0, 0, 0]
    assert saved(session) == [("best", 1.0), ("best", 3.0)]
    hook.end(session, END)  # at the same update
    assert len(evaluated(session)) == 3


def test_by_timesteps_it_evaluates_updates_without_any_at_the_end(session: Any) -> None:
    session.evaluations = [1.0, 2.0]
    hook = EvaluationHook(every_timesteps=10)
    for session.offline_steps in (5, 9):
        session.global_step = session.offline_steps
        hook.begin(session, BEGIN)
        hook.after_update(session, UpdateFacts(0.5, {}))
        hook.end(session, END)
    assert evaluated(session) == [0, 0]
