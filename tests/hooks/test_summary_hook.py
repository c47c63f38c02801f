import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.util.tensor_util import make_ndarray

from axonrl.errors import ArgumentError
from axonrl.facts import BeginFacts, EndFacts, EvaluationFacts, TimestepFacts, Timings, UpdateFacts
from axonrl.hooks import EvaluationHook, Hooks, SummaryHook
from axonrl.hooks.summary import QUEUE_SIZE

BEGIN = BeginFacts(num_envs=1, resumed=False, limits={})
END = EndFacts("done", None, 1.0)
_ROW = np.zeros(1)
TIMESTEP = TimestepFacts(_ROW, _ROW, _ROW, _ROW, _ROW, _ROW)


def read(model_dir: Path) -> list[tuple[int, dict[str, float]]]:
    """Step and values of every event of every file, in order, without the one that opens a file."""
    events = []
    for path in sorted((model_dir / "events").iterdir()):
        for record in RawEventFileLoader(str(path)).Load():
            event = Event.FromString(record)
            if event.summary.value:
                events.append((event.step, {value.tag: value.simple_value for value in event.summary.value}))
    return events


def test_updates_are_written_every_so_many_steps(session: Any, clock: Any) -> None:
    hook = SummaryHook(every_steps=2, weights_every_steps=None, clock=clock)
    hook.begin(session, BEGIN)
    clock.now += 10
    session.global_episode = 3
    session.timings = Timings(environment=5.0, acting=2.5, learning=1.25)
    for session.global_step in (1, 2, 3):
        session.global_timestep = 20 * session.global_step
        hook.after_update(session, UpdateFacts(session.global_step / 4, {"learning_rate": 0.125}))
    hook.end(session, END)
    rates = {"timesteps_per_sec": 4.0, "steps_per_sec": 0.2, "episodes_per_sec": 0.3}
    shares = {"environment_share": 0.5, "acting_share": 0.25, "learning_share": 0.125}
    [(step, values)] = read(session.model_dir)
    assert step == 2
    assert values == pytest.approx(
        {
            "update/loss": 0.5,
            "update/learning_rate": 0.125,
            "update/global_timestep": 40.0,
            "update/global_episode": 3.0,
            **{f"rate/{name}": value for name, value in {**rates, **shares}.items()},
        }
    )


def test_norms_of_floating_weights(session: Any) -> None:
    hook = SummaryHook(every_steps=100, weights_every_steps=2)
    hook.begin(session, BEGIN)
    for session.global_step in range(1, 5):
        hook.after_update(session, UpdateFacts(0.5, {}))
    hook.end(session, END)
    assert read(session.model_dir) == [(2, {"weights/dense/kernel": 5.0}), (4, {"weights/dense/kernel": 5.0})]


def test_episodes_and_evaluations_are_written_at_their_timestep(session: Any) -> None:
    hook = SummaryHook()
    hook.begin(session, BEGIN)
    session.global_timestep, session.global_step = 30, 4
    hook.after_episode(session, session.episode(21.0, length=9, exploration=0.5))
    session.global_timestep = 40
    hook.after_episode(session, session.episode(-2.5, length=10))  # an exploration without a level
    hook.after_evaluation(session, EvaluationFacts({"episode_return_mean": 12.0, "episodes": 10.0}, (12.0,) * 10))
    hook.end(session, END)
    first = {"return": 21.0, "length": 9.0, "exploration": 0.5, "global_step": 4.0, "global_episode": 1.0}
    second = {"return": -2.5, "length": 10.0, "global_step": 4.0, "global_episode": 2.0}
    evaluation = {"episode_return_mean": 12.0, "episodes": 10.0, "global_step": 4.0, "global_episode": 2.0}
    assert read(session.model_dir) == [
        (30, {f"episode/{name}": value for name, value in first.items()}),
        (40, {f"episode/{name}": value for name, value in second.items()}),
        (40, {f"evaluation/{name}": value for name, value in evaluation.items()}),
    ]


def test_a_loss_that_is_not_a_number_is_written(session: Any) -> None:
    hook = SummaryHook(every_steps=1)
    hook.begin(session, BEGIN)
    session.global_step = 1
    hook.after_update(session, UpdateFacts(math.nan, {}))
    hook.end(session, END)
    assert math.isnan(read(session.model_dir)[0][1]["update/loss"])


def test_tensorboard_shows_the_values(session: Any) -> None:
    from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    hook = SummaryHook()
    hook.begin(session, BEGIN)
    for session.global_timestep in (10, 20):
        hook.after_episode(session, session.episode(session.global_timestep / 2.0))
    hook.end(session, END)
    accumulator = EventAccumulator(str(session.model_dir / "events"))
    accumulator.Reload()
    points = [(event.step, float(make_ndarray(event.tensor_proto))) for event in accumulator.Tensors("episode/return")]
    assert points == [(10, 5.0), (20, 10.0)]


def test_a_resumed_session_writes_a_file_of_its_own(session: Any) -> None:
    for _ in range(2):  # the second resumes before what the first wrote last
        hook = SummaryHook()
        hook.begin(session, BEGIN)
        for session.global_timestep in (10, 20):
            hook.after_episode(session, session.episode(1.0))
        hook.end(session, END)
    assert len(list((session.model_dir / "events").iterdir())) == 2
    assert [step for step, _ in read(session.model_dir)] == [10, 20, 10, 20]


def test_what_was_written_before_a_checkpoint_is_on_disk(session: Any) -> None:
    hooks = Hooks([SummaryHook()])
    for call in hooks.begin:
        call(session, BEGIN)
    for call in hooks.after_episode:
        call(session, session.episode(1.0))
    assert hooks.state_dict() == {"SummaryHook:0": {}}
    assert len(read(session.model_dir)) == 1
    hooks.end(session, END)


def test_what_has_waited_long_enough_is_handed_to_the_writer(session: Any, clock: Any) -> None:
    hook = SummaryHook(clock=clock)
    hook.begin(session, BEGIN)
    written: list[int] = []
    hook._writer.add_event = lambda event: written.append(event.step)
    for session.global_timestep in (10, 20):
        hook.after_episode(session, session.episode(1.0))
        clock.now += 2.5
    hook.after_timestep(session, TIMESTEP)  # 5 s after the first of them, which is half of FLUSH_SECS
    assert written == [10, 20]
    clock.now += 100.0
    hook.after_timestep(session, TIMESTEP)
    hook.after_episode(session, session.episode(1.0))
    assert written == [10, 20]
    for session.global_timestep in range(21, 20 + QUEUE_SIZE):
        hook.after_episode(session, session.episode(1.0))
    assert written == [10, 20, 20, *range(21, 20 + QUEUE_SIZE)]
    hook.end(session, END)


def test_the_writers_thread_ends_with_the_run(session: Any) -> None:
    before = set(threading.enumerate())
    hook = SummaryHook()
    hook.begin(session, BEGIN)
    assert len(set(threading.enumerate()) - before) == 1
    hook.end(session, END)
    hook.end(session, END)
    assert set(threading.enumerate()) == before


def test_an_evaluation_in_the_end_of_a_later_hook_is_written(session: Any) -> None:
    hooks = Hooks([SummaryHook(), EvaluationHook(every_timesteps=100)])
    session.listeners = hooks.after_evaluation
    session.evaluations = [12.0]
    for call in hooks.begin:
        call(session, BEGIN)
    session.global_timestep = 50
    hooks.end(session, END)
    [(step, values)] = read(session.model_dir)
    assert step == 50
    assert values["evaluation/episode_return_mean"] == 12.0


def test_end_without_begin(session: Any) -> None:
    SummaryHook().end(session, EndFacts("another hook raised", ValueError(), 0.0))
    assert list(session.model_dir.iterdir()) == []


def histograms(model_dir: Path) -> list[tuple[int, str, Any]]:
    """Step, tag and [bins, 3] (left, right, count) of every histogram."""
    found = []
    for path in sorted((model_dir / "events").iterdir()):
        for record in RawEventFileLoader(str(path)).Load():
            event = Event.FromString(record)
            values = [v for v in event.summary.value if v.metadata.plugin_data.plugin_name == "histograms"]
            found += [(event.step, value.tag, make_ndarray(value.tensor)) for value in values]
    return found


def test_histograms_of_floating_weights(session: Any) -> None:
    """30 bins from the smallest value to the largest; those that are not finite are in none."""
    values = np.array([-1.0, 2.0, 2.0, 0.45, np.nan, np.inf], np.float32)
    session.variables |= {"dense/bias": values, "rate": np.float32(0.5)}
    hook = SummaryHook(every_steps=100, weights_every_steps=2, weights_histograms=True)
    hook.begin(session, BEGIN)
    for session.global_step in range(1, 4):
        hook.after_update(session, UpdateFacts(0.5, {}))
    session.variables["dense/bias"][:] = 0  # what was written is what was there then
    hook.end(session, END)
    found = histograms(session.model_dir)
    tags = ["histogram/dense/kernel", "histogram/dense/bias", "histogram/rate"]
    assert [(step, tag) for step, tag, _ in found] == [(2, tag) for tag in tags]
    kernel, bias, rate = (bins for _, _, bins in found)
    assert kernel.shape == bias.shape == (30, 3)
    assert {i: n for i, n in enumerate(kernel[:, 2]) if n} == {0: 2, 22: 1, 29: 1}  # 0, 0; 3 of 4 is 22.5 of 30; 4
    assert {i: n for i, n in enumerate(bias[:, 2]) if n} == {0: 1, 14: 1, 29: 2}  # 0.45 is 14.5 widths above -1
    assert bias[:, 0] == pytest.approx(np.linspace(-1, 2, 31)[:-1])
    assert bias[:, 1] == pytest.approx(np.linspace(-1, 2, 31)[1:])
    assert rate[-1].tolist() == [0.5, 0.5, 1]
    norms = {"weights/dense/kernel": 5.0, "weights/dense/bias": math.nan, "weights/rate": 0.5}
    step, written = read(session.model_dir)[0]
    assert step == 2
    assert written == pytest.approx(norms, nan_ok=True)


def test_no_histograms_unless_asked_for(session: Any) -> None:
    hook = SummaryHook(weights_every_steps=1)
    hook.begin(session, BEGIN)
    hook.after_update(session, UpdateFacts(0.5, {}))
    hook.end(session, END)
    assert histograms(session.model_dir) == []


@pytest.mark.parametrize(
    ("argument", "arguments"),
    [
        ("every_steps", {"every_steps": 0}),
        ("weights_every_steps", {"weights_every_steps": 0}),
        ("weights_histograms", {"weights_histograms": 1}),
        ("weights_every_steps", {"weights_histograms": True, "weights_every_steps": None}),
    ],
)
def test_arguments_are_checked(argument: str, arguments: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        SummaryHook(**arguments)
    assert (caught.value.argument, caught.value.value) == (f"SummaryHook({argument})", arguments[argument])


def test_messages_about_histograms() -> None:
    wrong: Any = 1
    with pytest.raises(ArgumentError, match=r"SummaryHook\(weights_histograms\) must be true or false, got 1"):
        SummaryHook(weights_histograms=wrong)
    with pytest.raises(ArgumentError, match=r"\(weights_histograms\) needs weights_every_steps, got None"):
        SummaryHook(weights_every_steps=None, weights_histograms=True)


def test_what_eval_found_is_written_with_the_evaluation(session: Any) -> None:
    session.evaluations = [3.0]
    summary, evaluation = SummaryHook(), EvaluationHook(10, episodes=2, eval_batches=1)
    session.listeners = Hooks([summary, evaluation]).after_evaluation
    summary.begin(session, BEGIN)
    evaluation.begin(session, BEGIN)
    session.global_timestep = 10
    evaluation.after_timestep(session, TIMESTEP)
    summary.end(session, END)
    [(step, values)] = read(session.model_dir)
    assert step == 10
    assert {tag: values[tag] for tag in ("evaluation/eval_loss", "evaluation/eval/entropy")} == {
        "evaluation/eval_loss": 1.5,
        "evaluation/eval/entropy": 0.25,
    }
